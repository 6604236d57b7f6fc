"""A run that goes on, as `show` and `review` print it."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from commands.rendering.multipath.decisions import decisions_table
from commands.rendering.multipath.details import drafts_rows, found_rows, routing_rows
from commands.rendering.multipath.tables import drafts_table
from commands.rendering.multipath.wording import thing_words
from commands.rendering.panel import Row, panel, usage_rows
from reflection.multipath.loop import kept
from reflection.multipath.result import Decision, Progress
from reflection.multipath.words.wording import STEP_WORDS
from reflection.text import neutral, tally_words, terminal_safe


def print_progress(console: Console, progress: Progress, decisions: Sequence[Decision]) -> None:
    """Print where a run stands: its step, its drafts and decisions so far, what it spent."""
    best = kept(progress.drafts)
    rows: list[Row] = [("step", Text(step_words(progress), "bold"))]
    rows.append(("prompt", Text(terminal_safe(progress.prompt, 400))))
    rows += routing_rows(progress.routing)
    rows += drafts_rows(progress.drafts, best.index if best else None)
    if decisions:
        rows.append(("decisions", decisions_table(decisions)))
    rows += found_rows(best, progress)
    rows += usage_rows(progress.usage)
    rows += [("warning", Text(terminal_safe(each, 400), "yellow")) for each in progress.warnings]
    console.print(panel(rows))


def print_review(console: Console, progress: Progress) -> None:
    """Print the draft that would be kept, and what is still open in it."""
    best = kept(progress.drafts)
    rows: list[Row] = [("prompt", Text(terminal_safe(progress.prompt, 2_000)))]
    rows += routing_rows(progress.routing)
    rows.append(("drafts", drafts_table(progress.drafts, best.index if best else None)))
    rows += found_rows(best, progress)
    rows += [("warning", Text(terminal_safe(each, 400), "yellow")) for each in progress.warnings]
    console.print(panel(rows))
    if best is not None:
        console.rule(Text(f"the {thing_words(best.mode)}", "dim"))
        console.print(Text(neutral(best.text)), soft_wrap=not console.is_terminal)
        console.rule(style="dim")


def step_words(progress: Progress) -> str:
    """Say what a run does just now, which calls are under way, and how many drafts there are."""
    flight = f", {tally_words(progress.in_flight, 'call')} in flight" if progress.in_flight else ""
    step = STEP_WORDS[progress.step]
    if progress.max_revisions is None:
        return f"{step}{flight}"
    return f"{step}{flight}, {progress.revisions} of at most {_drafts(progress)} written"


def _drafts(progress: Progress) -> str:
    return tally_words(progress.max_revisions or 0, "draft")
