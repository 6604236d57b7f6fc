"""Watching from outside, through /proc, what a run takes: its processes, CPU, memory and files."""

import asyncio
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from activities.sandbox.backend import Disk, Threads
from activities.sandbox.limits import FILES_PER_MIB, MIB
from activities.sandbox.port import Status
from reflection.multipath.request import Limits

SECONDS = 0.04
# A fork is seen by its limit in the kernel; where that does not bind, at so many times the limit.
TASKS_SLACK = 2
# A pipe or socket may hold some hundred KiB of what was sent and not yet received.
QUEUES = 512
# What other runs may meanwhile write to folders of theirs that are kept in memory.
SLACK_BYTES = 256 * MIB
_SHARED = "/dev/zero (deleted)\n"
_LOOKS, _PAUSE_SECONDS = 4, 0.002
TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
# PF_EXITING of the kernel: it gives up its memory and its files before it is a zombie.
_EXITING = 4


@dataclass(frozen=True)
class Taken:
    """Seconds of CPU, bytes of memory, and how many processes and threads there are now."""

    cpu_seconds: float
    memory_bytes: int
    tasks: int


def descendants(pid: int) -> tuple[int, ...]:
    """Return the ids of all processes below one."""
    found: list[int] = []
    left = [pid]
    while left:
        below = list(children(left.pop()))
        found += below
        left += below
    return tuple(found)


def children(pid: int) -> Iterator[int]:
    """Give the ids of the processes that one started, or that were left to it."""
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            yield from map(int, _read(task / "children").split())
    except FileNotFoundError as error:
        if error.filename.endswith("children") and (PROC / str(pid)).exists():
            yield from _by_parent(pid)
    except OSError:
        return


def taken(first: int) -> Taken:
    """Sum what the descendants of a first process take, and the CPU of those that it reaped."""
    cpu, memory, tasks = _reaped_cpu(first), 0, 0
    for pid in descendants(first):
        try:
            used = _stat(pid)
            memory += _resident(pid)
        except (OSError, ValueError, IndexError):
            continue
        cpu += sum(used[11:15])
        tasks += used[17]
    return Taken(cpu / TICKS, memory, tasks)


def seen(pid: int) -> Path:
    """Return where /proc tells of a process, though the thread that began it has ended."""
    place = PROC / str(pid)
    try:
        if not has_ended(place):
            return place
        return next((task for task in (place / "task").iterdir() if not has_ended(task)), place)
    except OSError:
        return place


def has_ended(place: Path) -> bool:
    """Whether a process, or a thread, by its folder in /proc, is over or about to be."""
    state, *_, flags = _fields(place)[:7]
    return state in "ZX" or bool(int(flags) & _EXITING)


def shared_out(first: int) -> int:
    """Sum the memory of the descendants, a page that several share being counted once."""
    return sum(_proportional(pid) for pid in descendants(first))


def _reaped_cpu(pid: int) -> int:
    try:
        return sum(_stat(pid)[13:15])
    except (OSError, ValueError, IndexError):
        return 0


def _stat(pid: int) -> list[int]:
    """Return the fields of a process from its state on (as 0), which is the third in proc(5)."""
    return [0, *map(int, _fields(PROC / str(pid))[1:])]


def _fields(place: Path) -> list[str]:
    return _read(place / "stat").rpartition(")")[2].split()


def _resident(pid: int) -> int:
    return _sum(_read(seen(pid) / "status"), ("RssAnon:", "RssShmem:", "VmSwap:"))


def _proportional(pid: int) -> int:
    try:
        text = _read(seen(pid) / "smaps_rollup")
        return _sum(text, ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
    except PermissionError:
        return _resident(pid)
    except OSError:
        return 0


def _sum(text: str, names: tuple[str, ...]) -> int:
    lines = (line.split() for line in text.splitlines() if line.startswith(names))
    return sum(int(fields[1]) * 1024 for fields in lines)


def _by_parent(parent: int) -> Iterator[int]:
    """Look through all processes, where the kernel keeps no list of children."""
    for place in PROC.iterdir():
        try:
            if place.name.isdigit() and _stat(int(place.name))[1] == parent:
                yield int(place.name)
        except (OSError, ValueError, IndexError):
            continue


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace")


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
        for entry in entries:
            with suppress(OSError):
                name = os.readlink(entry.path)  # noqa: PTH115 - in a hurry
                if name.startswith(("pipe:", "socket:")):
                    yield name


def _is_hidden(pid: int) -> bool:
    """Whether a process can't be looked into, as another user's can't.

    Look more than once: what ends is out of sight for a moment, before it says so.
    """
    for _ in range(_LOOKS):
        place = seen(pid)
        with suppress(OSError):
            if os.access(place / "fd", os.R_OK) or has_ended(place):
                return False
        if not place.exists():
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


@dataclass
class Watch:
    """The most that was seen so far of one run's processes."""

    limits: Limits
    disk: Callable[[int], Disk]
    threads: Threads
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    shared_before: int = field(default_factory=shared_memory)

    async def until_over(self, first: int) -> Status:
        """Measure again and again, until a limit is passed, and say which."""
        while True:
            await asyncio.sleep(SECONDS)
            if over := await self.threads.call(self.measure, first):
                return over

    def measure(self, first: int) -> Status | None:
        """Measure once what the descendants of the first process take."""
        now = taken(first)
        self.cpu_seconds = max(self.cpu_seconds, now.cpu_seconds)
        memory = self._memory(now.memory_bytes, first)
        self.memory_bytes = max(self.memory_bytes, memory)
        if memory > self.limits.memory_mb * MIB or now.tasks > TASKS_SLACK * self.limits.processes:
            return "memory_limit"
        if self._takes_unseen(first):
            return "memory_limit"
        if now.cpu_seconds >= self.limits.cpu_seconds:
            return "cpu_limit"
        return "disk_limit" if self.is_full(first) else None

    def _memory(self, resident: int, first: int) -> int:
        """Count shared pages once, only where it matters: that takes the kernel longer."""
        if resident <= self.memory_bytes:
            return resident
        return min(resident, shared_out(first))

    def _takes_unseen(self, first: int) -> bool:
        """Whether it takes memory that is nobody's, or may take what can't be seen."""
        below = descendants(first)
        if any(map(_is_hidden, below)) or has_too_many_queues(below):
            return True
        most = self.limits.memory_mb * MIB + SLACK_BYTES
        grown = shared_memory() - self.shared_before
        return grown > most and is_sharing(first, below)

    def is_full(self, first: int) -> bool:
        """Whether its files take more than they may; also after its end, where they outlast it."""
        try:
            used = self.disk(first)
        except OSError:
            return False
        limit = self.limits.disk_mb
        return used.size > limit * MIB or used.files > limit * FILES_PER_MIB
