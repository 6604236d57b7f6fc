"""The curves of a run as inline SVG: confidence, normalized entropy, and what the rule compared."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from commands.report.convergence.thresholds import compared, thresholds
from commands.report.parts import Html, joined
from commands.report.plot import (
    CROSS,
    DOWN,
    TOP,
    axes,
    bounds,
    described,
    legend,
    mark,
    picture,
    x_of,
    y_of,
)
from reflection.convergence.words.wording import number_words, vote_words
from reflection.sampling.result import Decision
from reflection.sampling.rules import Rule

MOST_MARKS = 80
OWN_CURVE: frozenset[Rule] = frozenset({"combined", "predictive", "beta"})


class Curve(NamedTuple):
    """A curve's class, its name, and its value, 0 to 1, at each decision; None leaves it out."""

    kind: str
    name: str
    value: Callable[[Decision], float | None]


def chart(decisions: Sequence[Decision], rule: Rule, settings: Mapping[str, object]) -> Html:
    """Draw how the measures moved from answer to answer, the waves as bands behind them."""
    decisions = [each for each in decisions if each.index is not None]
    if not any(each.valid_responses for each in decisions):
        return Html("<p>No answer was counted, so there is nothing to draw.</p>")
    curves = [CONFIDENCE, ENTROPY] + ([COMPARED] if rule in OWN_CURVE else [])
    drawn = [each for each in curves if any(each.value(one) is not None for one in decisions)]
    parts = [
        _described(decisions),
        _bands(decisions),
        axes(len(decisions), "answers"),
        bounds(thresholds(rule, settings, decisions)),
        *(_curve(each, decisions) for each in drawn),
        _unreadable(decisions),
    ]
    named = _legend(drawn, crosses=any(each.vote is None for each in decisions))
    return picture(named, parts)


def _confidence(decision: Decision) -> float | None:
    return None if decision.vote is None else decision.confidence


def _entropy(decision: Decision) -> float | None:
    return None if decision.vote is None else decision.normalized_entropy


CONFIDENCE = Curve("confidence", "confidence", _confidence)
ENTROPY = Curve("entropy", "normalized entropy", _entropy)
COMPARED = Curve("compared", "what the rule compared", compared)


def _described(decisions: Sequence[Decision]) -> Html:
    last = decisions[-1]
    words = f"After {last.total_responses} answers confidence is {last.confidence:.2f}"
    words += f" and normalized entropy {last.normalized_entropy:.2f}; the table of decisions has"
    title = "Confidence and normalized entropy after each answer"
    return described(title, f"{words} every value.")


def _bands(decisions: Sequence[Decision]) -> Html:
    bands, start = [], 0
    for wave, group in groupby(decisions, key=lambda each: each.wave):
        end = start + len(list(group))
        bands.append(_band(wave, x_of(start, len(decisions)), x_of(end, len(decisions))))
        start = end
    return joined(bands)


def _band(wave: int, left: float, right: float) -> Html:
    room, middle = right - left, (left + right) / 2
    shade = "band odd" if wave % 2 else "band"
    box = f'<rect class="{shade}" x="{left}" y="{TOP}" width="{room:.1f}" height="{DOWN}"/>'
    name = f"wave {wave}" if room > 50 else str(wave) if room > 16 else ""
    return Html(f'{box}<text class="middle" x="{middle:.1f}" y="{TOP - 10}">{name}</text>')


def _curve(curve: Curve, decisions: Sequence[Decision]) -> Html:
    count = len(decisions)
    points = [
        (x_of(place + 0.5, count), y_of(value), each, value)
        for place, each in enumerate(decisions)
        if (value := curve.value(each)) is not None
    ]
    path = " ".join(f"{x},{y}" for x, y, _, _ in points)
    marks = [_mark(curve, *each) for each in points] if count <= MOST_MARKS else []
    return Html(f'<g class="{curve.kind}"><polyline points="{path}"/>{joined(marks)}</g>')


def _mark(curve: Curve, x: float, y: float, decision: Decision, value: float) -> Html:
    answer = f"answer {number_words(decision)}, {vote_words(decision, 40)}"
    return mark(curve.kind, x, y, f"{answer}: {curve.name} {value:.4g}")


def _unreadable(decisions: Sequence[Decision]) -> Html:
    count = len(decisions)
    return joined(
        Html(
            f'<text class="middle lost" x="{x_of(place + 0.5, count)}" y="{TOP + DOWN - 5}">'
            f"{CROSS}</text>"
        )
        for place, each in enumerate(decisions)
        if each.vote is None
    )


def _legend(curves: Sequence[Curve], *, crosses: bool) -> Html:
    lost = [Html(f"<li><span>{CROSS}</span> unreadable answer</li>")] if crosses else []
    return legend([(each.kind, each.name) for each in curves], lost)
