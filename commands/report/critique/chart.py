"""The scores of the drafts as a curve, against the threshold."""

from collections.abc import Sequence
from typing import NamedTuple

from commands.report.parts import Html, joined
from commands.report.plot import (
    Threshold,
    axes,
    bounds,
    described,
    legend,
    mark,
    picture,
    x_of,
    y_of,
)
from reflection.critique.result import Draft
from reflection.critique.words.wording import draft_words


class Curve(NamedTuple):
    """A curve's kind, its name, and its value, 0 to 1, at each draft; None leaves it out."""

    kind: str
    name: str
    values: Sequence[float | None]


def chart(drafts: Sequence[Draft], threshold: float) -> Html:
    """Draw how the score moved from draft to draft, before and after the guardrails."""
    scores = [each.score for each in drafts]
    judged = [each.evaluation.judged if each.evaluation else None for each in drafts]
    known = [each for each in scores if each is not None]
    if not known:
        return Html("<p>No draft has a score, so there is nothing to draw.</p>")
    curves = [Curve("entropy", "judges' score", judged)] if judged != scores else []
    curves.append(Curve("confidence", "score", scores))
    words = f"The best of {len(known)} scores is {max(known):.2f}; the table has every value."
    parts = [
        described("The score of each draft", words),
        axes(len(drafts), "drafts"),
        bounds([Threshold(f"threshold {threshold:g}", threshold, "confidence")]),
        *(_curve(each) for each in curves),
    ]
    return picture(legend([(each.kind, each.name) for each in curves]), parts)


def _curve(curve: Curve) -> Html:
    count = len(curve.values)
    points = [
        (x_of(place + 0.5, count), y_of(value), place, value)
        for place, value in enumerate(curve.values)
        if value is not None
    ]
    path = " ".join(f"{x},{y}" for x, y, _, _ in points)
    marks = [
        mark(curve.kind, x, y, f"{draft_words(place)}: {curve.name} {value:.4g}")
        for x, y, place, value in points
    ]
    return Html(f'<g class="{curve.kind}"><polyline points="{path}"/>{joined(marks)}</g>')
