"""A run that goes on, as `show` prints it."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from commands.rendering.critique.drafts import decisions_table, drafts_table
from commands.rendering.critique.results import best_rows
from commands.rendering.panel import Row, panel, usage_rows
from reflection.critique.result import Decision, Progress
from reflection.critique.words.wording import STEP_WORDS, best_of
from reflection.text import tally_words, terminal_safe


def print_progress(console: Console, progress: Progress, decisions: Sequence[Decision]) -> None:
    """Print where a run stands: its step, its drafts and decisions so far, what it spent."""
    best = best_of(progress)
    rows: list[Row] = [("step", Text(step_words(progress), "bold"))]
    rows.append(("query", Text(terminal_safe(progress.query, 400))))
    if progress.drafts:
        rows.append(("drafts", drafts_table(progress.drafts, best.index if best else None)))
    if decisions:
        rows.append(("decisions", decisions_table(decisions)))
    rows += best_rows(best, progress.criteria)
    rows += usage_rows(progress.usage)
    rows += [("warning", Text(terminal_safe(each, 400), "yellow")) for each in progress.warnings]
    console.print(panel(rows))


def step_words(progress: Progress) -> str:
    """Say what a run does just now, and how many calls are under way."""
    flight = f", {tally_words(progress.in_flight, 'call')} in flight" if progress.in_flight else ""
    most = tally_words(progress.max_revisions, "revision")
    return f"{STEP_WORDS[progress.step]}{flight}, {progress.revisions} of at most {most} made"
