"""The walk from node to node as a drawing: one lane for each node, one mark for each decision."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from commands.rendering.multipath.wording import END, next_words, reason_words
from commands.report.parts import Html, html, joined
from commands.report.plot import described, legend, mark
from reflection.multipath.result import Decision
from reflection.text import tally_words

WIDTH, LEFT, RIGHT = 860, 140, 150
TOP, LANE, BOTTOM = 26, 40, 30
ACROSS = WIDTH - LEFT - RIGHT
ORDER = (
    "retrieve",
    "route",
    "generate_report",
    "reflect_on_report",
    "generate_code",
    "test_code",
    END,
)
KINDS = {"fine": "confidence", "open": "compared", "ends": "entropy"}


class Place(NamedTuple):
    """A mark: its lane, its kind, its label, what shows when it is pointed at, and its moment."""

    lane: str
    kind: str
    label: str
    words: str
    at: datetime | None


def walk(decisions: Sequence[Decision]) -> Html:
    """Draw which nodes a run went through, in their order, and what it found at each."""
    places = _places(decisions)
    if all(each.lane == END for each in places):
        return Html("<p>The run ended before any node, so there is nothing to draw.</p>")
    lanes = [each for each in ORDER if any(place.lane == each for place in places)]
    height = TOP + LANE * len(lanes) + BOTTOM
    points = [(_x(index, len(places)), _y(lanes, each.lane)) for index, each in enumerate(places)]
    said = f"{tally_words(len(decisions), 'decision')}; the table has every one with its reason."
    parts = [
        described("The nodes of the run in their order", said),
        *(_lane(lanes, each) for each in lanes),
        _line(points),
        *(_mark(place, x, y) for place, (x, y) in zip(places, points, strict=True)),
        *_times(places, height),
    ]
    opened = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="chart-title">'
    known = [(kind, words) for kind, words in LEGEND if any(each.kind == kind for each in places)]
    return Html(f'{legend(known)}<div class="chart">{opened}{joined(parts)}</svg></div>')


LEGEND = (
    (KINDS["fine"], "went on, or found nothing to mend"),
    (KINDS["open"], "found something to mend"),
    (KINDS["ends"], "the end"),
)


def _places(decisions: Sequence[Decision]) -> list[Place]:
    """Place each decision at its node; a second one about the same node ends or waits there."""
    found = [
        Place(each.after, _kind(each), _label(each), _words(each), each.at)
        for each in decisions
        if each.after is not None
    ]
    last = decisions[-1] if decisions else None
    if last is not None and last.stop:
        reason = last.stop_reason or ""
        found.append(Place(END, KINDS["ends"], reason, _words(last), last.at))
    return found


def _kind(decision: Decision) -> str:
    checks = decision.after in {"reflect_on_report", "test_code"}
    return KINDS["open" if checks and (decision.critiques or decision.error) else "fine"]


def _label(decision: Decision) -> str:
    if decision.after == "reflect_on_report" and decision.critiques is not None:
        return f"K {decision.critiques}"
    if decision.after == "test_code" and decision.total is not None:
        return f"{decision.passed}/{decision.total}"
    if decision.after in {"generate_report", "generate_code"}:
        return f"R {decision.revisions}"
    return ""


def _words(decision: Decision) -> str:
    return f"{reason_words(decision, 300)}, next: {next_words(decision)}"


def _x(place: int, count: int) -> float:
    return round(LEFT + (place + 0.5) * ACROSS / count, 1)


def _y(lanes: Sequence[str], lane: str) -> float:
    return TOP + LANE * (lanes.index(lane) + 0.5)


def _lane(lanes: Sequence[str], lane: str) -> Html:
    y = _y(lanes, lane)
    return Html(
        f'<line class="grid" x1="{LEFT}" x2="{LEFT + ACROSS}" y1="{y}" y2="{y}"/>'
        f'<text class="end" x="{LEFT - 12}" y="{y + 4}">{html(lane)}</text>'
    )


def _line(points: Sequence[tuple[float, float]]) -> Html:
    path = " ".join(f"{x},{y}" for x, y in points)
    return Html(f'<g class="walk"><polyline points="{path}"/></g>')


def _mark(place: Place, x: float, y: float) -> Html:
    ends = place.lane == END
    where = f'x="{x + 10}" y="{y + 4}"' if ends else f'class="middle" x="{x}" y="{y - 9}"'
    label = f"<text {where}>{html(place.label)}</text>" if place.label else ""
    return Html(f'<g class="{place.kind}">{mark(place.kind, x, y, place.words)}{label}</g>')


def _times(places: Sequence[Place], height: int) -> list[Html]:
    """Write how long after the first decision each was made, as far as there is room."""
    first = places[0].at
    step = -(-len(places) // 12)
    if first is None:
        return []
    return [
        Html(
            f'<text class="middle" x="{_x(index, len(places))}" y="{height - 8}">'
            f"+{(each.at - first).total_seconds():,.1f} s</text>"
        )
        for index, each in enumerate(places)
        if each.at is not None and index % step == 0
    ]
