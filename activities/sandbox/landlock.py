"""The backend without namespaces: Landlock, seccomp, resource limits, and a user for each run."""

import asyncio
import fcntl
import os
import stat
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from activities.sandbox import limits
from activities.sandbox.backend import Launch, uninterrupted
from activities.sandbox.inside.confinement import DEVICE, KEEP, LIST, READ, USE, clear, version
from activities.sandbox.packages import importable, visible
from activities.sandbox.port import Program, SandboxError
from activities.sandbox.seccomp import build_filter
from activities.sandbox.watcher import used

# From this version of its ABI on, Landlock itself keeps signals inside.
SCOPED_SIGNALS = 6
PATIENCE_SECONDS = 5.0
DEVICES = {"null": DEVICE, "zero": DEVICE, "full": DEVICE, "random": READ, "urandom": READ}
_PREFIX = "mull-sandbox-"
_TRIES = 5
_MEMORY = Path("/dev/shm")  # noqa: S108 - by mkdtemp


class Held(NamedTuple):
    """A folder, and the descriptor with its lock, which goes when the worker dies."""

    top: Path
    lock: int


class RunFolder:
    """The folders of one run: the program writes below `written`, and only reads `shown`."""

    def __init__(self, written: Held, shown: Held) -> None:
        self.written, self.shown = written, shown
        # `box` is all that the program may write to.
        self.box = written.top / "box"
        self.work, self.scratch = self.box / "work", self.box / "tmp"
        self.packages, self.commands = shown.top / "packages", shown.top / "bin"


def make_folders(user: int | None) -> RunFolder:
    """Make the folders of one run; the user, if any, owns those to write in.

    Raises SandboxError.
    """
    with ExitStack() as undone:
        written = _held(_bases(), undone)
        # Making a dozen links, and deleting them, takes milliseconds on a disk, not in memory.
        shown = _held([_MEMORY, *_bases()], undone)
        made = RunFolder(written, shown)
        for folder in (made.packages, made.commands):
            folder.mkdir()
            folder.chmod(0o755)
        for folder in (made.box, made.work, made.scratch):
            folder.mkdir(0o700)
            if user is not None:
                os.chown(folder, user, user)
        undone.pop_all()
    return made


def delete_folders(folder: RunFolder) -> None:
    """Delete the folders of one run, with all that is left in them."""
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
    """Delete the folders that a killed worker left: no process has them locked."""
    for top in (top for base in _bases() for top in base.glob(f"{_PREFIX}*")):
        with suppress(OSError):
            found = top.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                lock = _locked(top)
                if lock is not None:
                    _delete(Held(top, lock))


def _held(bases: list[Path], undone: ExitStack) -> Held:
    """Make a folder and lock it; make another if a worker that starts deletes it before that."""
    # The program's user must be able to reach it.
    reached = (
        base
        for base in bases
        if os.access(base, os.W_OK) and all(map(limits.all_can_enter, (base, *base.parents)))
    )
    base = next(reached, None)
    if base is None:
        tried = ", ".join(map(str, bases))
        raise SandboxError(f"no folder for temporary files that any user can enter: tried {tried}")
    for _ in range(_TRIES):
        top = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        try:
            lock = _locked(top)
        except BaseException:
            top.rmdir()
            raise
        if lock is not None and os.fstat(lock).st_nlink:
            made = Held(top, lock)
            undone.callback(_delete, made)
            top.chmod(0o711)
            return made
        if lock is not None:
            os.close(lock)
    raise SandboxError(f"no temporary folder in {base} could be locked in {_TRIES} tries")


def _bases() -> list[Path]:
    return [Path(tempfile.gettempdir()), Path("/var/tmp"), _MEMORY]  # noqa: S108 - by mkdtemp


def _locked(folder: Path) -> int | None:
    """Lock a folder; None if another process has locked or deleted it."""
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


@cache
def _system() -> dict[str, int]:
    """Return the rights that every program has, by path."""
    seen = visible()
    found = {f"/dev/{name}": allowed for name, allowed in DEVICES.items()}
    for folder in seen.folders:
        found |= _without(folder, seen.hidden)
    return found


def _without(folder: Path, hidden: tuple[Path, ...]) -> dict[str, int]:
    """Allow a folder without its hidden parts: rules can't take rights away, so allow the others.

    Hidden names can still be listed, since Python lists the folders it imports from.
    """
    inside = [path for path in hidden if path.is_relative_to(folder)]
    if folder in inside:
        return {}
    if not inside:
        return {str(folder): USE}
    found = {str(folder): LIST}
    for child in folder.iterdir():
        # A rule for a link would allow its target, wherever that is.
        found |= {} if child.is_symlink() else _without(child, hidden)
    return found


class Landlock:
    """Runs programs under Landlock's rules, which cut them off from networks and processes."""

    name = "landlock"

    def __init__(self) -> None:
        self._abi = version()
        if not self._abi:
            raise SandboxError("this kernel has no Landlock, or it is not among its LSMs")
        self.version = f"ABI {self._abi}"
        delete_stale()

    @asynccontextmanager
    async def prepare(
        self, program: Program, uid: int | None, threads: Executor
    ) -> AsyncIterator[Launch]:
        """Make the folders of one run, and delete them, with all that is left in them, after it."""
        user = uid if uid is not None and limits.can_become(uid) else None
        folder = make_folders(user)
        try:
            yield self._launch(program, user, folder)
        finally:
            loop = asyncio.get_running_loop()
            await uninterrupted(loop.run_in_executor(threads, _clear, user, folder))

    def _launch(self, program: Program, user: int | None, folder: RunFolder) -> Launch:
        packages = importable(program.packages)
        for name, path in packages.items():
            (folder.packages / name).symlink_to(path)
        for name in ("python", "python3"):
            (folder.commands / name).symlink_to(visible().python)
        shown = (folder.packages, folder.commands)
        seen = (*visible().folders, *packages.values())
        return Launch(
            argv=(str(visible().python),),
            work=str(folder.work),
            scratch=str(folder.scratch),
            uid=user,
            packages=str(folder.packages),
            path=f"{folder.commands}:/usr/bin:/bin",
            disk=partial(
                used, folder.box, most_files=program.limits.disk_mb * limits.FILES_PER_MIB
            ),
            nested=False,
            modules=("init", "confinement"),
            # The program can't stop the first process, whose children would outlive its kill.
            patience=PATIENCE_SECONDS,
            settings={
                "tops": (str(folder.shown.top), str(folder.written.top)),
                "others": 0 if user is not None else limits.tasks_of(os.getuid()),
                "reads_all": user is not None and not limits.all_can_read(seen),
                "rules": {
                    **_system(),
                    **dict.fromkeys(map(str, (*packages.values(), *shown)), USE),
                    str(folder.box): KEEP,
                },
                "filter": build_filter(
                    sockets=False,
                    signals=user is not None or self._abi >= SCOPED_SIGNALS,
                    own_user=user is not None,
                ),
            },
        )


def _clear(user: int | None, folder: RunFolder) -> None:
    try:
        if user is not None:
            limits.end_all_of(user)
    finally:
        delete_folders(folder)
