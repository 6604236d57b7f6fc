"""Measuring a run from outside, through /proc: its processes, CPU, memory and files."""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from activities.sandbox.limits import FILES_PER_MIB, MIB
from activities.sandbox.port import Status
from mull.multipath.request import Limits

SECONDS = 0.04
# The kernel refuses forks above the limit. If it does not, the watcher ends the run at this
# multiple of the limit.
TASKS_SLACK = 2
# A pipe or socket may hold some hundred KiB that were sent and not yet received.
QUEUES = 512
# Other runs may write so much meanwhile to their own folders in memory.
SLACK_BYTES = 256 * MIB
_SHARED = "/dev/zero (deleted)\n"
_LOOKS, _PAUSE_SECONDS = 4, 0.002
TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
# Each process has page tables of its own, even for memory that is shared, or never written.
_PAGE_TABLES = "VmPTE:"
_RESIDENT = ("RssAnon:", "RssShmem:", "VmSwap:", _PAGE_TABLES)
# The kernel's PF_EXITING: a process gives up its memory and files before it is a zombie.
_EXITING = 4


# The bytes of a run's files, and the number of its files and folders.
Disk = tuple[int, int]


def descendants(pid: int) -> tuple[int, ...]:
    """Return the ids of a process's children, and of all below these."""
    found: list[int] = []
    left = [pid]
    while left:
        below = list(children(left.pop()))
        found += below
        left += below
    return tuple(found)


def children(pid: int) -> Iterator[int]:
    """Yield the ids of a process's children, those that it adopted too."""
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            yield from map(int, _read(task / "children").split())
    except FileNotFoundError as error:
        if not error.filename.endswith("children") or not (PROC / str(pid)).exists():
            return
        # This kernel keeps no list of children: look through all processes.
        for place in PROC.iterdir():
            with suppress(OSError, ValueError, IndexError):
                if place.name.isdigit() and _stat(int(place.name))[1] == pid:
                    yield int(place.name)
    except OSError:
        return


def taken(first: int) -> tuple[float, int, int]:
    """Sum what the descendants of a first process take, and the CPU of those it reaped.

    Return seconds of CPU, bytes of memory, and the number of processes and threads now.
    """
    cpu = memory = tasks = 0
    with suppress(OSError, ValueError, IndexError):
        cpu = sum(_stat(first)[13:15])
    for pid in descendants(first):
        try:
            used = _stat(pid)
            memory += _status(pid, *_RESIDENT)
        except (OSError, ValueError, IndexError):
            continue
        cpu += sum(used[11:15])
        tasks += used[17]
    return cpu / TICKS, memory, tasks


def seen(pid: int) -> Path:
    """Return the folder of a process in /proc, or of a live thread if its first one ended."""
    place = PROC / str(pid)
    try:
        if not has_ended(place):
            return place
        return next((task for task in (place / "task").iterdir() if not has_ended(task)), place)
    except OSError:
        return place


def has_ended(place: Path) -> bool:
    """Tell whether a process or thread, by its folder in /proc, has ended or is about to."""
    state, *_, flags = _fields(place)[:7]
    return state in "ZX" or bool(int(flags) & _EXITING)


def shared_out(first: int) -> int:
    """Sum the memory of the descendants, counting a shared page once."""
    total = 0
    for pid in descendants(first):
        with suppress(OSError):
            try:
                text = _read(seen(pid) / "smaps_rollup")
                total += _sum(text, ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
                total += _status(pid, _PAGE_TABLES)
            except PermissionError:
                total += _status(pid, *_RESIDENT)
    return total


def _stat(pid: int) -> list[int]:
    """Return the fields of a process from its state (as 0) on: the third in proc(5)."""
    return [0, *map(int, _fields(PROC / str(pid))[1:])]


def _fields(place: Path) -> list[str]:
    return _read(place / "stat").rpartition(")")[2].split()


def _status(pid: int, *names: str) -> int:
    return _sum(_read(seen(pid) / "status"), names)


def _sum(text: str, names: tuple[str, ...]) -> int:
    lines = (line.split() for line in text.splitlines() if line.startswith(names))
    return sum(int(fields[1]) * 1024 for fields in lines)


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace")


def shared_memory() -> int:
    """Return the bytes of shared memory on this machine, file systems in memory included."""
    with (PROC / "meminfo").open(encoding="ascii") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Shmem:")), 0)


def is_sharing(first: int, below: Iterable[int]) -> bool:
    """Tell whether a process below a first one has shared memory that the first does not have.

    Such memory stays when most of it is unmapped, and then counts for no process.
    """
    own = _shared_by(first)
    return any(_shared_by(pid) - own for pid in below)


def has_too_many_queues(below: Collection[int]) -> bool:
    """Tell whether processes have more than `QUEUES` different pipes and sockets."""
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
        # Before Linux 6.2 the folder's size is 0.
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
    """Tell whether a process can't be inspected, like another user's.

    Look more than once: an ending process is hidden for a moment before its end can be seen.
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
    """The highest measurements of one run's processes so far, by threads that look again and again.

    One looks at memory and CPU, another at the disk, so that many files delay no other limit.
    """

    limits: Limits
    disk: Callable[[int], Disk]
    threads: ThreadPoolExecutor
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    shared_before: int = field(default_factory=shared_memory)
    looks: list[asyncio.Future[Status | None]] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    def begin(self, first: int) -> None:
        """Begin to look. Each look ends with the limit that was passed, or with None once over."""
        loop = asyncio.get_running_loop()
        for look in (self.measure, self.measure_disk):
            self.looks.append(loop.run_in_executor(self.threads, self._repeat, look, first))

    async def end(self) -> None:
        """Wait until its threads have stopped: they would see processes of the next run."""
        self.over.set()
        if self.looks:
            await asyncio.wait(self.looks)

    def _repeat(self, look: Callable[[int], Status | None], first: int) -> Status | None:
        while not self.over.wait(SECONDS):
            if passed := look(first):
                return passed
        return None

    def measure(self, first: int) -> Status | None:
        """Measure the descendants of the first process once."""
        cpu, memory, tasks = taken(first)
        self.cpu_seconds = max(self.cpu_seconds, cpu)
        if memory > self.memory_bytes:
            # Counting shared pages once takes the kernel longer, so only if it matters.
            memory = min(memory, shared_out(first))
            self.memory_bytes = max(self.memory_bytes, memory)
        most, below = self.limits.memory_mb * MIB, descendants(first)
        if memory > most or tasks > TASKS_SLACK * self.limits.processes:
            return "memory_limit"
        # Memory may also be hidden, or belong to no process.
        if any(map(_is_hidden, below)) or has_too_many_queues(below):
            return "memory_limit"
        grown = shared_memory() - self.shared_before
        if grown > most + SLACK_BYTES and is_sharing(first, below):
            return "memory_limit"
        return "cpu_limit" if cpu >= self.limits.cpu_seconds else None

    def measure_disk(self, first: int) -> Status | None:
        """Measure the run's files once, even after its end if they are still there."""
        try:
            size, files = self.disk(first)
        except OSError:
            return None
        limit = self.limits.disk_mb
        full = size > limit * MIB or files > limit * FILES_PER_MIB
        return "disk_limit" if full else None


# A path from a folder that is held open: short, since the kernel walks all of it each time.
_PATH_BYTES = 1_750
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# So many files may be of unknown size.
_MOST_UNKNOWN = 4
# So many folders may be held open at a time, one below the other.
_MOST_HELD = 32
BLOCK = 512

Inode = tuple[int, int]


def used(box: Path, first: int, most_files: int) -> Disk:
    """Measure a folder, and the deleted files that processes below a first one still hold.

    Counting stops above `most_files`, which is over the limit. So are folders below a path of
    50 KB, and more than a few files of unknown size: sent through a socket, or only mapped.
    """
    listed: dict[Inode, int] = {}
    entries = 0
    for found in _entries(str(box)):
        if found is None or entries > most_files:
            entries = most_files + 1
            break
        listed[found.st_dev, found.st_ino] = found.st_blocks * BLOCK
        entries += 1
    opened, mapped, sent = _unlisted(str(box), descendants(first))
    if sent + len(mapped.keys() - opened.keys() - listed.keys()) > _MOST_UNKNOWN:
        entries = most_files + 1
    sizes = {**mapped, **opened, **listed}
    return sum(sizes.values()), max(entries, len(sizes))


def _entries(box: str) -> Iterator[os.stat_result | None]:
    """Yield every entry, even if folders change meanwhile; None for a folder that is too deep."""
    held: list[int] = []
    # Paths from the last folder that is held, each group below a None that ends it.
    left: list[str | None] = [box]
    try:
        while left:
            path = left.pop()
            if path is None:
                os.close(held.pop())
                continue
            try:
                handle = os.open(path, _FOLDER, dir_fd=held[-1] if held else None)
            except OSError:
                continue
            far = not held or len(os.fsencode(path)) > _PATH_BYTES
            held.append(handle)
            if len(held) > _MOST_HELD:
                yield None
            left += [None] if far else []
            for name, found in _listed(handle, follow=False):
                yield found
                if stat.S_ISDIR(found.st_mode):
                    left.append(name if far else f"{path}/{name}")
            if not far:
                os.close(held.pop())
    finally:
        for handle in held:
            os.close(handle)


def _listed(folder: int | Path, *, follow: bool) -> Iterator[tuple[str, os.stat_result]]:
    # One by one, so that the caller can stop early.
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                yield entry.name, entry.stat(follow_symlinks=follow)


def _unlisted(box: str, processes: Iterable[int]) -> tuple[dict[Inode, int], dict[Inode, int], int]:
    """Return the bytes of deleted files that processes hold, and how many are in sockets.

    The first sizes are of open files, the second of files mapped from below a folder, by the
    largest mapping.
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
                span, _, _, device, inode, _ = line.split(maxsplit=5)
                low, high = (int(end, 16) for end in span.split("-"))
                major, minor = (int(number, 16) for number in device.split(":"))
                yield (os.makedev(major, minor), int(inode)), high - low
