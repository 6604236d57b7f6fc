"""The curves of a run as inline SVG: confidence, normalized entropy, and what the rule compared."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from commands.report.parts import Html, html, joined
from commands.report.thresholds import Threshold, compared, thresholds
from reflection.convergence.result import Decision
from reflection.convergence.rules.settings import Rule
from reflection.convergence.words.wording import number_words, vote_words

WIDTH, HEIGHT = 860, 360
LEFT, RIGHT, TOP, BOTTOM = 44, 190, 30, 44
ACROSS, DOWN = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
MOST_MARKS = 80
LABEL_GAP = 15
CROSS = "&#215;"
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
        _axes(decisions),
        _thresholds(thresholds(rule, settings, decisions)),
        *(_curve(each, decisions) for each in drawn),
        _unreadable(decisions),
    ]
    picture = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="chart-title">'
    legend = _legend(drawn, crosses=any(each.vote is None for each in decisions))
    return Html(f'{legend}<div class="chart">{picture}{joined(parts)}</svg></div>')


def _confidence(decision: Decision) -> float | None:
    return None if decision.vote is None else decision.confidence


def _entropy(decision: Decision) -> float | None:
    return None if decision.vote is None else decision.normalized_entropy


CONFIDENCE = Curve("confidence", "confidence", _confidence)
ENTROPY = Curve("entropy", "normalized entropy", _entropy)
COMPARED = Curve("compared", "what the rule compared", compared)


def _x(place: float, count: int) -> float:
    return round(LEFT + place * ACROSS / count, 1)


def _y(share: float) -> float:
    return round(TOP + (1 - share) * DOWN, 1)


def _described(decisions: Sequence[Decision]) -> Html:
    last = decisions[-1]
    words = f"After {last.total_responses} answers confidence is {last.confidence:.2f}"
    words += f" and normalized entropy {last.normalized_entropy:.2f}; the table of decisions has"
    title = "Confidence and normalized entropy after each answer"
    return Html(f'<title id="chart-title">{title}</title><desc>{words} every value.</desc>')


def _bands(decisions: Sequence[Decision]) -> Html:
    bands, start = [], 0
    for wave, group in groupby(decisions, key=lambda each: each.wave):
        end = start + len(list(group))
        bands.append(_band(wave, _x(start, len(decisions)), _x(end, len(decisions))))
        start = end
    return joined(bands)


def _band(wave: int, left: float, right: float) -> Html:
    room, middle = right - left, (left + right) / 2
    shade = "band odd" if wave % 2 else "band"
    box = f'<rect class="{shade}" x="{left}" y="{TOP}" width="{room:.1f}" height="{DOWN}"/>'
    name = f"wave {wave}" if room > 50 else str(wave) if room > 16 else ""
    return Html(f'{box}<text class="middle" x="{middle:.1f}" y="{TOP - 10}">{name}</text>')


def _axes(decisions: Sequence[Decision]) -> Html:
    count = len(decisions)
    step = -(-count // 20)
    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{LEFT + ACROSS}" y1="{_y(share)}" y2="{_y(share)}"/>'
        f'<text class="end" x="{LEFT - 8}" y="{_y(share) + 4}">{share:g}</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    ticks = [
        f'<text class="middle" x="{_x(place + 0.5, count)}" y="{TOP + DOWN + 18}">'
        f"{place + 1}</text>"
        for place in range(step - 1, count, step)
    ]
    name = f'<text class="middle" x="{LEFT + ACROSS / 2}" y="{HEIGHT - 6}">answers</text>'
    return Html("".join([*lines, *ticks, name]))


def _thresholds(found: Sequence[Threshold]) -> Html:
    lines, lowest = [], 0.0
    for each in sorted(found, key=lambda one: -one.value):
        y = _y(each.value)
        lowest = max(y + 4, lowest + LABEL_GAP)
        lines.append(
            f'<g class="{each.curve}"><line class="bound" x1="{LEFT}" x2="{LEFT + ACROSS + 6}"'
            f' y1="{y}" y2="{y}"/><text x="{LEFT + ACROSS + 10}" y="{lowest:.1f}">'
            f"{html(each.label)}</text></g>"
        )
    return joined(Html(each) for each in lines)


def _curve(curve: Curve, decisions: Sequence[Decision]) -> Html:
    count = len(decisions)
    points = [
        (_x(place + 0.5, count), _y(value), each, value)
        for place, each in enumerate(decisions)
        if (value := curve.value(each)) is not None
    ]
    path = " ".join(f"{x},{y}" for x, y, _, _ in points)
    marks = [_mark(curve, *each) for each in points] if count <= MOST_MARKS else []
    return Html(f'<g class="{curve.kind}"><polyline points="{path}"/>{joined(marks)}</g>')


def _mark(curve: Curve, x: float, y: float, decision: Decision, value: float) -> Html:
    answer = f"answer {number_words(decision)}, {vote_words(decision, 40)}"
    title = f"<title>{html(f'{answer}: {curve.name} {value:.4g}')}</title>"
    place = f'class="mark" transform="translate({x} {y})"'
    return Html(f"<g {place}>{SHAPES[curve.kind]}{title}</g>")


SHAPES = {
    "confidence": '<circle r="4"/>',
    "entropy": '<rect x="-3.5" y="-3.5" width="7" height="7"/>',
    "compared": '<path d="M0-5 5 0 0 5-5 0z"/>',
}


def _unreadable(decisions: Sequence[Decision]) -> Html:
    count = len(decisions)
    return joined(
        Html(
            f'<text class="middle lost" x="{_x(place + 0.5, count)}" y="{TOP + DOWN - 5}">'
            f"{CROSS}</text>"
        )
        for place, each in enumerate(decisions)
        if each.vote is None
    )


def _legend(curves: Sequence[Curve], *, crosses: bool) -> Html:
    items = "".join(
        f'<li><svg class="key {each.kind}" viewBox="-14 -7 28 14" aria-hidden="true">'
        f'<polyline points="-14,0 14,0"/><g class="mark">{SHAPES[each.kind]}</g></svg>'
        f"{html(each.name)}</li>"
        for each in curves
    )
    lost = f"<li><span>{CROSS}</span> unreadable answer</li>" if crosses else ""
    return Html(f'<ul class="legend">{items}{lost}</ul>')
