"""Lay out charts: where their scale, bands, bounds, curves and crosses stand in a drawing."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from mull.sheet import Chart, Curve

# The chart: its size, its margins, and how much fits into it.
WIDTH, LEFT, RIGHT, TOP = 860, 44, 190, 30
# A curve is drawn as high as it is worth: for each of its points, up to a whole chart.
HEIGHT, LEAST, FOR_A_POINT = 240, 90, 12
LANE, BOTTOM = 44, 44
LEVELS_LEFT = 150
LABEL_GAP = 15
MOST_MARKS = 80
MOST_TICKS = 20
SHAPES = (
    Markup('<circle r="4"/>'),
    Markup('<rect x="-3.5" y="-3.5" width="7" height="7"/>'),
    Markup('<path d="M0-5 5 0 0 5-5 0z"/>'),
    Markup('<path d="M0-5 5 4-5 4z"/>'),
)


Place = Callable[[float], float]


def drawing(chart: Chart) -> dict[str, object]:
    """Lay out a chart: its scale, bands, bounds, curves and crosses."""
    count = max((len(curve.points) for curve in chart.curves), default=0)
    left = LEVELS_LEFT if chart.levels else LEFT
    across = WIDTH - left - RIGHT
    down = min(HEIGHT, LEAST + FOR_A_POINT * count)
    if chart.levels:
        down = LANE * max(1, len(chart.levels) - 1)

    def x(place: float) -> float:
        return round(left + place * across / max(count, 1), 1)

    def y(share: float) -> float:
        return round(TOP + (1 - max(0.0, min(1.0, share))) * down, 1)

    step = -(-count // MOST_TICKS) or 1
    names = chart.places or tuple(str(place + 1) for place in range(count))
    top = max(1, len(chart.levels) - 1)
    levels = [(y(at / top), name) for at, name in enumerate(chart.levels)]
    crosses = [
        x(place + 0.5)
        for place in range(count)
        if chart.gap
        and all(curve.points[place : place + 1] in {(), (None,)} for curve in chart.curves)
    ]
    return {
        "chart": chart,
        "width": WIDTH,
        "height": TOP + down + BOTTOM,
        "left": left,
        "right": left + across,
        "top": TOP,
        "bottom": TOP + down,
        "heights": levels or [(y(share), f"{share:g}") for share in (0, 0.25, 0.5, 0.75, 1)],
        "ticks": [(x(at + 0.5), names[at]) for at in range(step - 1, count, step)],
        "bands": _bands(chart, x),
        "bounds": _bounds(chart, y),
        "crosses": crosses,
        "curves": [
            {
                "name": curve.name,
                "shape": SHAPES[number % len(SHAPES)],
                "lines": _lines(curve.points, x, y),
                "marks": [
                    (
                        x(at + 0.5),
                        y(value),
                        curve.labels[at]
                        if at < len(curve.labels)
                        else f"{names[at]}: {curve.name} {value:.4g}",
                    )
                    for at, value in enumerate(curve.points)
                    if value is not None and count <= MOST_MARKS
                ],
            }
            for number, curve in enumerate(chart.curves)
        ],
        "spoken": ", ".join(_ends(curve) for curve in chart.curves if _ends(curve)),
    }


def _ends(curve: Curve) -> str:
    """Describe where a curve ends, for screen readers."""
    known = [value for value in curve.points if value is not None]
    return f"{curve.name} ends at {known[-1]:.2f}" if known else ""


def _lines(points: Sequence[float | None], x: Place, y: Place) -> list[str]:
    """Format a curve as polylines, with a new one after each gap."""
    lines: list[list[str]] = [[]]
    for at, value in enumerate(points):
        if value is None:
            lines.append([])
        else:
            lines[-1].append(f"{x(at + 0.5)},{y(value)}")
    return [" ".join(line) for line in lines if line]


def _bands(chart: Chart, x: Place) -> list[dict[str, object]]:
    """Lay out the bands one after another; a name that does not fit is shortened."""
    bands, start = [], 0
    for number, band in enumerate(chart.bands):
        left, right = x(start), x(start + band.points)
        room = right - left
        name = band.label if room > 8 * len(band.label) else ""
        short = band.label.rpartition(" ")[2] if room > 16 else ""
        middle = round((left + right) / 2, 1)
        bands.append(
            {
                "x": left,
                "width": round(room, 1),
                "middle": middle,
                "name": name or short,
                "odd": number % 2 == 0,
            }
        )
        start += band.points
    return bands


def _bounds(chart: Chart, y: Place) -> list[dict[str, object]]:
    """Lay out the bounds from top to bottom, with their labels kept apart."""
    order = [curve.name for curve in chart.curves]
    drawn = [bound for bound in chart.bounds if not bound.curve or bound.curve in order]
    placed, lowest = [], 0.0
    for bound in sorted(drawn, key=lambda one: -one.value):
        lowest = max(y(bound.value) + 4, lowest + LABEL_GAP)
        curve = order.index(bound.curve) if bound.curve else 0
        placed.append(
            {"y": y(bound.value), "label_y": round(lowest, 1), "label": bound.label, "curve": curve}
        )
    return placed
