"""The programs of the self-test: each tries what a sandbox must refuse, or must allow."""

from collections.abc import Callable
from dataclasses import dataclass

from activities.sandbox.port import Program, Result
from reflection.multipath.request import Limits


@dataclass(frozen=True)
class Targets:
    """What the worker puts in a program's way: none of it may be reached.

    `port` and `name` are of listeners, `file` of a file with the word `secret`, which is in the
    worker's environment too; `pid` is of a process of the worker's.
    """

    port: int
    name: str
    file: str
    secret: str
    pid: int


@dataclass(frozen=True)
class Probe:
    """A program, and what its result must be; `said` is what doctor shows where it is."""

    name: str
    said: str
    program: Callable[[Targets], Program]
    passes: Callable[[Result], bool]


_RUN = Limits(wall_seconds=20, cpu_seconds=10)

_PYTHON = "import numpy, pytest\nprint(int(numpy.arange(4).sum()))"
_NETWORK = """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_UNIX, "\\0{name}")):
    try:
        made = socket.socket(family)
        made.settimeout(1)
        made.connect(address)
        print("reached", address)
    except OSError:
        pass
"""
_FILES = """
import os
for act in (
    lambda: open({file!r}).read(),
    lambda: open({file!r}, "a"),
    lambda: open("/etc/hostname").read(),
    lambda: open("/usr/planted", "w"),
    lambda: os.listdir(os.path.dirname({file!r})),
):
    try:
        act()
        print("reached")
    except OSError:
        pass
open("mine", "w").write("kept")
assert open("mine").read() == "kept"
"""
_ENVIRONMENT = """
import os, sys
print(dict(os.environ), sys.orig_argv)
for pid in ("self", {pid}, os.getppid(), 1):
    try:
        print(open(f"/proc/{{pid}}/environ").read())
    except OSError:
        pass
"""
_PROCESSES = """
import os, signal
for kind in (signal.SIGSTOP, signal.SIGKILL):
    try:
        os.kill({pid}, kind)
    except OSError:
        pass
"""
_CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
done = [name for name, act in {
    "unshare": lambda: libc.unshare(0x10000000),
    "ptrace": lambda: libc.ptrace(16, os.getppid(), 0, 0),
    "mount": lambda: libc.mount(b"none", b"/", b"tmpfs", 0, 0),
    "chroot": lambda: libc.chroot(b"."),
}.items() if act() == 0]
assert not done, done
assert os.getuid() != 0 or libc.setuid(12345) != 0, "root"
"""
_MEMORY = "x = bytearray(256 << 20)\nprint(len(x))"
_TIME = "while True:\n    pass"
_OUTPUT = "while True:\n    print('x' * 1000)"
_DISK = """
for number in range(64):
    with open(str(number), "wb", buffering=0) as file:
        file.write(b"x" * (1 << 20))
"""


def _of(code: str, limits: Limits = _RUN) -> Callable[[Targets], Program]:
    return lambda _: Program(code=code, limits=limits)


def _aimed(code: str) -> Callable[[Targets], Program]:
    return lambda targets: Program(code=code.format(**vars(targets)), limits=_RUN)


def _status(*expected: str) -> Callable[[Result], bool]:
    return lambda result: result.status in expected


def _silent(result: Result) -> bool:
    return result.status == "ok" and not result.stdout.size


PROBES = (
    Probe(
        "python",
        "numpy and pytest can be imported",
        _of(_PYTHON),
        lambda result: result.status == "ok" and result.stdout.text == "6\n",
    ),
    Probe("network", "neither TCP nor a local socket can be reached", _aimed(_NETWORK), _silent),
    Probe("files", "the worker's files can't be read or written", _aimed(_FILES), _silent),
    Probe(
        "environment", "the worker's environment can't be seen", _aimed(_ENVIRONMENT), _status("ok")
    ),
    Probe(
        "processes",
        "the worker's processes can't be signalled",
        _aimed(_PROCESSES),
        _status("ok", "killed_by_signal", "timeout"),
    ),
    Probe("system calls", "those that reach the kernel itself are refused", _of(_CALLS), _silent),
    Probe(
        "memory",
        "a program with a limit of 64 MB can't take 256 MB",
        _of(_MEMORY, _RUN.model_copy(update={"memory_mb": 64})),
        _status("memory_limit"),
    ),
    Probe(
        "time",
        "an endless loop is ended",
        _of(_TIME, _RUN.model_copy(update={"wall_seconds": 0.3})),
        _status("timeout", "cpu_limit"),
    ),
    Probe(
        "output",
        "endless output is ended",
        _of(_OUTPUT, _RUN.model_copy(update={"output_bytes": 10_000})),
        _status("output_limit"),
    ),
    Probe(
        "disk",
        "a program with a limit of 8 MB can't write 64 MB",
        _of(_DISK, _RUN.model_copy(update={"disk_mb": 8})),
        _status("disk_limit", "error"),
    ),
)
