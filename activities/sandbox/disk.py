"""How much room a run's files take, including those that are deleted and still in use."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from activities.sandbox.backend import Disk
from activities.sandbox.watcher import descendants, seen

# What the kernel takes in one piece, less some room for the names in the folder.
_PATH_BYTES = 3_500
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# So many files may be of a size that nothing tells.
_MOST_UNKNOWN = 4
# To go deeper, again and again, would take longer than a look may take.
_MOST_PIECES = 16
BLOCK = 512

Inode = tuple[int, int]


def used(box: Path, first: int, most_files: int) -> Disk:
    """Measure what is in a folder, and what processes below a first one keep that was deleted.

    Counting stops above `most_files`: it is more than there may be. So are folders beneath a path
    of 50 KB, and a few files of which nothing tells the size, being sent through a socket, or
    mapped alone.
    """
    listed: dict[Inode, int] = {}
    entries = 0
    for found in _entries(str(box)):
        if found is None or entries > most_files:
            entries = most_files + 1
            break
        listed[found.st_dev, found.st_ino] = found.st_blocks * BLOCK
        entries += 1
    opened, mapped, sent = unlisted(str(box), descendants(first))
    if sent + len(mapped.keys() - opened.keys() - listed.keys()) > _MOST_UNKNOWN:
        entries = most_files + 1
    sizes = {**mapped, **opened, **listed}
    return Disk(sum(sizes.values()), max(entries, len(sizes)))


def _entries(box: str) -> Iterator[os.stat_result | None]:
    """Give every entry, though folders be changed meanwhile; None for what is too deep."""
    left: list[tuple[str, ...]] = [()]
    while left:
        parts = left.pop()
        if len(parts) > _MOST_PIECES:
            yield None
            continue
        try:
            handle = _opened(box, parts)
        except OSError:
            continue
        try:
            for name, found in _listed(handle, follow=False):
                yield found
                if stat.S_ISDIR(found.st_mode):
                    left.append(_joined(parts, name))
        finally:
            os.close(handle)


def _listed(folder: int | Path, *, follow: bool) -> Iterator[tuple[str, os.stat_result]]:
    # One by one, so that whoever has seen enough need not have all of them.
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                yield entry.name, entry.stat(follow_symlinks=follow)


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


def unlisted(box: str, processes: Iterable[int]) -> tuple[dict[Inode, int], dict[Inode, int], int]:
    """Return the bytes of deleted files that processes keep, and how many wait in their sockets.

    First of those that are open, then of those that are mapped from beneath a folder, by the
    largest mapping of each.
    """
    opened: dict[Inode, int] = {}
    mapped: dict[Inode, int] = {}
    sent: dict[Inode, int] = {}
    for place in map(seen, processes):
        for inode, size in _mapped(place, box):
            mapped[inode] = max(size, mapped.get(inode, 0))
        for name, found in _listed(place / "fd", follow=True):
            inode = found.st_dev, found.st_ino
            if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                opened[inode] = found.st_blocks * BLOCK
            elif stat.S_ISSOCK(found.st_mode):
                sent[inode] = _waiting(place, name)
    return opened, mapped, sum(sent.values())


def _waiting(process: Path, socket: str) -> int:
    with suppress(OSError), (process / "fdinfo" / socket).open(encoding="ascii") as lines:
        return next((int(line.split()[1]) for line in lines if line.startswith("scm_fds:")), 0)
    return 0


def _mapped(process: Path, box: str) -> Iterator[tuple[Inode, int]]:
    with suppress(OSError), (process / "maps").open(encoding="utf-8", errors="replace") as maps:
        for line in maps:
            if line.endswith("(deleted)\n") and f" {box}/" in line:
                yield _mapping(line)


def _mapping(line: str) -> tuple[Inode, int]:
    span, _, _, device, inode, _ = line.split(maxsplit=5)
    low, high = (int(end, 16) for end in span.split("-"))
    major, minor = (int(number, 16) for number in device.split(":"))
    return (os.makedev(major, minor), int(inode)), high - low
