"""Users for programs: claiming an id, who this process may become, and what others can read."""

import os
import pwd
import socket
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from activities.sandbox.backend import base_python
from activities.sandbox.port import SandboxError

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
            if not _is_known(uid):
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


def _is_known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
