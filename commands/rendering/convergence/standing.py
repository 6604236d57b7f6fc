"""A run that goes on, as `show` prints it."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from commands.rendering.convergence.decisions import decisions_table
from commands.rendering.convergence.waves import print_wave
from reflection.sampling.result import Decision, Progress
from reflection.text import spent_words


def print_progress(console: Console, progress: Progress, decisions: Sequence[Decision]) -> None:
    """Print where a run stands: its wave, every decision so far, and what it spent."""
    print_wave(console, progress, decisions)
    if decisions:
        console.print(decisions_table(decisions))
    if progress.needs_review:
        console.print(Text("waits for a person's review", "bold"))
    flight = f"{progress.in_flight} in flight, " if progress.in_flight else ""
    console.print(Text(f"{flight}spent: {spent_words(progress.usage)}"))
