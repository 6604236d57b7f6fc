"""A batch of runs: how far it is while it goes on, then why it ended and what it cost."""

import sys
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from commands.rendering.panel import Row, pairs, panel
from reflection.batch.result import BatchProgress, BatchResult
from reflection.text import tally_words, terminal_safe, usd

# The commonest reasons say what is wrong; many runs seldom fail for more.
ERRORS = 3


class BatchLive:
    """How far a batch is: in a terminal always in sight, else a line at each tenth."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tenth = -1

    def busy(self, progress: BatchProgress) -> str:
        """Say how many runs have ended, and what they cost."""
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        runs = f"{progress.done:,} of {progress.total:,} runs{failed}"
        return f"{runs}, {progress.running} running, {spent_words(progress)}"

    def show(self, progress: BatchProgress, decisions: Sequence[object] = ()) -> None:
        """Print it where a tenth more has ended than was said before, and no terminal shows it."""
        del decisions
        tenth = 10 * progress.done // progress.total
        if not self._console.is_terminal and tenth > self._tenth:
            self._tenth = tenth
            sys.stderr.write(f"{self.busy(progress)}\n")

    def end(self, result: BatchResult) -> None:
        """Print why it ended, where the lines before can't tell."""
        if not self._console.is_terminal:
            sys.stderr.write(f"{terminal_safe(result.stop_explanation, 400)}\n")


def print_progress(console: Console, progress: BatchProgress) -> None:
    """Print how many runs have ended, how, and what they cost."""
    waiting = progress.total - progress.done - progress.running
    counts = [
        (progress.running, "running"),
        (progress.failed, "failed"),
        (progress.cancelled, "cancelled"),
        (waiting, "not started"),
    ]
    ended = f"{progress.done:,} of {tally_words(progress.total, 'run')} ended"
    rows: list[Row] = [("batch", Text(ended, "bold")), ("runs", Text(_counted(counts)))]
    if progress.stop_reason:
        rows.append(("ending", Text(progress.stop_reason)))
    _print(console, rows, progress)


def print_result(console: Console, result: BatchResult) -> None:
    """Print why a batch ended, what became of its runs, and what they cost."""
    counts = [
        (result.completed, "completed"),
        (result.failed, "failed"),
        (result.cancelled, "cancelled"),
        (result.not_started, "not started"),
    ]
    rows: list[Row] = [
        ("batch", Text(f"{result.total - result.not_started:,} of {result.total:,} runs", "bold")),
        ("ended by", Text(f"{result.stop_reason}: {terminal_safe(result.stop_explanation, 400)}")),
        ("runs", Text(_counted(counts))),
    ]
    errors = Counter(each.error for each in result.runs if each.error).most_common(ERRORS)
    if errors:
        said = [(f"{count:,}", terminal_safe(error, 200)) for error, count in errors]
        rows.append(("failures", pairs(said)))
    _print(console, rows, result)


def spent_words(seen: BatchProgress | BatchResult) -> str:
    """Say what the runs of a batch have spent; what one of them does not tell is unknown."""
    tokens = "tokens unknown" if seen.tokens is None else tally_words(seen.tokens, "token")
    return f"{tokens}, cost {usd(seen.cost_usd)}"


def _counted(counts: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{count:,} {name}" for count, name in counts)


def _print(console: Console, rows: list[Row], seen: BatchProgress | BatchResult) -> None:
    rows.append(("spent", Text(spent_words(seen))))
    rows += [("warning", Text(terminal_safe(each, 400), "yellow")) for each in seen.warnings]
    console.print(panel(rows))
