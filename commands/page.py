"""Render a sheet as one HTML file, to keep, send and print. It loads nothing and has no scripts."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from mull.details import cell_words
from mull.sheet import Chart, Curve, Sheet
from mull.text import neutral, terminal_safe

HERE = Path(__file__).parent

# The chart: its size, its margins, and how much fits into it.
WIDTH, LEFT, RIGHT, TOP = 860, 44, 190, 30
HEIGHT, LANE, BOTTOM = 286, 44, 44
LEVELS_LEFT = 150
LABEL_GAP = 15
CELL_COLUMNS = 600
MOST_MARKS = 80
MOST_TICKS = 20
SHAPES = (
    Markup('<circle r="4"/>'),
    Markup('<rect x="-3.5" y="-3.5" width="7" height="7"/>'),
    Markup('<path d="M0-5 5 0 0 5-5 0z"/>'),
    Markup('<path d="M0-5 5 4-5 4z"/>'),
)

Place = Callable[[float], float]


class RunFacts(NamedTuple):
    """What a page shows of a run besides its sheet.

    `started` and `closed` are aware times; `web_ui` is the run's address, linked if it is http
    or https; `settings` are the request's fields.
    """

    workflow_id: str
    run_id: str
    started: datetime | None = None
    closed: datetime | None = None
    web_ui: str | None = None
    settings: Mapping[str, object] | None = None


def page_html(sheet: Sheet, run: RunFacts | None = None) -> str:
    """Render a sheet, with the run's facts if given, as one HTML file."""
    decisions = [sheet.decisions] if sheet.decisions else []
    template = _templates().get_template("page.html.j2")
    return template.render(
        sheet=sheet,
        title=terminal_safe(f"Mull: {sheet.subject}", 80),
        charts=[drawing(chart) for chart in sheet.charts],
        tables=[table for table in (*sheet.tables, *decisions) if table.rows],
        run=run,
        linked=bool(run and run.web_ui and _is_web(run.web_ui)),
        settings=_settings(run, sheet.subject) if run else [],
    )


def drawing(chart: Chart) -> dict[str, object]:
    """Lay out a chart: its scale, bands, bounds, curves and crosses."""
    count = max((len(curve.points) for curve in chart.curves), default=0)
    left = LEVELS_LEFT if chart.levels else LEFT
    across = WIDTH - left - RIGHT
    down = LANE * max(1, len(chart.levels) - 1) if chart.levels else HEIGHT

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


def _settings(run: RunFacts, subject: str) -> list[tuple[str, str]]:
    """List the fields of a request that have a value, without the question itself."""
    return [
        (
            name,
            terminal_safe(
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 400
            ),
        )
        for name, value in (run.settings or {}).items()
        if value not in (None, (), [], {}) and value != subject
    ]


def _is_web(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


def _rendered(markdown: str) -> Markup:
    """Render Markdown: HTML stays text, only web addresses are linked, and no image is loaded."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    reader.validateLink = _is_web  # type: ignore[assignment]
    # An entity may stand for a character that must not be shown.
    return Markup(neutral(reader.render(markdown)))  # noqa: S704 - it escapes what it is given


@cache
def _templates() -> Environment:
    """Load the template; its values are escaped, with control characters made visible."""
    found = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            neutral(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
    )
    found.filters["words"] = lambda cell, column: terminal_safe(
        cell_words(cell, column), CELL_COLUMNS
    )
    found.filters["rendered"] = _rendered
    # Keeps a per cent sign on the line of its number.
    found.filters["unbroken"] = lambda words: words.replace(" %", "\u00a0%")
    found.filters["time"] = lambda moment: (
        f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "unknown"
    )
    return found
