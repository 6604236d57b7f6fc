from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from commands.report.convergence import report_html
from commands.report.convergence.thresholds import thresholds
from commands.report.document import RunFacts
from reflection.sampling.loop import Sampling, result
from tests.unit.page import HOSTILE, WEB_UI, Page
from tests.unit.runs import START, failed, finished, put_in, replied, sampled


def report(sampling: Sampling, *, web_ui: str | None = None, **changes: object) -> str:
    return report_html(
        result(sampling).model_copy(update=changes),
        RunFacts(
            workflow_id="ask-what-is-3-43-7f3a91c2",
            run_id="0197c2",
            started=START,
            closed=START + timedelta(seconds=12.34),
            web_ui=web_ui,
            settings=sampling.request.model_dump(),
        ),
    )


def chart(page: str) -> ET.Element:
    start = page.index("<svg viewBox", page.index('class="chart"'))
    return ET.fromstring(page[start : page.index("</svg>", start) + 6])  # noqa: S314 - our own


RUNS = {
    "ten": sampled(["129", "139"] * 5),
    "forty": sampled(["129", "139", None, "the sum"] * 10, rule="fixed", max_responses=40),
    "thousand": sampled(["129", "139"] * 500, rule="fixed", max_responses=1000),
    "people and failures": finished(["A", failed(1, "Blocked"), put_in(2, "B", "Ann")]),
    "nothing readable": sampled([None] * 10),
    "nothing at all": finished([]),
    "hostile": finished(
        [HOSTILE, failed(1, HOSTILE), put_in(2, HOSTILE, HOSTILE), HOSTILE], question=HOSTILE
    ),
}


@pytest.mark.parametrize("sampling", RUNS.values(), ids=RUNS)
def test_the_page_is_whole(sampling: Sampling) -> None:
    """Every element is closed in order, and every column and row of a table has a header."""
    page = Page(report(sampling, web_ui=WEB_UI))

    assert page.open == []
    assert {each.get("scope") for each in page.named("th")} == {"row", "col"}
    assert len(page.named("caption")) == len(page.named("table"))


@pytest.mark.parametrize("sampling", RUNS.values(), ids=RUNS)
def test_the_page_loads_nothing_and_runs_nothing(sampling: Sampling) -> None:
    """No element or attribute loads or runs anything, and the policy forbids it besides."""
    text = report(sampling, warnings=(HOSTILE,), web_ui=WEB_UI)
    page = Page(text)
    names = {name for _, attributes in page.elements for name in attributes}

    assert not {tag for tag, _ in page.elements} & {"script", "img", "link", "iframe", "object"}
    assert not {each for each in names if each.startswith("on")} | names & {"src", "srcset"}
    assert "url(" not in text
    assert "@import" not in text
    assert page.named("meta")[1]["content"] == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    )


def test_everything_from_outside_is_escaped() -> None:
    """Text of models, people and callers is shown as it is, its control characters as pictures."""
    response = replied(0, HOSTILE).model_copy(update={"reasoning": HOSTILE, "model": HOSTILE})
    sampling = finished([response, failed(1, HOSTILE)], question=HOSTILE)

    page = report_html(
        result(sampling),
        RunFacts(
            workflow_id=HOSTILE,
            run_id=HOSTILE,
            web_ui=f"http://x/{HOSTILE}",
            settings={HOSTILE: HOSTILE},
        ),
    )

    assert page.count("<script") == 0
    assert page.count("&lt;script&gt;") >= 10
    assert "\x1b" not in page
    assert "\x00" not in page


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "//x", "file:///x"])
def test_only_web_addresses_are_linked(address: str) -> None:
    """An address of another scheme is shown as text."""
    page = Page(report(RUNS["ten"], web_ui=address))

    assert page.named("a") == []


def test_the_web_ui_is_linked() -> None:
    """The run's page in the Web UI is the one link."""
    page = Page(report(RUNS["ten"], web_ui=WEB_UI))

    assert page.named("a") == [{"href": WEB_UI, "rel": "noreferrer"}]


def test_the_curves_are_drawn_to_scale() -> None:
    """Confidence 1, 1/2, 2/3 of three answers stand at these heights, from 30 down to 316."""
    drawing = chart(report(finished(["A", "B", "A"])))

    points = drawing.findall(".//g[@class='confidence']/polyline")[0].attrib["points"]

    assert [each.split(",")[1] for each in points.split()] == ["30.0", "173.0", "125.3"]


def test_an_unreadable_answer_moves_no_curve() -> None:
    """An answer that gave no vote is a cross, and the curves have no point there."""
    drawing = chart(report(finished(["A", None, "A"])))

    marks = drawing.findall(".//g[@class='confidence']/g")
    crosses = drawing.findall(".//text[@class='middle lost']")

    assert len(marks) == 2
    assert len(crosses) == 1


def test_each_wave_is_a_band() -> None:
    """There is one band for each wave."""
    sampling = RUNS["ten"]

    bands = chart(report(sampling)).findall(".//rect[@height='286']")

    assert len(bands) == len(sampling.waves) == 2


def test_the_drawing_is_described() -> None:
    """Who can't see the chart is told its title and where it ends."""
    drawing = chart(report(RUNS["ten"]))

    assert drawing.findtext("title") == "Confidence and normalized entropy after each answer"
    assert "After 10 answers confidence is 0.50 and normalized entropy 1.00" in (
        drawing.findtext("desc") or ""
    )


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        (
            {"rule": "combined"},
            ["confidence threshold 0.8", "score, at least 0.72", "entropy threshold 0.3"],
        ),
        ({"rule": "confidence_only"}, ["confidence threshold 0.8"]),
        ({"rule": "entropy_only", "entropy_threshold": 0.25}, ["entropy threshold 0.25"]),
        ({"rule": "predictive", "epsilon": 0.02}, ["epsilon 0.02"]),
        ({"rule": "beta"}, ["beta threshold 0.95"]),
        ({"rule": "ahead_by"}, []),
        ({"rule": "fixed"}, []),
    ],
)
def test_the_rules_thresholds_are_lines(settings: dict[str, object], lines: list[str]) -> None:
    """Each rule's thresholds are named with their values."""
    request = sampled(["A"] * 5, **settings).request

    found = thresholds(request.rule, request.model_dump(), [])

    assert [each.label for each in found] == lines


def test_without_settings_the_decisions_tell_the_bounds() -> None:
    """Where nobody knows the settings, the bounds of the decisions are drawn."""
    sampling = sampled(["A", "B"] * 5)

    found = thresholds("combined", {}, sampling.decisions)

    assert [(each.label, each.value) for each in found] == [("bound 0.72", 0.72)]


def test_times_are_in_utc() -> None:
    """Times are written in UTC, and the run's length in seconds."""
    east = datetime.fromisoformat("2026-03-01T14:00:00+02:00")

    page = report_html(
        result(RUNS["ten"]),
        RunFacts(
            workflow_id="a",
            run_id="b",
            started=east,
            closed=east.astimezone(UTC) + timedelta(seconds=12.34),
        ),
    )

    assert "2026-03-01 12:00:00 UTC" in page
    assert "12.3 s" in page


def test_what_failed_is_told() -> None:
    """A sample's error, a person's name and an unknown cost are on the page."""
    page = report(finished(["A", failed(1, "ContentPolicyViolationError"), put_in(2, "A", "Ann")]))

    assert '<p class="error">ContentPolicyViolationError</p>' in page
    assert "go on by Ann" in page
    assert "<td>unknown</td>" in page


def test_a_persons_answer_stands_beside_the_votes() -> None:
    """Where a person replaced the answer, what the votes gave is flagged."""
    page = report(RUNS["ten"], final_answer="C", voted_answer="129", reviewer="Ann")

    assert '<p class="answer"><bdi>C</bdi></p>' in page
    assert "A person&#x27;s answer. The votes gave: 129" in page
