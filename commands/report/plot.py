"""Curves from 0 to 1 as inline SVG: the plane, its scale, its marks and its legend."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from commands.report.parts import Html, html, joined

WIDTH, HEIGHT = 860, 360
LEFT, RIGHT, TOP, BOTTOM = 44, 190, 30, 44
ACROSS, DOWN = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
LABEL_GAP = 15
CROSS = "&#215;"

SHAPES = {
    "confidence": '<circle r="4"/>',
    "entropy": '<rect x="-3.5" y="-3.5" width="7" height="7"/>',
    "compared": '<path d="M0-5 5 0 0 5-5 0z"/>',
}


class Threshold(NamedTuple):
    """A bound, 0 to 1, and the kind of curve it is for."""

    label: str
    value: float
    curve: str


def picture(above: Html, parts: Iterable[Html]) -> Html:
    """Put parts into one drawing, a legend above it; the first of the parts describes it."""
    opened = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="chart-title">'
    return Html(f'{above}<div class="chart">{opened}{joined(parts)}</svg></div>')


def described(title: str, words: str) -> Html:
    """Tell who can't see the drawing what it is and where it ends."""
    return Html(f'<title id="chart-title">{html(title)}</title><desc>{html(words)}</desc>')


def x_of(place: float, count: int) -> float:
    """Place one of `count` things, counted from 0, from left to right."""
    return round(LEFT + place * ACROSS / count, 1)


def y_of(share: float) -> float:
    """Place a share from 0 to 1 from bottom to top."""
    return round(TOP + (1 - share) * DOWN, 1)


def axes(count: int, name: str) -> Html:
    """Draw the scale from 0 to 1, and one place for each of `count` things of this name."""
    step = -(-count // 20)
    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{LEFT + ACROSS}" y1="{y}" y2="{y}"/>'
        f'<text class="end" x="{LEFT - 8}" y="{y + 4}">{share:g}</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
        for y in (y_of(share),)
    ]
    ticks = [
        f'<text class="middle" x="{x_of(place + 0.5, count)}" y="{TOP + DOWN + 18}">'
        f"{place + 1}</text>"
        for place in range(step - 1, count, step)
    ]
    under = f'<text class="middle" x="{LEFT + ACROSS / 2}" y="{HEIGHT - 6}">{html(name)}</text>'
    return Html("".join([*lines, *ticks, under]))


def bounds(found: Sequence[Threshold]) -> Html:
    """Draw what curves are held against as dashed lines, their names beside them."""
    lines, lowest = [], 0.0
    for each in sorted(found, key=lambda one: -one.value):
        y = y_of(each.value)
        lowest = max(y + 4, lowest + LABEL_GAP)
        lines.append(
            f'<g class="{each.curve}"><line class="bound" x1="{LEFT}" x2="{LEFT + ACROSS + 6}"'
            f' y1="{y}" y2="{y}"/><text x="{LEFT + ACROSS + 10}" y="{lowest:.1f}">'
            f"{html(each.label)}</text></g>"
        )
    return joined(Html(each) for each in lines)


def mark(kind: str, x: float, y: float, words: str) -> Html:
    """Mark a point of a curve; what it is shows when it is pointed at."""
    place = f'class="mark" transform="translate({x} {y})"'
    return Html(f"<g {place}>{SHAPES[kind]}<title>{html(words)}</title></g>")


def legend(curves: Iterable[tuple[str, str]], more: Iterable[Html] = ()) -> Html:
    """Name the curves, each by its kind, with their lines and marks."""
    items = "".join(
        f'<li><svg class="key {kind}" viewBox="-14 -7 28 14" aria-hidden="true">'
        f'<polyline points="-14,0 14,0"/><g class="mark">{SHAPES[kind]}</g></svg>'
        f"{html(name)}</li>"
        for kind, name in curves
    )
    return Html(f'<ul class="legend">{items}{"".join(more)}</ul>')
