"""Which status a run has, from what is known of its end."""

from dataclasses import dataclass
from signal import SIGKILL, SIGXCPU, SIGXFSZ

from activities.sandbox.port import Status
from reflection.multipath.request import Limits

# The word of a mark, as inside/program.py sets it: it never came to run, or why it failed.
_CAUSES: dict[str, Status] = {"memory": "memory_limit", "full": "disk_limit"}


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
        return _of_signal(ending.signal, cpu_seconds, limits)
    if ending.cause in _CAUSES:
        return _CAUSES[ending.cause]
    if ending.exit_code or ending.code:
        return "error"
    return "ok" if ending.mark in ("done", "executed") else "exited_early"


def _of_signal(number: int, cpu_seconds: float, limits: Limits) -> Status:
    if number == SIGXFSZ:
        return "disk_limit"
    spent = number == SIGKILL and cpu_seconds >= limits.cpu_seconds
    return "cpu_limit" if number == SIGXCPU or spent else "killed_by_signal"
