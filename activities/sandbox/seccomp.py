"""The seccomp filter: which system calls a sandboxed program may make.

It is an allowlist. Other calls fail with EPERM, and calls newer than the list with ENOSYS, so that
libraries fall back to older ones; a foreign architecture ends the process.

It is written in classic BPF. A guard refuses the call or falls through, and the instruction after
the last guard is the answer. So jumps stay inside their block, and need no labels.
"""

import errno
import platform
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

MACHINES = ("x86_64", "aarch64")

LOAD = 0x20
JUMP_EQUAL = 0x15
JUMP_GREATER = 0x25
JUMP_AT_LEAST = 0x35
JUMP_ANY_BIT = 0x45
AND = 0x54
RETURN = 0x06

# struct seccomp_data: the number, the architecture, the instruction pointer, six arguments.
NUMBER = 0
ARCHITECTURE = 4
ARGUMENTS = 16

# A placeholder in a filter for the program's pid, which is known only when it has started.
OWN_PID = 0x7FFF_FFF1

_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32 = 0x4000_0000
_NEW_NAMESPACES = 0x7E02_0000
_CLONE_PARENT = 0x8000
_CLONE_FILES, _CLONE_THREAD = 0x400, 0x10000
_CLOSE_RANGE_UNSHARE = 2
_UNIX, _INET, _INET6 = 1, 2, 10
_STREAM, _DATAGRAM = 1, 2
_SOCKET_TYPE = 0xF
_TCP, _UDP = 6, 17
_FILE_TYPE = 0xF000
_REGULAR, _FIFO = 0x8000, 0x1000
# F_SETOWN, F_SETSIG, F_SETOWN_EX: the kernel would send any signal to any process of the user.
_SIGNAL_BY_FILE = (8, 10, 15)
# TCGETS, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS2, FICLONE.
_IOCTLS = (0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C_542A, 0x4004_9409)
# Parent-death signal, dumpable, keep capabilities, name, bounding set, subreaper,
# no_new_privs, and the names glibc gives to memory.
_PRCTLS = (1, 2, 3, 4, 7, 8, 15, 16, 23, 24, 36, 37, 38, 39, 0x5356_4D41)
_LINUX, _ASK = 0, 0xFFFF_FFFF
_TRUNCATE, _ACCESS = 0o1000, 3


class Instruction(NamedTuple):
    """One struct sock_filter: operation, constant, jump where true, jump where not."""

    code: int
    constant: int
    true: int = 0
    false: int = 0


Block = list[Instruction]


ALLOW = Instruction(RETURN, 0x7FFF_0000)
KILL_PROCESS = Instruction(RETURN, 0x8000_0000)


def _fail(number: int = errno.EPERM) -> Instruction:
    """Return an error, or success if the number is 0, without making the call."""
    return Instruction(RETURN, 0x0005_0000 | number)


def _when(system_call: int, guards: Block) -> Block:
    """Allow one system call if all its guards let it through."""
    return [Instruction(JUMP_EQUAL, system_call, 0, len(guards) + 1), *guards, ALLOW]


def _argument(index: int, mask: int | None = None) -> Block:
    """Load the low half of an argument, or what a mask leaves of it.

    The kernel takes pids, commands, families and flags as 32 bits.
    """
    loaded = Instruction(LOAD, ARGUMENTS + 8 * index)
    return [loaded] if mask is None else [loaded, Instruction(AND, mask)]


def _one_of(index: int, values: Sequence[int], mask: int | None = None) -> Block:
    """Refuse if an argument, or what a mask leaves of it, is not one of these values."""
    count = len(values)
    found = [Instruction(JUMP_EQUAL, value, count - i) for i, value in enumerate(values)]
    return [*_argument(index, mask), *found, _fail()]


def _none_of(index: int, values: Sequence[int], mask: int | None = None) -> Block:
    """Refuse if an argument, or what a mask leaves of it, is one of these values."""
    found = [step for value in values for step in (Instruction(JUMP_EQUAL, value, 0, 1), _fail())]
    return [*_argument(index, mask), *found]


def _without_bits(index: int, bits: int) -> Block:
    """Refuse if one of these bits is set in an argument."""
    return [*_argument(index), Instruction(JUMP_ANY_BIT, bits, 0, 1), _fail()]


def _ranges(numbers: Iterable[int], then: Instruction) -> Block:
    """Give one answer for many system calls, comparing neighbours together."""
    spans: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    block: Block = []
    for low, high in spans:
        block += [Instruction(JUMP_AT_LEAST, low, 0, 2), Instruction(JUMP_GREATER, high, 1), then]
    return block


@cache
def build_filter(
    sockets: bool, signals: bool = True, own_user: bool = True, machine: str | None = None
) -> bytes:
    """Build the filter for prctl, or for `bwrap --seccomp`: an array of struct sock_filter.

    `sockets`: the program has its own network, so it may use AF_UNIX and AF_INET(6); otherwise
    only a connected AF_UNIX pair. `signals`: something else keeps signals inside; otherwise the
    program may signal only its first process, whose pid is written as `OWN_PID`. `own_user`: the
    program's user owns nothing else. `machine` is as from `platform.machine`. Raises ValueError for
    a machine without a list of system calls.
    """
    machine = machine or platform.machine()
    known = groups(machine)
    allowed = [*known["always"].values(), *(known["sockets"].values() if sockets else ())]
    newest = max(number for group in known.values() for number in group.values())
    program = [
        Instruction(LOAD, ARCHITECTURE),
        Instruction(JUMP_EQUAL, _ARCHITECTURES[machine], 1),
        KILL_PROCESS,
        Instruction(LOAD, NUMBER),
        # With this bit in the number, x86_64 kernels make the calls of the x32 ABI.
        Instruction(JUMP_AT_LEAST, _X32, 0, 1),
        KILL_PROCESS,
        *_checked(known["checked"], sockets),
        *_signalling(known["signals"], signals),
        *_owning(known, own_user),
        *_ranges(known["missing"].values(), _fail(errno.ENOSYS)),
        *_ranges(allowed, ALLOW),
        Instruction(JUMP_GREATER, newest, 0, 1),
        _fail(errno.ENOSYS),
        _fail(),
    ]
    return b"".join(
        struct.pack("<HBBI", code, true, false, constant) for code, constant, true, false in program
    )


def _checked(numbers: dict[str, int], sockets: bool) -> Block:
    pair = [*_one_of(0, [_UNIX]), *_one_of(1, [_STREAM], _SOCKET_TYPE)]
    networked = [
        *_one_of(0, [_UNIX, _INET, _INET6]),
        *_one_of(1, [_STREAM, _DATAGRAM], _SOCKET_TYPE),
        *_one_of(2, [0, _TCP, _UDP]),
    ]
    guards = {
        # A datagram socket, even one of a pair, can send to any address.
        "socketpair": _one_of(0, [_UNIX]) if sockets else pair,
        # A thread with its own descriptors could hold files that the watcher does not see.
        "clone": [
            *_without_bits(0, _NEW_NAMESPACES | _CLONE_PARENT),
            *_none_of(0, [_CLONE_THREAD], _CLONE_THREAD | _CLONE_FILES),
        ],
        "close_range": _without_bits(2, _CLOSE_RANGE_UNSHARE),
        "ioctl": _one_of(1, _IOCTLS),
        "fcntl": _none_of(1, _SIGNAL_BY_FILE),
        "prctl": _one_of(0, _PRCTLS),
        "personality": _one_of(0, [_LINUX, _ASK]),
        # These reach other processes of the same user, and change them.
        "prlimit64": _one_of(0, [0]),
        "setpriority": [*_one_of(0, [0]), *_one_of(1, [0])],
        "sched_setaffinity": _one_of(0, [0]),
        "mknod": _one_of(1, [0, _REGULAR, _FIFO], _FILE_TYPE),
        "mknodat": _one_of(2, [0, _REGULAR, _FIFO], _FILE_TYPE),
        "socket": networked if sockets else [_fail()],
    }
    return [step for name in numbers for step in _when(numbers[name], guards[name])]


def _signalling(numbers: dict[str, int], signals: bool) -> Block:
    if signals:
        return _ranges(numbers.values(), ALLOW)
    # kill(0) reaches the program's own group, which it leads.
    own = {name: [OWN_PID] for name in ("tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")}
    return [
        step
        for name, pids in {**own, "kill": [0, OWN_PID]}.items()
        for step in _when(numbers[name], _one_of(0, pids))
    ]


def _owning(known: dict[str, dict[str, int]], own_user: bool) -> Block:
    attributes, owner = known["attributes"].values(), known["owner"].values()
    if own_user:
        return _ranges([*attributes, *owner], ALLOW)
    # O_TRUNC empties a file that is opened only to be read, which older Landlock does not stop.
    emptied = {"open": 1, "openat": 2}
    opening = [
        step
        for name, index in emptied.items()
        if name in known["always"]
        for step in _when(known["always"][name], _none_of(index, [_TRUNCATE], _TRUNCATE | _ACCESS))
    ]
    unread = _ranges([known["always"]["openat2"]], _fail(errno.ENOSYS))
    return [*_ranges(attributes, _fail(0)), *opening, *unread]


@cache
def groups(machine: str) -> dict[str, dict[str, int]]:
    """Return the numbers of a machine's calls, by name in their group.

    Raises ValueError for a machine other than x86_64 and aarch64.
    """
    if machine not in MACHINES:
        raise ValueError(f"no list of system calls for {machine}: use x86_64 or aarch64")
    column = 1 + MACHINES.index(machine)
    found: dict[str, dict[str, int]] = {}
    for line in Path(__file__).with_name("syscalls.txt").read_text("ascii").splitlines():
        if line.startswith("["):
            group = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#") and (words := line.split())[column] != "-":
            group[words[0]] = int(words[column])
    return found
