"""How much a program may take, how much of that the kernel enforces, and which limit ended it."""

import os
import resource
from dataclasses import dataclass
from signal import SIGKILL, SIGXCPU, SIGXFSZ

from activities.sandbox.port import Status
from reflection.multipath.request import Limits

MIB = 2**20
# A file system may run out of names long before it runs out of bytes, at the kernel's expense.
FILES_PER_MIB = 256
OPEN_FILES = 256
# The word of a mark, as inside/program.py sets it: why it failed, or never ran.
_CAUSES: dict[str, Status] = {"memory": "memory_limit", "full": "disk_limit"}


def lower(asked: Limits, ceiling: Limits) -> Limits:
    """Return the lower of each two limits."""
    return Limits(
        **{name: min(getattr(asked, name), getattr(ceiling, name)) for name in Limits.model_fields}
    )


def most_at_once(ceiling: Limits) -> int:
    """Return how many runs fit at the ceiling: two a core, and half of the memory there is."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    fitting = memory // 2 // (ceiling.memory_mb + ceiling.disk_mb)
    return max(1, min(2 * (os.cpu_count() or 1), fitting))


def rlimits(limits: Limits) -> tuple[tuple[int, tuple[int, int]], ...]:
    """Return the limits that the kernel keeps for each process of a program."""
    cpu = int(limits.cpu_seconds) + 1
    memory, disk = limits.memory_mb * MIB, limits.disk_mb * MIB
    return (
        (resource.RLIMIT_CORE, (0, 0)),
        (resource.RLIMIT_CPU, (cpu, cpu + 1)),
        (resource.RLIMIT_DATA, (memory, memory)),
        # Page tables of memory that is only reserved are not data; this bounds them.
        (resource.RLIMIT_AS, (memory + 4_096 * MIB, memory + 4_096 * MIB)),
        (resource.RLIMIT_FSIZE, (disk, disk)),
        (resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES)),
        (resource.RLIMIT_NPROC, (limits.processes, limits.processes)),
        (resource.RLIMIT_MSGQUEUE, (0, 0)),
        (resource.RLIMIT_MEMLOCK, (0, 0)),
    )


@dataclass(frozen=True)
class Ending:
    """How the program's first process ended, as the sandbox's first process reports it.

    `mark` is how far it came: running, done, executed (it is another program now), full or memory
    (there was no room to begin); empty where it never began. `code` and `cause` come with `done`.
    """

    exit_code: int | None = None
    signal: int | None = None
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    mark: str = ""
    code: int = 0
    cause: str = ""
    detail: str = ""


def parse_ending(words: list[str]) -> Ending:
    """Read a report: exit code, signal, seconds of CPU, KiB of memory, the mark in hexadecimal.

    Raises ValueError.
    """
    code, number, cpu, memory, mark = words
    stage, _, detail = bytes.fromhex(mark.strip("-")).decode(errors="replace").partition(" ")
    done_code, _, cause = detail.partition(" ") if stage == "done" else ("0", "", stage)
    return Ending(
        exit_code=int(code) if int(code) >= 0 else None,
        signal=int(number) or None,
        cpu_seconds=float(cpu),
        memory_bytes=int(memory) * 1024,
        mark=stage,
        code=int(done_code),
        cause=cause,
        detail=detail,
    )


def classify(fired: Status | None, ending: Ending, cpu_seconds: float, limits: Limits) -> Status:
    """Name what came of a program; a limit that the sandbox ended it for goes before all else."""
    if fired:
        return fired
    if ending.signal:
        # The kernel's own limits end it by a signal: of the disk, and of seconds of CPU.
        if ending.signal == SIGXFSZ:
            return "disk_limit"
        spent = ending.signal == SIGKILL and cpu_seconds >= limits.cpu_seconds
        return "cpu_limit" if ending.signal == SIGXCPU or spent else "killed_by_signal"
    if ending.cause in _CAUSES:
        return _CAUSES[ending.cause]
    if ending.exit_code or ending.code:
        return "error"
    return "ok" if ending.mark in ("done", "executed") else "exited_early"
