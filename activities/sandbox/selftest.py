"""Choosing the sandbox by trying each: one that fails is not used, and no code runs without one.

SandboxError
    NoSandboxError     none passes, or the one that was asked for does not
"""

import asyncio
import os
import platform
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from activities.sandbox.backend import Backend, base_python
from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.landlock import Landlock
from activities.sandbox.limits import most_at_once
from activities.sandbox.port import Program, Result, SandboxError
from activities.sandbox.sandbox import ProcessSandbox
from reflection.multipath.request import Limits

_VARIABLE = "MULL_SELF_TEST"
_SLEEP = "import time; time.sleep(600)"


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
        _of("import numpy, pytest\nprint(int(numpy.arange(4).sum()))"),
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
        _of("x = bytearray(256 << 20)\nprint(len(x))", _RUN.model_copy(update={"memory_mb": 64})),
        _status("memory_limit"),
    ),
    Probe(
        "time",
        "an endless loop is ended",
        _of("while True:\n    pass", _RUN.model_copy(update={"wall_seconds": 0.3})),
        _status("timeout", "cpu_limit"),
    ),
    Probe(
        "output",
        "endless output is ended",
        _of("while True:\n    print('x' * 1000)", _RUN.model_copy(update={"output_bytes": 10_000})),
        _status("output_limit"),
    ),
    Probe(
        "disk",
        "a program with a limit of 8 MB can't write 64 MB",
        _of(_DISK, _RUN.model_copy(update={"disk_mb": 8})),
        _status("disk_limit", "error"),
    ),
)


class Placed:
    """Targets that are there, and whether a program has reached one."""

    def __init__(self, stack: ExitStack) -> None:
        secret = secrets.token_hex(16)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mull-self-test-")))
        (folder / "secret").write_text(secret)
        # Anybody could read it, so that it is the sandbox that hides it.
        folder.chmod(0o755)
        self._process = subprocess.Popen(  # noqa: S603 - the worker's own Python
            [base_python(), "-I", "-S", "-c", _SLEEP], env={_VARIABLE: secret}
        )
        stack.callback(self._process.wait)
        stack.callback(self._process.kill)
        tcp = _listening(stack, socket.AF_INET, ("127.0.0.1", 0))
        name = f"mull-self-test-{secrets.token_hex(8)}"
        self._listeners = (tcp, _listening(stack, socket.AF_UNIX, f"\0{name}"))
        port = tcp.getsockname()[1]
        self.targets = Targets(port, name, str(folder / "secret"), secret, self._process.pid)

    def reached(self, result: Result) -> str | None:
        """Say which target was reached, if one was."""
        if self.targets.secret in result.stdout.text + result.stderr.text:
            return "a program read a secret of the worker's"
        if any(_accepts(listener) for listener in self._listeners):
            return "a program connected to the worker"
        if self._process.poll() is not None or _is_stopped(self._process.pid):
            return "a program signalled a process of the worker's"
        return None


def _listening(stack: ExitStack, family: int, address: object) -> socket.socket:
    made = stack.enter_context(socket.socket(family))
    made.setblocking(False)
    made.bind(address)  # type: ignore[arg-type] # a name or a pair, by its family
    made.listen()
    return made


def _accepts(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _is_stopped(pid: int) -> bool:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return fields[0] in "Tt"


BACKENDS: Mapping[str, Callable[[], Backend]] = {
    "bubblewrap": Bubblewrap.find,
    "landlock": Landlock,
}
CHOICE = "MULL_SANDBOX"


class Finding(NamedTuple):
    """What one check of the self-test came to."""

    name: str
    passed: bool
    said: str


@dataclass(frozen=True)
class Examined:
    """A backend with what its self-test found; `sandbox` is None where it can't be used at all."""

    name: str
    version: str
    sandbox: ProcessSandbox | None
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """True where every check passed."""
        return all(finding.passed for finding in self.findings)

    @property
    def trouble(self) -> str:
        """What failed, in one line."""
        failed = [f"{name}: {said}" for name, passed, said in self.findings if not passed]
        return "; ".join(failed)


@dataclass(frozen=True)
class Chosen:
    """The sandbox that passed, in one line for the log, and all that was looked at before it."""

    sandbox: ProcessSandbox
    described: str
    examined: tuple[Examined, ...]


class NoSandboxError(SandboxError):
    """No sandbox passes its self-test; says why, and what to do."""

    def __init__(self, examined: tuple[Examined, ...]) -> None:
        self.examined = examined
        troubles = ". ".join(f"{found.name}: {found.trouble}" for found in examined)
        super().__init__(
            f"no sandbox passes its self-test, so no code is run. {troubles}. {REMEDY}"
        )


REMEDY = (
    "Code is never run without one. Allow user namespaces, for bubblewrap, or use Linux 5.13 or "
    "later with Landlock among its LSMs; or serve the other queues alone: --queues mull,llm"
)


async def choose(
    wanted: str | None = None, ceiling: Limits | None = None, at_once: int | None = None
) -> Chosen:
    """Return the first sandbox that passes its self-test, or the wanted one if it does.

    Without `wanted` the environment's MULL_SANDBOX counts: bubblewrap or landlock. Raises
    NoSandboxError, and ValueError for another name.
    """
    examined: list[Examined] = []
    for name in names(wanted):
        examined.append(await examine(name, ceiling or Limits(), at_once))
        found = examined[-1]
        if found.sandbox and found.passed:
            checks = ", ".join(finding.name for finding in found.findings)
            described = f"{name} {found.version} ({platform.machine()}; passed: {checks})"
            return Chosen(found.sandbox, described, tuple(examined))
    raise NoSandboxError(tuple(examined))


def names(wanted: str | None = None) -> tuple[str, ...]:
    """Return which backends to try, in order. Raises ValueError for an unknown one."""
    wanted = wanted or os.environ.get(CHOICE) or None
    if wanted is None:
        return tuple(BACKENDS)
    if wanted not in BACKENDS:
        raise ValueError(f"{CHOICE}={wanted} is not a sandbox: use {' or '.join(BACKENDS)}")
    return (wanted,)


async def examine(name: str, ceiling: Limits, at_once: int | None = None) -> Examined:
    """Try one backend with real programs, some at once."""
    try:
        backend = BACKENDS[name]()
    except (SandboxError, OSError) as error:
        return Examined(name, "", None, (Finding("present", False, str(error)),))
    sandbox = ProcessSandbox(backend, ceiling, at_once or most_at_once(ceiling))
    with ExitStack() as stack:
        placed = await asyncio.to_thread(Placed, stack)
        findings = await asyncio.gather(*(_try(sandbox, probe, placed) for probe in PROBES))
    return Examined(name, backend.version, sandbox, tuple(findings))


async def _try(sandbox: ProcessSandbox, probe: Probe, placed: Placed) -> Finding:
    try:
        result = await sandbox.run(probe.program(placed.targets))
    except SandboxError as error:
        return Finding(probe.name, False, str(error))
    if reached := placed.reached(result):
        return Finding(probe.name, False, reached)
    if not probe.passes(result):
        said = (result.stderr.text or result.stdout.text).strip().splitlines()[-1:]
        return Finding(probe.name, False, f"it ended with {result.status} {' '.join(said)}".strip())
    return Finding(probe.name, True, probe.said)
