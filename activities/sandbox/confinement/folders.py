"""The folders of a run, which the worker holds by a lock while it lives."""

import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from activities.sandbox.confinement.reach import all_can_enter
from activities.sandbox.inside.clearing import clear
from activities.sandbox.port import SandboxError

_PREFIX = "mull-sandbox-"
_TRIES = 5


@dataclass(frozen=True)
class RunFolder:
    """The folders of one run: `box` is what the program may write, and the rest it may read.

    `lock` is the descriptor that holds them for as long as the worker lives.
    """

    top: Path
    lock: int

    @property
    def box(self) -> Path:
        """What the program may write."""
        return self.top / "box"

    @property
    def work(self) -> Path:
        """Where the program begins."""
        return self.box / "work"

    @property
    def scratch(self) -> Path:
        """Where its temporary files go."""
        return self.box / "tmp"

    @property
    def packages(self) -> Path:
        """What it imports from."""
        return self.top / "packages"

    @property
    def commands(self) -> Path:
        """What it finds by the name `python`."""
        return self.top / "bin"


def make(user: int | None) -> RunFolder:
    """Make the folders of one run, those to write in for a user. Raises SandboxError."""
    made = _held(_base())
    made.top.chmod(0o711)
    for each in (made.packages, made.commands):
        each.mkdir()
        each.chmod(0o755)
    for each in (made.box, made.work, made.scratch):
        each.mkdir(0o700)
        if user is not None:
            os.chown(each, user, user)
    return made


def delete(folder: RunFolder) -> None:
    """Delete the folders of one run, and whatever it left in them."""
    try:
        clear(str(folder.top))
    finally:
        os.close(folder.lock)


def delete_stale() -> None:
    """Delete what a worker that was killed has left: the folders that no process holds."""
    for top in (each for base in _bases() for each in base.glob(f"{_PREFIX}*")):
        with suppress(OSError):
            found = top.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                lock = _locked(top)
                if lock is not None:
                    delete(RunFolder(top, lock))


def _held(base: Path) -> RunFolder:
    """Make a folder and hold it; another, where a worker that begins took it for a dead one's."""
    for _ in range(_TRIES):
        top = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        with suppress(FileNotFoundError):
            lock = _locked(top)
            if lock is not None and os.fstat(lock).st_nlink:
                return RunFolder(top, lock)
    raise SandboxError(f"no folder of the sandbox's own can be kept in {base}")


def _base() -> Path:
    """Find a folder for temporary files that another user than the worker's can reach."""
    for each in _bases():
        if os.access(each, os.W_OK) and all(map(all_can_enter, (each, *each.parents))):
            return each
    tried = ", ".join(map(str, _bases()))
    raise SandboxError(f"no folder for temporary files can be written: tried {tried}")


def _bases() -> list[Path]:
    return [Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/dev/shm")]  # noqa: S108 - by mkdtemp


def _locked(folder: Path) -> int | None:
    """Hold a folder; None where another process does."""
    handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
