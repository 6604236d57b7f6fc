"""The drafts and the decisions of a run as tables of one line each."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from commands.rendering.cells import cut, grid
from reflection.critique.criteria import Criterion
from reflection.critique.evaluation import Evaluation
from reflection.critique.result import Decision, Draft
from reflection.critique.words.wording import (
    by_words,
    change_words,
    model_words,
    origin_words,
    outcome_words,
    score_words,
)
from reflection.text import terminal_safe
from reflection.words.blocks import bar


def drafts_table(drafts: Sequence[Draft], best: int | None) -> Table:
    """Show every draft on one line: where it is from, its score, its change, its length."""
    table = grid("#", "origin", "score", "change", "chars", "model", right=(0, 2, 3, 4))
    for each in drafts:
        table.add_row(
            Text(str(each.index + 1)),
            cut(origin_words(each)),
            Text(score_words(each.score)),
            Text(change_words(each.change)),
            Text(f"{len(each.text):,}"),
            cut(model_words(each)),
            style="bold" if each.index == best else None,
        )
    return table


def criteria_table(evaluation: Evaluation, criteria: Sequence[Criterion]) -> Table:
    """Show the scores by criterion as bars, with their weights where these differ."""
    weights = {each.name: each.weight for each in criteria}
    differ = len(set(weights.values())) > 1
    grid = Table.grid(padding=(0, 2, 0, 0))
    for style in (None, "green", None, "dim"):
        grid.add_column(no_wrap=True, style=style)
    for name, score in evaluation.criteria.items():
        weight = f"weight {weights[name]:g}" if differ and name in weights else ""
        grid.add_row(cut(terminal_safe(name, 40)), bar(score, 16), score_words(score), weight)
    return grid


def decisions_table(decisions: Sequence[Decision]) -> Table:
    """Show every decision with the numbers that it rests on and its reason."""
    table = grid("#", "score", "judged", "change", "best", "decision", right=(0, 1, 2, 3))
    for each in decisions:
        by = f" {by_words(each)}" if each.author else ""
        table.add_row(
            Text("-" if each.draft is None else str(each.draft + 1)),
            Text(score_words(each.score)),
            Text(score_words(each.judged)),
            Text(change_words(each.change)),
            Text(_best(each)),
            Text(f"{outcome_words(each)}{by}: {terminal_safe(each.reason, 200)}"),
        )
    return table


def _best(decision: Decision) -> str:
    if decision.best is None:
        return "-"
    return f"#{decision.best + 1} {score_words(decision.best_score)}"
