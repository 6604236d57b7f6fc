"""A reliability diagram as inline SVG: what scores promise, and what the labels say."""

from collections.abc import Sequence

from commands.report.parts import Html, html, joined
from reflection.critique.calibration.reliability import Bin

SIZE, LEFT, TOP, UNDER = 320, 52, 12, 48
WIDTH, HEIGHT = LEFT + SIZE + 16, TOP + SIZE + UNDER
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)
SMALLEST, LARGEST = 3.5, 11.0


def diagram(bins: Sequence[Bin], judge: str, number: int) -> Html:
    """Draw the mean label of each bin over its mean score; the area of a mark shows its count.

    On the diagonal a score means what it says. `number` tells the drawings of a page apart.
    """
    full = [each for each in bins if each.count]
    if not full:
        return Html("<p>There is no score, so there is nothing to draw.</p>")
    most = max(each.count for each in full)
    parts = [
        _described(full, judge, number),
        *_scale(),
        _line("entropy", [(0, 0), (1, 1)], ' stroke-dasharray="6 4"'),
        _line("confidence", [_point(each) for each in full]),
        *(_mark(each, most) for each in full),
    ]
    opened = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="reliability-{number}"'
        f' style="width:{WIDTH}px;max-width:100%;min-width:0">'
    )
    return Html(f'<div class="chart">{opened}{joined(parts)}</svg></div>')


def _described(full: Sequence[Bin], judge: str, number: int) -> Html:
    count = sum(each.count for each in full)
    words = f"{count} scores in {len(full)} bins; the table has every value."
    return Html(
        f'<title id="reliability-{number}">The reliability of {html(judge)}</title>'
        f"<desc>{html(words)}</desc>"
    )


def _x(score: float) -> float:
    return round(LEFT + score * SIZE, 1)


def _y(label: float) -> float:
    return round(TOP + (1 - label) * SIZE, 1)


def _scale() -> list[Html]:
    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{LEFT + SIZE}" y1="{_y(at)}" y2="{_y(at)}"/>'
        f'<text class="end" x="{LEFT - 8}" y="{_y(at) + 4}">{at:g}</text>'
        f'<line class="grid" x1="{_x(at)}" x2="{_x(at)}" y1="{TOP}" y2="{TOP + SIZE}"/>'
        f'<text class="middle" x="{_x(at)}" y="{TOP + SIZE + 18}">{at:g}</text>'
        for at in STEPS
    ]
    middle = TOP + SIZE / 2
    names = (
        f'<text class="middle" x="{_x(0.5)}" y="{HEIGHT - 8}">mean score</text>'
        f'<text class="middle" transform="translate(13 {middle}) rotate(-90)">mean label</text>'
    )
    return [*map(Html, lines), Html(names)]


def _point(each: Bin) -> tuple[float, float]:
    return each.score or 0.0, each.label or 0.0


def _line(kind: str, points: Sequence[tuple[float, float]], more: str = "") -> Html:
    path = " ".join(f"{_x(score)},{_y(label)}" for score, label in points)
    return Html(f'<g class="{kind}"><polyline points="{path}"{more}/></g>')


def _mark(each: Bin, most: int) -> Html:
    score, label = _point(each)
    radius = max(SMALLEST, LARGEST * (each.count / most) ** 0.5)
    words = f"{each.count} with scores of {each.low:g} to {each.high:g}: "
    said = html(f"{words}mean score {score:.2f}, mean label {label:.2f}")
    return Html(
        f'<g class="confidence"><circle class="mark" cx="{_x(score)}" cy="{_y(label)}"'
        f' r="{radius:.1f}"><title>{said}</title></circle></g>'
    )
