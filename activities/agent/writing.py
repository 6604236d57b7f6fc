"""What every draft has alike, a report or code: its bounds, and what came of the call for it."""

from datetime import datetime

from activities.agent.receipt import AgentTask, Replied
from reflection.multipath.result import Source


class WritingTask(AgentTask):
    """What to write, from which sources; `index` is the draft's, from 0."""

    index: int
    sources: tuple[Source, ...]
    temperature: float
    seed: int | None
    output_bytes: int


class Generated(Replied):
    """A draft's text, or None; `cut` is true where it is the beginning of a longer one.

    `assembled` is a report as it is given out, with its sources and the suggestions so far.
    """

    text: str | None
    assembled: str | None = None
    cut: bool = False
    timestamp: datetime


def options(task: WritingTask) -> dict[str, object]:
    """Return the fields of a call for a draft: each draft has a seed of its own."""
    return {
        "temperature": task.temperature,
        "seed": None if task.seed is None else task.seed + task.index,
        "keep_cut": True,
    }
