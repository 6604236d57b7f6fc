"""How much room a run's files take, also those that are open or mapped and in no folder."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from activities.sandbox.running.backend import Disk
from activities.sandbox.running.tree import descendants

_BLOCK = 512
# What the kernel takes in one piece, less some room for the names in the folder.
_PATH_BYTES = 3_500
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

Inode = tuple[int, int]


def used(box: Path, first: int, most_files: int) -> Disk:
    """Measure what is in a folder, and what processes below a first one keep that was deleted.

    Counting stops above `most_files`: it is more than there may be.
    """
    sizes: dict[Inode, int] = {}
    entries = 0
    for found in _entries(str(box)):
        sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
        entries += 1
        if entries > most_files:
            break
    for pid in descendants(first):
        sizes |= _deleted_open(pid) | _deleted_mapped(pid, str(box))
    return Disk(sum(sizes.values()), max(entries, len(sizes)))


def _entries(box: str) -> Iterator[os.stat_result]:
    """Give every entry, of folders of any depth, though they be changed meanwhile."""
    left: list[tuple[str, ...]] = [()]
    while left:
        parts = left.pop()
        try:
            handle = _opened(box, parts)
        except OSError:
            continue
        try:
            for name, found in _listed(handle):
                yield found
                if stat.S_ISDIR(found.st_mode):
                    left.append(_joined(parts, name))
        finally:
            os.close(handle)


def _listed(handle: int) -> Iterator[tuple[str, os.stat_result]]:
    for name in os.listdir(handle):
        try:
            yield name, os.stat(name, dir_fd=handle, follow_symlinks=False)
        except OSError:
            continue


def _joined(parts: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Add a name to a path that is kept in pieces, none too long for the kernel."""
    *before, last = parts or ("",)
    longer = f"{last}/{name}" if last else name
    if len(os.fsencode(longer)) <= _PATH_BYTES:
        return (*before, longer)
    return (*parts, name)


def _opened(box: str, parts: tuple[str, ...]) -> int:
    handle = os.open(box, _FOLDER)
    for part in parts:
        try:
            inner = os.open(part, _FOLDER, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def _deleted_open(pid: int) -> dict[Inode, int]:
    sizes: dict[Inode, int] = {}
    try:
        with os.scandir(f"/proc/{pid}/fd") as descriptors:
            for each in descriptors:
                found = _stat(each)
                if found and stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    except OSError:
        return sizes
    return sizes


def _stat(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError:
        return None


def _deleted_mapped(pid: int, box: str) -> dict[Inode, int]:
    """Take the mapping's size for the file's, which nothing else shows."""
    sizes: dict[Inode, int] = {}
    try:
        with Path(f"/proc/{pid}/maps").open(encoding="utf-8", errors="replace") as maps:
            for line in maps:
                if line.endswith("(deleted)\n") and f" {box}/" in line:
                    inode, size = _mapping(line)
                    sizes[inode] = max(size, sizes.get(inode, 0))
    except OSError:
        return sizes
    return sizes


def _mapping(line: str) -> tuple[Inode, int]:
    span, _, _, device, inode, _ = line.split(maxsplit=5)
    low, high = (int(each, 16) for each in span.split("-"))
    major, minor = (int(each, 16) for each in device.split(":"))
    return (os.makedev(major, minor), int(inode)), high - low
