"""What a process and all its descendants take, read from /proc."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
        return next((each for each in (place / "task").iterdir() if not has_ended(each)), place)
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
    for each in PROC.iterdir():
        try:
            if each.name.isdigit() and _stat(int(each.name))[1] == parent:
                yield int(each.name)
        except (OSError, ValueError, IndexError):
            continue


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace")
