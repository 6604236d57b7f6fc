"""The seccomp filter: which system calls a sandboxed program is answered, and which are refused.

An allowlist. What is not on it fails with EPERM, and what is newer than it with ENOSYS, so that
libraries fall back to what they used before; a foreign architecture ends the process.
"""

import errno
import platform

from activities.sandbox.confinement import bpf
from activities.sandbox.confinement.syscalls import groups

# Stands in a filter for the pid of the program, which is known only once it is started.
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


def build_filter(
    sockets: bool, signals: bool = True, own_user: bool = True, machine: str | None = None
) -> bytes:
    """Build the filter for prctl, or for `bwrap --seccomp`: an array of struct sock_filter.

    `sockets`: the program has a network of its own, so that AF_UNIX and AF_INET(6) may be used;
    without it only a connected AF_UNIX pair can be had. `signals`: something else keeps signals
    inside; without it the program signals its first process alone, whose pid stands as
    `OWN_PID`. `own_user`: the program's user owns nothing else. `machine` as `platform.machine`
    gives it; ValueError for one without a list of system calls.
    """
    machine = machine or platform.machine()
    known = groups(machine)
    program = [
        *_foreign(machine),
        *_checked(known["checked"], sockets),
        *_signalling(known["signals"], signals),
        *_owning(known, own_user),
        *bpf.ranges(known["missing"].values(), bpf.fail(errno.ENOSYS)),
        *bpf.ranges(_always(known, sockets), bpf.answer(bpf.ALLOW)),
        *_rest(known),
    ]
    return bpf.encode(program)


def _foreign(machine: str) -> bpf.Block:
    own = bpf.Instruction(bpf.JUMP_EQUAL, 1, 0, _ARCHITECTURES[machine])
    kill = bpf.answer(bpf.KILL_PROCESS)
    # Under x86_64's number with this bit the kernel makes the calls of the x32 ABI.
    x32 = bpf.Instruction(bpf.JUMP_AT_LEAST, 0, 1, _X32)
    return [bpf.load(bpf.ARCHITECTURE), own, kill, bpf.load(bpf.NUMBER), x32, kill]


def _checked(numbers: dict[str, int], sockets: bool) -> bpf.Block:
    pair = [*bpf.one_of(0, [_UNIX]), *bpf.one_of(1, [_STREAM], _SOCKET_TYPE)]
    guards = {
        # A datagram socket, even one of a pair, sends to whom it names.
        "socketpair": bpf.one_of(0, [_UNIX]) if sockets else pair,
        # A thread with descriptors of its own would keep files that nobody looks for.
        "clone": [
            *bpf.without_bits(0, _NEW_NAMESPACES | _CLONE_PARENT),
            *bpf.none_of(0, [_CLONE_THREAD], _CLONE_THREAD | _CLONE_FILES),
        ],
        "close_range": bpf.without_bits(2, _CLOSE_RANGE_UNSHARE),
        "ioctl": bpf.one_of(1, _IOCTLS),
        "fcntl": bpf.none_of(1, _SIGNAL_BY_FILE),
        "prctl": bpf.one_of(0, _PRCTLS),
        "personality": bpf.one_of(0, [_LINUX, _ASK]),
        # These reach other processes of the same user, and change them.
        "prlimit64": bpf.one_of(0, [0]),
        "setpriority": [*bpf.one_of(0, [0]), *bpf.one_of(1, [0])],
        "sched_setaffinity": bpf.one_of(0, [0]),
        "mknod": bpf.one_of(1, [0, _REGULAR, _FIFO], _FILE_TYPE),
        "mknodat": bpf.one_of(2, [0, _REGULAR, _FIFO], _FILE_TYPE),
        "socket": _socket() if sockets else [bpf.fail()],
    }
    return [each for name in numbers for each in bpf.when(numbers[name], guards[name])]


def _socket() -> bpf.Block:
    return [
        *bpf.one_of(0, [_UNIX, _INET, _INET6]),
        *bpf.one_of(1, [_STREAM, _DATAGRAM], _SOCKET_TYPE),
        *bpf.one_of(2, [0, _TCP, _UDP]),
    ]


def _signalling(numbers: dict[str, int], signals: bool) -> bpf.Block:
    if signals:
        return bpf.ranges(numbers.values(), bpf.answer(bpf.ALLOW))
    # kill(0) reaches the program's own group, which it leads.
    own = {name: [OWN_PID] for name in ("tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")}
    return [
        each
        for name, pids in {**own, "kill": [0, OWN_PID]}.items()
        for each in bpf.when(numbers[name], bpf.one_of(0, pids))
    ]


def _owning(known: dict[str, dict[str, int]], own_user: bool) -> bpf.Block:
    attributes, owner = known["attributes"].values(), known["owner"].values()
    if own_user:
        return bpf.ranges([*attributes, *owner], bpf.answer(bpf.ALLOW))
    # Opened to be read alone, a file of the worker's is still emptied, if by an older Landlock.
    emptied = {"open": 1, "openat": 2}
    opening = [
        each
        for name, index in emptied.items()
        if name in known["always"]
        for each in bpf.when(
            known["always"][name], bpf.none_of(index, [_TRUNCATE], _TRUNCATE | _ACCESS)
        )
    ]
    unread = bpf.ranges([known["always"]["openat2"]], bpf.fail(errno.ENOSYS))
    return [*bpf.ranges(attributes, bpf.fail(0)), *opening, *unread]


def _always(known: dict[str, dict[str, int]], sockets: bool) -> list[int]:
    return [*known["always"].values(), *(known["sockets"].values() if sockets else ())]


def _rest(known: dict[str, dict[str, int]]) -> bpf.Block:
    newest = max(number for group in known.values() for number in group.values())
    newer = bpf.Instruction(bpf.JUMP_GREATER, 0, 1, newest)
    return [newer, bpf.fail(errno.ENOSYS), bpf.fail()]
