"""Files that no folder has any more, and that processes keep: open, mapped, or sent to another."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from activities.sandbox.watching.tree import seen

BLOCK = 512

Inode = tuple[int, int]


class Unlisted(NamedTuple):
    """Sizes in bytes of deleted files; a mapped one's is that of its largest mapping.

    `sent` is how many files are on their way through sockets.
    """

    opened: dict[Inode, int]
    mapped: dict[Inode, int]
    sent: int


def unlisted(box: str, processes: Iterable[int]) -> Unlisted:
    """Look what processes have open, mapped from beneath a folder, or waiting in their sockets."""
    opened: dict[Inode, int] = {}
    mapped: dict[Inode, int] = {}
    sent: dict[Inode, int] = {}
    for place in map(seen, processes):
        for inode, size in _mapped(place, box):
            mapped[inode] = max(size, mapped.get(inode, 0))
        for name, found in _descriptors(place):
            inode = found.st_dev, found.st_ino
            if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                opened[inode] = found.st_blocks * BLOCK
            elif stat.S_ISSOCK(found.st_mode):
                sent[inode] = _waiting(place, name)
    return Unlisted(opened, mapped, sum(sent.values()))


def _descriptors(process: Path) -> Iterator[tuple[str, os.stat_result]]:
    with suppress(OSError), os.scandir(process / "fd") as descriptors:
        for each in descriptors:
            with suppress(OSError):
                yield each.name, each.stat()


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
    low, high = (int(each, 16) for each in span.split("-"))
    major, minor = (int(each, 16) for each in device.split(":"))
    return (os.makedev(major, minor), int(inode)), high - low
