"""The decisions of a run as a table of one line each."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from commands.rendering.cells import cut
from reflection.convergence.words.wording import (
    by_words,
    comparison,
    lead_words,
    number_words,
    outcome_words,
    vote_words,
)
from reflection.sampling.result import Decision
from reflection.text import terminal_safe


def decisions_table(decisions: Sequence[Decision]) -> Table:
    """Show every decision on one line with the numbers it rests on, the last with its reason."""
    last = decisions[-1] if decisions else None
    caption = Text(f"{outcome_words(last)}, {terminal_safe(last.reason, 200)}") if last else None
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), caption=caption)
    table.caption_justify = "left"
    for name in ("#", "wave"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("votes", "conf.", "H", "compared", ""):
        table.add_column(name, no_wrap=True)
    table.add_column("answer")
    for each in decisions:
        table.add_row(*_decision_cells(each))
    return table


def _decision_cells(decision: Decision) -> tuple[Text, ...]:
    return (
        Text(number_words(decision)),
        Text(str(decision.wave)),
        Text(lead_words(decision)),
        Text(f"{decision.confidence:.2f}"),
        Text(f"{decision.normalized_entropy:.2f}"),
        Text(comparison(decision, 3)),
        Text("stop" if decision.stop else "go on", "bold" if decision.stop else "dim"),
        cut(vote_words(decision, 60), unread=decision.vote is None).append_text(_by(decision)),
    )


def _by(decision: Decision) -> Text:
    return Text(f" {by_words(decision)}" if decision.author else "", "not italic dim")
