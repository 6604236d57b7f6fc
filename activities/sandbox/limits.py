"""A program's limits, its status at the end, and the user that it runs as."""

import os
import pwd
import resource
import socket
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGXCPU, SIGXFSZ

from activities.sandbox.packages import base_python
from activities.sandbox.port import SandboxError, Status
from mull.multipath.request import Limits

MIB = 2**20
# Many empty files cost the kernel memory long before they fill the disk.
FILES_PER_MIB = 256
OPEN_FILES = 256
# Why a program failed or never ran, in the words that inside/init.py marks it with.
_CAUSES: dict[str, Status] = {"memory": "memory_limit", "full": "disk_limit"}


def lower(asked: Limits, ceiling: Limits) -> Limits:
    """Return the lower of the two for each limit."""
    return Limits(
        **{name: min(getattr(asked, name), getattr(ceiling, name)) for name in Limits.model_fields}
    )


def most_at_once(ceiling: Limits) -> int:
    """Return how many runs fit at the ceiling: two per core, in half of the memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    fitting = memory // 2 // (ceiling.memory_mb + ceiling.disk_mb)
    return max(1, min(2 * (os.cpu_count() or 1), fitting))


def rlimits(limits: Limits) -> tuple[tuple[int, tuple[int, int]], ...]:
    """Return the limits that the kernel enforces on every process of a program."""
    cpu = int(limits.cpu_seconds) + 1
    memory, disk = limits.memory_mb * MIB, limits.disk_mb * MIB
    return (
        (resource.RLIMIT_CORE, (0, 0)),
        (resource.RLIMIT_CPU, (cpu, cpu + 1)),
        (resource.RLIMIT_DATA, (memory, memory)),
        # Page tables of memory that is only reserved do not count as data; this limits those of one
        # process, and the watcher those of all.
        (resource.RLIMIT_AS, (memory + 4_096 * MIB, memory + 4_096 * MIB)),
        (resource.RLIMIT_FSIZE, (disk, disk)),
        (resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES)),
        (resource.RLIMIT_NPROC, (limits.processes, limits.processes)),
        (resource.RLIMIT_MSGQUEUE, (0, 0)),
        (resource.RLIMIT_MEMLOCK, (0, 0)),
    )


@dataclass(frozen=True)
class Ending:
    """How the program's first process ended, as the sandbox's first process reports it.

    `mark` is how far it came: running, done, executed (it became another program), full or memory
    (there was no room to start), or empty if it never started. `code` and `cause` come with `done`.
    """

    exit_code: int | None = None
    signal: int | None = None
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    mark: str = ""
    code: int = 0
    cause: str = ""
    detail: str = ""


def parse_ending(words: list[str]) -> Ending:
    """Parse a report: exit code, signal, CPU seconds, KiB of memory, the mark in hexadecimal.

    Raises ValueError.
    """
    code, number, cpu, memory, mark = words
    stage, _, detail = bytes.fromhex(mark.strip("-")).decode(errors="replace").partition(" ")
    done_code, _, cause = detail.partition(" ") if stage == "done" else ("0", "", stage)
    return Ending(
        exit_code=int(code) if int(code) >= 0 else None,
        signal=int(number) or None,
        cpu_seconds=float(cpu),
        memory_bytes=int(memory) * 1024,
        mark=stage,
        code=int(done_code),
        cause=cause,
        detail=detail,
    )


def classify(fired: Status | None, ending: Ending, cpu_seconds: float, limits: Limits) -> Status:
    """Return a program's status; a limit that the sandbox ended it for goes first."""
    if fired:
        return fired
    if ending.signal:
        # The kernel ends it by a signal at its own limits of file size and CPU seconds.
        if ending.signal == SIGXFSZ:
            return "disk_limit"
        spent = ending.signal == SIGKILL and cpu_seconds >= limits.cpu_seconds
        return "cpu_limit" if ending.signal == SIGXCPU or spent else "killed_by_signal"
    if ending.cause in _CAUSES:
        return _CAUSES[ending.cause]
    if ending.exit_code or ending.code:
        return "error"
    return "ok" if ending.mark in ("done", "executed") else "exited_early"


# Below 65,536, since many containers map no more, and above what distributions assign.
FIRST_UID = 62_000
UIDS = 500
# The kernel kills them all at once, so that they can't fork in between, and spares the caller.
_KILL_ALL = "import os, sys; os.setresuid(*[int(sys.argv[1])] * 3); os.kill(-1, 9)"
_KILL_SECONDS = 10
_CAP_CHOWN, _CAP_SETGID, _CAP_SETUID, CAP_SYS_ADMIN = 0, 6, 7, 21


@contextmanager
def claimed_uid() -> Iterator[int | None]:
    """Claim a user id that is unused on this machine; None if this process is not root.

    The claim is the name of an abstract socket, which all workers here see, and which the kernel
    frees with the process.
    """
    if os.geteuid() != 0:
        yield None
        return
    # Workers in other containers do not see our names, but the kernel counts a user's processes in
    # all containers together: so workers start their search at different ids.
    start = Path("/proc/self/ns/net").stat().st_ino
    for uid in (FIRST_UID + (start + step) % UIDS for step in range(UIDS)):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with claim:
            try:
                claim.bind(f"\0mull-sandbox-uid-{uid}")
            except OSError:
                continue
            with suppress(KeyError):
                pwd.getpwuid(uid)
                continue
            yield uid
            return
    raise SandboxError(f"no user id from {FIRST_UID} to {FIRST_UID + UIDS - 1} is free")


def can_become(user: int) -> bool:
    """Tell whether this process may give files to a user, and become that user."""
    needed = 1 << _CAP_CHOWN | 1 << _CAP_SETGID | 1 << _CAP_SETUID
    mapped = True
    for name in ("uid_map", "gid_map"):
        rows = (line.split() for line in Path("/proc/self", name).read_text("ascii").splitlines())
        mapped &= any(int(first) <= user < int(first) + int(count) for first, _, count in rows)
    return mapped and capabilities() & needed == needed


def all_can_read(paths: Iterable[Path]) -> bool:
    """Tell whether any user can read these files, and reach and list these folders."""
    return all(
        _allows(path, stat.S_IROTH) and all(map(all_can_enter, path.parents)) for path in paths
    )


def all_can_enter(folder: Path) -> bool:
    """Tell whether the permissions of a folder let any user go through it."""
    return _allows(folder, stat.S_IXOTH)


def tasks_of(user: int) -> int:
    """Count the processes and threads that a user has."""
    tasks = 0
    for process in _processes_of(user):
        with suppress(OSError):
            tasks += sum(1 for _ in (Path(process) / "task").iterdir())
    return tasks


def end_all_of(user: int) -> None:
    """End all processes of a user that this process may become. Raises SandboxError."""
    if not any(_processes_of(user)):
        return
    command = [base_python(), "-I", "-S", "-c", _KILL_ALL, str(user)]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=_KILL_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise SandboxError(
            f"processes that a program left as user {user} did not end in {_KILL_SECONDS} s"
        ) from None


def _allows(path: Path, bit: int) -> bool:
    mode = path.stat().st_mode
    wanted = bit | stat.S_IXOTH if stat.S_ISDIR(mode) else bit
    return mode & wanted == wanted


def capabilities() -> int:
    """Return this process's effective capabilities as bits."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)


def _processes_of(user: int) -> Iterator[str]:
    # Part of every run, and pathlib would take several times as long.
    with os.scandir("/proc") as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.isdigit() and entry.stat().st_uid == user:
                    yield entry.path
