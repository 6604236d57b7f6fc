"""Memory of a run that the kernel counts for none of its processes, and processes that hide it."""

import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from activities.sandbox.watching.tree import PROC, has_ended, seen

# Each may hold some hundred KiB of what was sent and not yet received.
QUEUES = 512
# What other runs may meanwhile write to folders of theirs that are kept in memory.
SLACK_BYTES = 256 * 2**20
_SHARED = "/dev/zero (deleted)\n"
_LOOKS, _PAUSE_SECONDS = 4, 0.002


def shared_memory() -> int:
    """Return how many bytes of memory the machine's processes and file systems share."""
    with (PROC / "meminfo").open(encoding="ascii") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Shmem:")), 0)


def is_sharing(first: int, below: Iterable[int]) -> bool:
    """Whether a process below a first one has shared memory of which the first has nothing.

    It stays though nobody maps most of it any more, so that no process seems to take it.
    """
    own = _shared_by(first)
    return any(_shared_by(pid) - own for pid in below)


def has_too_many_queues(below: Collection[int]) -> bool:
    """Whether processes have more pipes and sockets than `QUEUES`, each counted once."""
    if sum(map(_count_open, below)) <= QUEUES:
        return False
    return len({queue for pid in below for queue in _queues(pid)}) > QUEUES


def is_any_hidden(below: Iterable[int]) -> bool:
    """Whether one of the processes can't be looked into, as another user's can't."""
    return any(map(_hides, below))


def _shared_by(pid: int) -> set[str]:
    with suppress(OSError), (seen(pid) / "maps").open(encoding="utf-8", errors="replace") as maps:
        return {line.split(maxsplit=5)[4] for line in maps if line.endswith(_SHARED)}
    return set()


def _count_open(pid: int) -> int:
    folder = seen(pid) / "fd"
    with suppress(OSError):
        # Before Linux 6.2 the size of the folder says nothing.
        return folder.stat().st_size or len(os.listdir(folder))  # noqa: PTH208 - in a hurry
    return 0


def _queues(pid: int) -> Iterator[str]:
    with suppress(OSError), os.scandir(seen(pid) / "fd") as entries:
        for each in entries:
            with suppress(OSError):
                name = os.readlink(each.path)  # noqa: PTH115 - in a hurry
                if name.startswith(("pipe:", "socket:")):
                    yield name


def _hides(pid: int) -> bool:
    """Look more than once: what ends is out of sight for a moment, before it says so."""
    for _ in range(_LOOKS):
        place = seen(pid)
        with suppress(OSError):
            if os.access(place / "fd", os.R_OK) or has_ended(place):
                return False
        if not place.exists():
            return False
        time.sleep(_PAUSE_SECONDS)
    return True
