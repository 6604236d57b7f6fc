"""The folders of a run, which the worker holds by a lock while it lives."""

import fcntl
import os
import stat
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from activities.sandbox.confinement.reach import all_can_enter
from activities.sandbox.inside.clearing import clear
from activities.sandbox.port import SandboxError

_PREFIX = "mull-sandbox-"
_TRIES = 5
_MEMORY = Path("/dev/shm")  # noqa: S108 - by mkdtemp


@dataclass(frozen=True)
class Held:
    """A folder, and the descriptor that holds it for as long as the worker lives."""

    top: Path
    lock: int


@dataclass(frozen=True)
class RunFolder:
    """The folders of one run: beneath `written` is what it may write, and it reads `shown`."""

    written: Held
    shown: Held

    @property
    def box(self) -> Path:
        """What the program may write."""
        return self.written.top / "box"

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
        return self.shown.top / "packages"

    @property
    def commands(self) -> Path:
        """What it finds by the name `python`."""
        return self.shown.top / "bin"


def make(user: int | None) -> RunFolder:
    """Make the folders of one run, those to write in for a user. Raises SandboxError."""
    with ExitStack() as undone:
        written = _held(_bases(), undone)
        # A dozen links take a disk several milliseconds, twice: in memory they are free.
        shown = _held([_MEMORY, *_bases()], undone)
        made = RunFolder(written, shown)
        _fill(made, user)
        undone.pop_all()
    return made


def _fill(made: RunFolder, user: int | None) -> None:
    for each in (made.packages, made.commands):
        each.mkdir()
        each.chmod(0o755)
    for each in (made.box, made.work, made.scratch):
        each.mkdir(0o700)
        if user is not None:
            os.chown(each, user, user)


def delete(folder: RunFolder) -> None:
    """Delete the folders of one run, and whatever it left in them."""
    try:
        _delete(folder.shown)
    finally:
        _delete(folder.written)


def _delete(folder: Held) -> None:
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
                    _delete(Held(top, lock))


def _held(bases: list[Path], undone: ExitStack) -> Held:
    """Make a folder and hold it; another, where a worker that begins took it for a dead one's."""
    base = _first(bases)
    for _ in range(_TRIES):
        top = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        lock = _locked_or_gone(top)
        if lock is not None:
            made = Held(top, lock)
            undone.callback(_delete, made)
            top.chmod(0o711)
            return made
    raise SandboxError(f"no folder of the sandbox's own can be kept in {base}")


def _locked_or_gone(top: Path) -> int | None:
    """Hold a folder that was just made; None where it is deleted meanwhile."""
    try:
        lock = _locked(top)
    except BaseException:
        top.rmdir()
        raise
    if lock is not None and not os.fstat(lock).st_nlink:
        os.close(lock)
        return None
    return lock


def _first(bases: list[Path]) -> Path:
    """Find a folder for temporary files that another user than the worker's can reach."""
    for each in bases:
        if os.access(each, os.W_OK) and all(map(all_can_enter, (each, *each.parents))):
            return each
    tried = ", ".join(map(str, bases))
    raise SandboxError(f"no folder for temporary files can be written: tried {tried}")


def _bases() -> list[Path]:
    return [Path(tempfile.gettempdir()), Path("/var/tmp"), _MEMORY]  # noqa: S108 - by mkdtemp


def _locked(folder: Path) -> int | None:
    """Hold a folder; None where another process does, or has deleted it."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
