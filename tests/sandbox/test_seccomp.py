"""The seccomp filter, interpreted for chosen system calls and loaded into a process."""

import errno
import platform
import struct
import subprocess
import sys

import pytest

from activities.sandbox.seccomp import MACHINES, OWN_PID, build_filter, groups
from tests.patience import PATIENCE

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003}


def answer(program: bytes, architecture: str, number: int, *arguments: int) -> str:
    """Return what the filter answers: "allow", "kill", the name of an error, or "done" for none."""
    words = [each & 0xFFFF_FFFF_FFFF_FFFF for each in (*arguments, *(0,) * 6)][:6]
    data = struct.pack("<IIQ6Q", number, ARCHITECTURES[architecture], 0, *words)
    action = _run(list(struct.iter_unpack("<HBBI", program)), data)
    match action >> 16:
        case 0x7FFF:
            return "allow"
        case 0x8000:
            return "kill"
        case 0x0005:
            return errno.errorcode.get(action & 0xFFFF, "done")
    raise AssertionError(f"no answer of seccomp: {action:#x}")


def number_of(name: str, machine: str = "x86_64") -> int:
    """Return the number of a system call that a filter knows."""
    return next(group[name] for group in groups(machine).values() if name in group)


def _run(program: list[tuple[int, ...]], data: bytes) -> int:
    at = accumulator = 0
    while True:
        code, true, false, constant = program[at]
        at += 1
        match code:
            case 0x20:
                accumulator = struct.unpack_from("<I", data, constant)[0]
            case 0x54:
                accumulator &= constant
            case 0x06:
                return constant
            case 0x15:
                at += true if accumulator == constant else false
            case 0x25:
                at += true if accumulator > constant else false
            case 0x35:
                at += true if accumulator >= constant else false
            case 0x45:
                at += true if accumulator & constant else false
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")


NAMESPACES = 0x7E020000
REFUSED = (
    "mount umount2 pivot_root chroot unshare setns ptrace process_vm_readv process_vm_writev "
    "process_madvise pidfd_getfd kcmp bpf perf_event_open userfaultfd memfd_secret keyctl add_key "
    "request_key name_to_handle_at open_by_handle_at fanotify_init quotactl clock_settime "
    "clock_adjtime adjtimex settimeofday init_module finit_module delete_module kexec_load reboot "
    "swapon swapoff acct syslog move_pages migrate_pages shmget shmat msgget semget mq_open "
    "sethostname setdomainname sched_setscheduler sched_setattr ioprio_set fsopen fsmount "
    "open_tree move_mount seccomp inotify_init1 io_setup vmsplice"
)


# The numbers of what is refused, which the filter itself does not know.
X86_64 = dict(
    zip(
        REFUSED.split(),
        [
            165, 166, 155, 161, 272, 308, 101, 310, 311,
            440, 438, 312, 321, 298, 323, 447, 250, 248,
            249, 303, 304, 300, 179, 227,
            305, 159, 164, 175, 313, 176, 246, 169,
            167, 168, 163, 103, 279, 256, 29, 30, 68, 64, 240,
            170, 171, 144, 314, 251, 430, 432,
            428, 429, 317, 294, 206, 278,
        ],
        strict=True,
    )
)  # fmt: skip


@pytest.mark.parametrize("name", X86_64)
def test_refuses(name: str) -> None:
    """What reaches other processes, other files or the kernel itself fails with EPERM."""
    assert answer(build_filter(sockets=True, machine="x86_64"), "x86_64", X86_64[name]) == "EPERM"


# A call, and the arguments with which it is allowed, and with which it fails with an error.
BY_ARGUMENTS: list[tuple[str, list[tuple[int, ...]], list[tuple[int, ...]], str]] = [
    ("read", [(0, 0, 0)], [], ""),
    ("openat", [(-100, 0, 0)], [], ""),
    ("execve", [(0, 0, 0)], [], ""),
    (
        "clone",
        [(0x11,), (0x3D0F00,)],
        [(0x10000011,), (0x40000011,), (0x20011,), (0x8011,), (0x3D0B00,)],
        "EPERM",
    ),
    ("close_range", [(3, 9, 0), (3, 9, 4)], [(3, 9, 2), (3, 9, 6)], "EPERM"),
    ("clone3", [], [(0, 88)], "ENOSYS"),
    ("memfd_create", [], [(0, 0)], "ENOSYS"),
    ("io_uring_setup", [], [(8, 0)], "ENOSYS"),
    ("ioctl", [(0, 0x5401)], [(0, 0x5412), (0, 0x541C), (0, 0x1_0000_5412)], "EPERM"),
    ("fcntl", [(0, 3)], [(0, 8), (0, 10), (0, 15)], "EPERM"),
    ("prctl", [(15, 0)], [(22, 2), (35, 8)], "EPERM"),
    ("personality", [(0,), (0xFFFFFFFF,)], [(0x0400000,)], "EPERM"),
    ("prlimit64", [(0, 7)], [(1, 0)], "EPERM"),
    ("setpriority", [(0, 0, 5)], [(2, 0, 19), (0, 1, 19)], "EPERM"),
    ("sched_setaffinity", [(0, 8)], [(1, 8)], "EPERM"),
    ("mknodat", [(-100, 0, 0o10600)], [(-100, 0, 0o60600), (-100, 0, 0o20600)], "EPERM"),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "allowed", "refused", "error"), BY_ARGUMENTS)
def test_looks_at_arguments(
    machine: str,
    name: str,
    allowed: list[tuple[int, ...]],
    refused: list[tuple[int, ...]],
    error: str,
) -> None:
    """A call that can do harm is answered by what it asks for, on both architectures alike."""
    program, number = build_filter(sockets=False, machine=machine), number_of(name, machine)

    got = [answer(program, machine, number, *arguments) for arguments in (*allowed, *refused)]

    assert got == ["allow"] * len(allowed) + [error] * len(refused)


@pytest.mark.parametrize(
    ("architecture", "number", "expected"),
    [
        ("i386", 3, "kill"),
        ("aarch64", 63, "kill"),
        ("x86_64", 0x40000000, "kill"),
        ("x86_64", 0x40000000 | 101, "kill"),
        ("x86_64", 100_000, "ENOSYS"),
        ("x86_64", 5_000_000, "ENOSYS"),
    ],
)
def test_foreign_and_new(architecture: str, number: int, expected: str) -> None:
    """A foreign ABI ends the process, and a call that is newer than the list is not known."""
    assert answer(build_filter(sockets=True, machine="x86_64"), architecture, number) == expected


def test_no_list_for_a_machine() -> None:
    """A machine without a list of system calls is named."""
    with pytest.raises(ValueError, match="riscv64"):
        build_filter(sockets=False, machine="riscv64")


LOADED = """
import ctypes, errno, os, socket, subprocess, sys
program = bytes.fromhex(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("at", ctypes.c_char_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(len(program) // 8, program))) == 0
for attempt in (
    lambda: socket.socket(),
    lambda: socket.socketpair(),
    lambda: os.memfd_create("x"),
    lambda: os.kill(os.getpid(), 0),
    lambda: subprocess.run([sys.executable, "-I", "-c", "print('child', flush=True)"], check=True),
    lambda: open("/dev/null").close(),
):
    try:
        attempt()
        print("done", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
"""


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no list of system calls")
def test_the_kernel_takes_it() -> None:
    """Loaded into a process it refuses what it should, and Python and its children go on."""
    program = build_filter(sockets=False)

    ran = subprocess.run(
        [sys.executable, "-I", "-c", LOADED, program.hex()],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    expected = ["EPERM", "done", "ENOSYS", "done", "child", "done", "done"]
    assert (ran.stdout.split(), ran.stderr) == (expected, "")


# A setting, a call, arguments of it, and the answer to each with and without what is set: with a
# network of its own a program has sockets, else a connected pair alone; where something else keeps
# signals inside it may send any, else to itself and its group; and with a user of its own it may
# change modes, owners and sizes of files, else not those of the worker, whose user it has.
BY_SETTING: list[tuple[str, str, list[tuple[int, ...]], str, str]] = [
    ("sockets", "socket", [(1, 1, 0), (2, 1, 6), (10, 0x80802, 17)], "allow", "EPERM"),
    ("sockets", "socket", [(2, 3, 1), (2, 1, 262), (2, 5, 132)], "EPERM", "EPERM"),
    ("sockets", "socket", [(16, 3, 0), (17, 3, 0), (38, 5, 0), (40, 1, 0)], "EPERM", "EPERM"),
    ("sockets", "socketpair", [(1, 0x80001, 0)], "allow", "allow"),
    ("sockets", "socketpair", [(1, 2, 0)], "allow", "EPERM"),
    ("sockets", "socketpair", [(30, 1, 0)], "EPERM", "EPERM"),
    ("sockets", "connect", [(3,)], "allow", "EPERM"),
    ("sockets", "bind", [(3,)], "allow", "EPERM"),
    ("sockets", "listen", [(3,)], "allow", "EPERM"),
    ("sockets", "sendto", [(3,)], "allow", "allow"),
    ("signals", "kill", [(OWN_PID,), (0,)], "allow", "allow"),
    ("signals", "kill", [(1,), (-1,), (-OWN_PID,)], "allow", "EPERM"),
    ("signals", "tgkill", [(OWN_PID,)], "allow", "allow"),
    ("signals", "tgkill", [(1,)], "allow", "EPERM"),
    ("signals", "tkill", [(OWN_PID,)], "allow", "EPERM"),
    ("signals", "rt_sigqueueinfo", [(1,)], "allow", "EPERM"),
    ("signals", "pidfd_send_signal", [(3,)], "allow", "EPERM"),
    ("own_user", "fchmodat", [()], "allow", "done"),
    ("own_user", "fchownat", [()], "allow", "done"),
    ("own_user", "utimensat", [()], "allow", "done"),
    ("own_user", "truncate", [()], "allow", "EPERM"),
    ("own_user", "ftruncate", [()], "allow", "allow"),
    ("own_user", "openat", [(-100, 0, 0o1102), (-100, 0, 0o1101)], "allow", "allow"),
    ("own_user", "openat", [(-100, 0, 0o0)], "allow", "allow"),
    ("own_user", "openat", [(-100, 0, 0o1000)], "allow", "EPERM"),
    ("own_user", "openat2", [()], "allow", "ENOSYS"),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("setting", "name", "given", "with_it", "without"), BY_SETTING)
def test_looks_at_settings(
    machine: str,
    setting: str,
    name: str,
    given: list[tuple[int, ...]],
    with_it: str,
    without: str,
) -> None:
    """What a program may do depends on what else confines it."""
    for value, expected in ((True, with_it), (False, without)):
        program = build_filter(**{"sockets": False, setting: value}, machine=machine)
        got = [answer(program, machine, number_of(name, machine), *each) for each in given]
        assert got == [expected] * len(given)
