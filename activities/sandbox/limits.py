"""What a program may take and whom it runs as: limits, how it ended, and users of its own."""

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
from reflection.multipath.request import Limits

MIB = 2**20
# A file system may run out of names long before it runs out of bytes, at the kernel's expense.
FILES_PER_MIB = 256
OPEN_FILES = 256
# The word of a mark, as inside/program.py sets it: why it failed, or never ran.
_CAUSES: dict[str, Status] = {"memory": "memory_limit", "full": "disk_limit"}


def lower(asked: Limits, ceiling: Limits) -> Limits:
    """Return the lower of each two limits."""
    return Limits(
        **{name: min(getattr(asked, name), getattr(ceiling, name)) for name in Limits.model_fields}
    )


def most_at_once(ceiling: Limits) -> int:
    """Return how many runs fit at the ceiling: two a core, and half of the memory there is."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    fitting = memory // 2 // (ceiling.memory_mb + ceiling.disk_mb)
    return max(1, min(2 * (os.cpu_count() or 1), fitting))


def rlimits(limits: Limits) -> tuple[tuple[int, tuple[int, int]], ...]:
    """Return the limits that the kernel keeps for each process of a program."""
    cpu = int(limits.cpu_seconds) + 1
    memory, disk = limits.memory_mb * MIB, limits.disk_mb * MIB
    return (
        (resource.RLIMIT_CORE, (0, 0)),
        (resource.RLIMIT_CPU, (cpu, cpu + 1)),
        (resource.RLIMIT_DATA, (memory, memory)),
        # Page tables of memory that is only reserved are not data; this bounds them.
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

    `mark` is how far it came: running, done, executed (it is another program now), full or memory
    (there was no room to begin); empty where it never began. `code` and `cause` come with `done`.
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
    """Read a report: exit code, signal, seconds of CPU, KiB of memory, the mark in hexadecimal.

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
    """Name what came of a program; a limit that the sandbox ended it for goes before all else."""
    if fired:
        return fired
    if ending.signal:
        # The kernel's own limits end it by a signal: of the disk, and of seconds of CPU.
        if ending.signal == SIGXFSZ:
            return "disk_limit"
        spent = ending.signal == SIGKILL and cpu_seconds >= limits.cpu_seconds
        return "cpu_limit" if ending.signal == SIGXCPU or spent else "killed_by_signal"
    if ending.cause in _CAUSES:
        return _CAUSES[ending.cause]
    if ending.exit_code or ending.code:
        return "error"
    return "ok" if ending.mark in ("done", "executed") else "exited_early"


# Below 65,536, which is all that many containers map, and above what distributions give away.
FIRST_UID = 62_000
UIDS = 500
# The kernel takes them all at once, so that none forks in between, and spares who asks.
_KILL_ALL = "import os, sys; os.setresuid(*[int(sys.argv[1])] * 3); os.kill(-1, 9)"
_KILL_SECONDS = 10
_CAP_CHOWN, _CAP_SETGID, _CAP_SETUID, CAP_SYS_ADMIN = 0, 6, 7, 21


@contextmanager
def claimed_uid() -> Iterator[int | None]:
    """Claim a user id that nobody on this machine has, or give None without the right to use one.

    The claim is a name that the kernel frees with the process, and that all workers here see.
    """
    if os.geteuid() != 0:
        yield None
        return
    # Workers in other containers see no name of ours, and the kernel counts a user's processes
    # over all of them: every worker begins elsewhere.
    begin = Path("/proc/self/ns/net").stat().st_ino
    for uid in (FIRST_UID + (begin + step) % UIDS for step in range(UIDS)):
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
    """Whether this process may hand files to a user, and become that user."""
    needed = 1 << _CAP_CHOWN | 1 << _CAP_SETGID | 1 << _CAP_SETUID
    return capabilities() & needed == needed and all(
        _is_mapped(user, Path(f"/proc/self/{kind}_map")) for kind in ("uid", "gid")
    )


def all_can_read(paths: Iterable[Path]) -> bool:
    """Whether any user can read the files, and go to and list the folders."""
    return all(
        _allows(path, stat.S_IROTH) and all(map(all_can_enter, path.parents)) for path in paths
    )


def all_can_enter(folder: Path) -> bool:
    """Whether any user can go through a folder, as far as its own permissions say."""
    return _allows(folder, stat.S_IXOTH)


def tasks_of(user: int) -> int:
    """Count the processes and threads that a user has."""
    tasks = 0
    for process in _processes_of(user):
        with suppress(OSError):
            tasks += sum(1 for _ in (Path(process) / "task").iterdir())
    return tasks


def end_all_of(user: int) -> None:
    """End the processes of a user whom this process may become, should any be left.

    Raises SandboxError.
    """
    if not any(_processes_of(user)):
        return
    command = [base_python(), "-I", "-S", "-c", _KILL_ALL, str(user)]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=_KILL_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise SandboxError(
            f"what a program left running as user {user} did not end in {_KILL_SECONDS} s"
        ) from None


def _allows(path: Path, bit: int) -> bool:
    mode = path.stat().st_mode
    wanted = bit | stat.S_IXOTH if stat.S_ISDIR(mode) else bit
    return mode & wanted == wanted


def capabilities() -> int:
    """Return this process's effective capabilities, a bit for each."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)


def _is_mapped(user: int, table: Path) -> bool:
    rows = [[int(word) for word in line.split()] for line in table.read_text("ascii").splitlines()]
    return any(first <= user < first + count for first, _, count in rows)


def _processes_of(user: int) -> Iterator[str]:
    # Not by pathlib, which takes several times as long: this is part of every run.
    with os.scandir("/proc") as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.isdigit() and entry.stat().st_uid == user:
                    yield entry.path
