"""Deleting a folder that a program has written, whatever is in it. Standard library only."""

from __future__ import annotations

import os
import stat
from itertools import count

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


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
        found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=handle)
            continue
        # It may have been left without the permissions to list it.
        os.chmod(name, stat.S_IRWXU, dir_fd=handle)
        os.rename(name, f"\n{next(numbers)}", src_dir_fd=handle, dst_dir_fd=top)
