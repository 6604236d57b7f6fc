"""The Landlock backend's part in the first process: nothing that the program starts gets away.

What the program wrote is deleted here where the worker is dead, and by the worker where it lives.
Standard library only.
"""

from __future__ import annotations

import os
import resource
import stat
from itertools import count

from activities.sandbox.inside.confinement import (
    adopt_orphans,
    keep_capabilities,
    keep_signals_in,
    no_new_privileges,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KILL, _STOP = 9, 19
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def prepare(settings: dict[str, Any]) -> None:
    """Become the parent of every orphan, and let no signal out, ahead of the program."""
    adopt_orphans()
    if settings["reads_all"]:
        keep_capabilities()
    no_new_privileges()
    settings["domain"] = keep_signals_in()
    settings["rlimits"] = [_beside(settings["others"], *limit) for limit in settings["rlimits"]]


def _beside(others: int, kind: int, limits: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """Count those processes that the worker's user has anyhow, where the program has no other."""
    if kind != resource.RLIMIT_NPROC:
        return kind, limits
    return kind, (limits[0] + others, limits[1] + others)


def sweep(settings: dict[str, Any]) -> None:
    """End every process below this one, reap it, and clear up where the worker is dead."""
    while True:
        _kill_all(settings)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    for top in settings["tops"]:
        if _is_given_up(top):
            clear(top)


def _is_given_up(folder: str) -> bool:
    """Whether the worker's lock on a folder is gone, and with it the worker."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _kill_all(settings: dict[str, Any]) -> None:
    if settings["domain"]:
        _signal(-1)
    elif settings["uid"] is not None:
        _kill_user(settings["uid"])
    else:
        _kill_tree()


def _kill_user(user: int) -> None:
    """Kill all that a user has, as that user; the kernel spares who asks."""
    pid = os.fork()
    if not pid:
        os.setresuid(user, user, user)
        _signal(-1)
        os._exit(0)
    os.waitpid(pid, 0)


def _kill_tree() -> None:
    # Stopped first: what is stopped forks no more, and the rest is found the next time round.
    found: set[int] = set()
    while new := _below(os.getpid()) - found:
        for pid in new:
            _signal(pid, _STOP)
        found |= new
    for pid in found:
        _signal(pid)


def _below(pid: int) -> set[int]:
    found: set[int] = set()
    for child in _children(pid):
        found |= {child, *_below(child)}
    return found


def _children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - pathlib is slow to import
        texts = [_read(f"/proc/{pid}/task/{task}/children") for task in tasks]
    except OSError:
        return []
    return [int(child) for text in texts for child in text.split()]


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:  # noqa: PTH123 - as above
        return file.read()


def _signal(pid: int, number: int = _KILL) -> None:
    try:  # noqa: SIM105 - contextlib is slow to import
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def clear(top: str) -> None:
    """Delete a folder and all in it, following no link. None may be at work in it any more.

    A folder within it is first moved up to it, so that no path grows long and no recursion deep.
    """
    handle = os.open(top, _FOLDER)
    try:
        numbers = count()
        _flatten(handle, handle, numbers)
        while folders := os.listdir(handle):  # noqa: PTH208 - it is open, and has no path
            for name in folders:
                _clear_folder(handle, name, numbers)
    finally:
        os.close(handle)
    os.rmdir(top)  # noqa: PTH106 - pathlib is slow to import


def _clear_folder(top: int, name: str, numbers: count[int]) -> None:
    handle = os.open(name, _FOLDER, dir_fd=top)
    try:
        _flatten(top, handle, numbers)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=top)


def _flatten(top: int, handle: int, numbers: count[int]) -> None:
    """Delete the files of a folder, and move its folders up under names that nothing has."""
    with os.scandir(handle) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=handle)
            continue
        # It may have been left without the permissions to list it.
        os.chmod(name, stat.S_IRWXU, dir_fd=handle)
        os.rename(name, f"\n{next(numbers)}", src_dir_fd=handle, dst_dir_fd=top)
