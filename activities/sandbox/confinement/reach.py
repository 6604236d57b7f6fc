"""Who this process may become, and what others than it can read."""

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from activities.sandbox.port import SandboxError
from activities.sandbox.running.backend import base_python

# The kernel takes them all at once, so that none forks in between, and spares who asks.
_KILL_ALL = "import os, sys; os.setresuid(*[int(sys.argv[1])] * 3); os.kill(-1, 9)"
_KILL_SECONDS = 10
_CAP_CHOWN, _CAP_SETGID, _CAP_SETUID = 0, 6, 7


def can_become(user: int) -> bool:
    """Whether this process may hand files to a user, and become that user."""
    needed = 1 << _CAP_CHOWN | 1 << _CAP_SETGID | 1 << _CAP_SETUID
    return _capabilities() & needed == needed and all(
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
    return sum(_threads(each) for each in _processes_of(user))


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


def _capabilities() -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)


def _is_mapped(user: int, table: Path) -> bool:
    rows = [[int(word) for word in line.split()] for line in table.read_text("ascii").splitlines()]
    return any(first <= user < first + count for first, _, count in rows)


def _processes_of(user: int) -> Iterator[str]:
    # Not by pathlib, which takes several times as long: this is part of every run.
    with os.scandir("/proc") as entries:
        for each in entries:
            with suppress(OSError):
                if each.name.isdigit() and each.stat().st_uid == user:
                    yield each.path


def _threads(process: str) -> int:
    with suppress(OSError):
        return len(list((Path(process) / "task").iterdir()))
    return 0
