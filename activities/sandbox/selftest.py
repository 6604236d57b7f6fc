"""The self-test of the sandboxes: Mull uses the first that passes, and otherwise runs no code.

SandboxError
└── NoSandboxError     all fail, or the one that MULL_SANDBOX names does
"""

import asyncio
import os
import platform
import re
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from activities.sandbox.backend import Backend
from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.landlock import Landlock
from activities.sandbox.limits import most_at_once
from activities.sandbox.packages import ALWAYS, WITH_ALWAYS, base_python
from activities.sandbox.port import Program, Result, SandboxError
from activities.sandbox.sandbox import ProcessSandbox
from mull.multipath.request import Limits

BACKENDS: Mapping[str, Callable[[], Backend]] = {
    "bubblewrap": Bubblewrap.find,
    "landlock": Landlock,
}
CHOICE = "MULL_SANDBOX"
REMEDY = (
    "Allow user namespaces, for bubblewrap, or use Linux 5.13 or later with Landlock among its "
    "LSMs; or serve only the other queues: --queues mull,llm"
)
# It ends with the worker, however that ends, because its standard input then ends.
_WAIT = "import sys; sys.stdin.read()"
_USUAL = Limits(wall_seconds=20, cpu_seconds=10)


@dataclass(frozen=True)
class Probe:
    """A program, what `mull doctor` says if the sandbox holds, and how the program then ends.

    The program can use the names of its targets. `printed` is all that it may print, or None for
    anything.
    """

    name: str
    said: str
    code: str
    statuses: tuple[str, ...] = ("ok",)
    printed: str | None = None
    limits: Limits = _USUAL


_HERE = [name for name in ALWAYS if find_spec(name)]
_LACKING = [name for name in ALWAYS if name not in _HERE]
LACKING = f"no {' and no '.join(_LACKING)}: {WITH_ALWAYS}" if _LACKING else ""
PROBES = (
    Probe(
        "python",
        f"{' and '.join(_HERE)} can be imported"
        if not LACKING
        else f"programs run, with {LACKING}",
        "\n".join([*(f"import {name}" for name in _HERE), "print(6)"]),
        printed="6\n",
    ),
    Probe(
        "network",
        "neither TCP nor a local socket can be reached",
        """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, "\\0" + name)):
    try:
        made = socket.socket(family)
        made.settimeout(1)
        made.connect(address)
        print("reached", address)
    except OSError:
        pass
""",
        printed="",
    ),
    Probe(
        "files",
        "the worker's files can't be read or written",
        """
import os
for act in (
    lambda: open(file).read(),
    lambda: open(file, "a"),
    lambda: open("/etc/hostname").read(),
    lambda: open("/usr/planted", "w"),
    lambda: os.listdir(os.path.dirname(file)),
):
    try:
        act()
        print("reached")
    except OSError:
        pass
open("mine", "w").write("kept")
assert open("mine").read() == "kept"
""",
        printed="",
    ),
    Probe(
        "environment",
        "the worker's environment can't be seen",
        """
import os, sys
print(dict(os.environ), sys.orig_argv)
for process in ("self", pid, os.getppid(), 1):
    try:
        print(open(f"/proc/{process}/environ").read())
    except OSError:
        pass
""",
    ),
    Probe(
        "processes",
        "the worker's processes can't be signalled",
        """
import os, signal
for kind in (signal.SIGSTOP, signal.SIGKILL):
    try:
        os.kill(pid, kind)
    except OSError:
        pass
""",
        ("ok", "killed_by_signal", "timeout"),
    ),
    Probe(
        "system calls",
        "those that reach the kernel itself are refused",
        """
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
""",
        printed="",
    ),
    Probe(
        "memory",
        "a program with a limit of 64 MB can't take 256 MB",
        "x = bytearray(256 << 20)\nprint(len(x))",
        ("memory_limit",),
        limits=_USUAL.model_copy(update={"memory_mb": 64}),
    ),
    Probe(
        "time",
        "an endless loop is ended",
        "while True:\n    pass",
        ("timeout", "cpu_limit"),
        limits=_USUAL.model_copy(update={"wall_seconds": 0.3}),
    ),
    Probe(
        "output",
        "endless output is ended",
        "while True:\n    print('x' * 1000)",
        ("output_limit",),
        limits=_USUAL.model_copy(update={"output_bytes": 10_000}),
    ),
    Probe(
        "disk",
        "a program with a limit of 8 MB can't write 64 MB",
        """
for number in range(64):
    with open(str(number), "wb", buffering=0) as file:
        file.write(b"x" * (1 << 20))
""",
        ("disk_limit", "error"),
        limits=_USUAL.model_copy(update={"disk_mb": 8}),
    ),
)


class Targets:
    """Targets that a program must not reach: two listeners, and a secret in a file and a process.

    `defined` is a line of Python that names them.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._secret = secrets.token_hex(16)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mull-self-test-")))
        (folder / "secret").write_text(self._secret)
        # Any user may read it, so that only the sandbox hides it.
        folder.chmod(0o755)
        self._process = subprocess.Popen(  # noqa: S603 - the worker's own Python
            [base_python(), "-I", "-S", "-c", _WAIT],
            env={"MULL_SELF_TEST": self._secret},
            stdin=subprocess.PIPE,
        )
        stack.enter_context(self._process)
        stack.callback(self._process.kill)
        name = f"mull-self-test-{secrets.token_hex(8)}"
        tcp = stack.enter_context(socket.socket(socket.AF_INET))
        tcp.bind(("127.0.0.1", 0))
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        local.bind(f"\0{name}")
        self._listeners = (tcp, local)
        for listener in self._listeners:
            listener.setblocking(False)
            listener.listen()
        values = (tcp.getsockname()[1], name, str(folder / "secret"), self._process.pid)
        self.defined = f"port, name, file, pid = {values!r}\n"

    def reached(self, result: Result) -> str | None:
        """Say which target was reached, if any."""
        if self._secret in result.stdout.text + result.stderr.text:
            return "a program read a secret of the worker"
        for listener in self._listeners:
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                continue
            return "a program connected to the worker"
        if self._process.poll() is None:
            told = Path(f"/proc/{self._process.pid}/status").read_text("ascii", "replace")
            # What was sent a moment ago may be pending.
            runs = re.search(r"^State:\s+[RSDI]", told, re.MULTILINE)
            if runs and not re.search(r"^S(ig|hd)Pnd:\s0*[1-9a-f]", told, re.MULTILINE):
                return None
        return "a program signalled a process of the worker"


# The name of a check, whether it passed, and what to say of it.
Finding = tuple[str, bool, str]


@dataclass(frozen=True)
class Examined:
    """A backend and the findings of its self-test; `sandbox` is None if it can't be used at all."""

    name: str
    version: str
    sandbox: ProcessSandbox | None
    findings: tuple[Finding, ...]

    @property
    def trouble(self) -> str:
        """What failed, in one line; empty if every check passed."""
        return "; ".join(f"{name}: {said}" for name, passed, said in self.findings if not passed)

    @property
    def described(self) -> str:
        """Its version and the checks that it passed, in one line for the log."""
        checks = ", ".join(name for name, passed, _ in self.findings if passed)
        return f"{self.name} {self.version} ({platform.machine()}; passed: {checks})"


class NoSandboxError(SandboxError):
    """No sandbox passes its self-test; the message says why, and what to do."""

    def __init__(self, examined: tuple[Examined, ...]) -> None:
        self.examined = examined
        troubles = ". ".join(f"{found.name}: {found.trouble}" for found in examined)
        super().__init__(
            f"no sandbox passes its self-test, so no code is run. {troubles}. {REMEDY}"
        )


async def choose(ceiling: Limits | None = None) -> tuple[Examined, ...]:
    """Examine backends until one passes its self-test, which is the last of those returned.

    The environment's MULL_SANDBOX allows only one: bubblewrap or landlock. Raises NoSandboxError
    if all fail, and ValueError for another name.
    """
    examined: list[Examined] = []
    for name in names():
        found = await examine(name, ceiling or Limits())
        examined.append(found)
        if found.sandbox and not found.trouble:
            return tuple(examined)
    raise NoSandboxError(tuple(examined))


def names(wanted: str | None = None) -> tuple[str, ...]:
    """Return which backends to try, in order. Raises ValueError for an unknown one."""
    wanted = wanted or os.environ.get(CHOICE) or None
    if wanted is None:
        return tuple(BACKENDS)
    if wanted not in BACKENDS:
        raise ValueError(f"{CHOICE}={wanted} is not a sandbox: use {' or '.join(BACKENDS)}")
    return (wanted,)


async def examine(name: str, ceiling: Limits) -> Examined:
    """Test one backend with real programs, several at once."""
    try:
        backend = BACKENDS[name]()
    except (SandboxError, OSError) as error:
        return Examined(name, "", None, (("present", False, str(error)),))
    sandbox = ProcessSandbox(backend, ceiling, most_at_once(ceiling))
    with ExitStack() as stack:
        targets = await asyncio.to_thread(Targets, stack)
        findings = await asyncio.gather(*(_try(sandbox, probe, targets) for probe in PROBES))
    return Examined(name, backend.version, sandbox, tuple(findings))


async def _try(sandbox: ProcessSandbox, probe: Probe, targets: Targets) -> Finding:
    program = Program(code=targets.defined + probe.code, limits=probe.limits)
    try:
        result = await sandbox.run(program)
    except SandboxError as error:
        return probe.name, False, str(error)
    if reached := targets.reached(result):
        return probe.name, False, reached
    as_expected = probe.printed is None or result.stdout.text == probe.printed
    if not as_expected or result.status not in probe.statuses:
        said = (result.stderr.text or result.stdout.text).strip().splitlines()[-1:]
        return probe.name, False, f"it ended with {result.status} {' '.join(said)}".strip()
    return probe.name, True, probe.said
