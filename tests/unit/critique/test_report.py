from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest

from commands.report.critique import report_html
from commands.report.document import RunFacts
from reflection.critique import loop
from reflection.critique.evaluation import Cap, Evaluation, Feedback, Judgement
from reflection.critique.loop import Reflection, result
from tests.unit.critique.reflected import START, capped, judged, reflected, write
from tests.unit.page import HOSTILE, WEB_UI, Page


def report(state: Reflection, *, web_ui: str | None = None, **changes: object) -> str:
    if not state.stopped:
        state.stop("finished_by_person", "finished by Ann", START, "Ann")
    return report_html(
        result(state).model_copy(update=changes),
        RunFacts(
            workflow_id="reflect-compare-kafka-7f3a91c2",
            run_id="0197c2",
            started=START,
            closed=START + timedelta(seconds=12.34),
            web_ui=web_ui,
            settings=state.request.model_dump(),
        ),
    )


def hostile() -> Reflection:
    """Every text that comes from models, people and callers is hostile."""
    judgement = Judgement(
        judge=HOSTILE, model=HOSTILE, error=HOSTILE, score=0.4, scores={HOSTILE: 0.4}
    )
    evaluation = Evaluation(
        score=0.1,
        judged=0.4,
        criteria={HOSTILE: 0.4},
        feedback=(Feedback(advice=HOSTILE, criterion=HOSTILE, place=HOSTILE, judge=HOSTILE),),
        guardrails=(Cap(guardrail=HOSTILE, cap=0.1, above=0.1, reason=HOSTILE),),
        judgements=(judgement,),
        error=HOSTILE,
    )
    state = reflected(
        [evaluation],
        query=HOSTILE,
        criteria=[{"name": "tone", "meaning": HOSTILE}],
        max_revisions=1,
    )
    write(state, HOSTILE, author=HOSTILE, model=HOSTILE, finish_reason=HOSTILE)
    loop.replace(state, HOSTILE, HOSTILE, START)
    state.warn(HOSTILE)
    state.settle("replaced_by_person", HOSTILE, START, HOSTILE)
    return state


RUNS = {
    "revised": reflected([0.42, capped(0.9), 0.6, 0.8]),
    "one": reflected([0.8]),
    "failed": reflected([None]),
    "worse": reflected([0.6, 0.3], max_revisions=1),
    "nothing": reflected([]),
    "hostile": hostile(),
}


@pytest.mark.parametrize("state", RUNS.values(), ids=RUNS)
def test_the_page_is_whole(state: Reflection) -> None:
    """Every element is closed in order, and every column and row of a table has a header."""
    page = Page(report(state, web_ui=WEB_UI))

    assert page.open == []
    assert {each.get("scope") for each in page.named("th")} == {"row", "col"}
    assert len(page.named("caption")) == len(page.named("table"))


@pytest.mark.parametrize("state", RUNS.values(), ids=RUNS)
def test_the_page_loads_nothing_and_runs_nothing(state: Reflection) -> None:
    """No element or attribute loads or runs anything, and the policy forbids it besides."""
    text = report(state, web_ui=WEB_UI)
    page = Page(text)
    names = {name for _, attributes in page.elements for name in attributes}

    assert not {tag for tag, _ in page.elements} & {"script", "img", "link", "iframe", "object"}
    assert not {each for each in names if each.startswith("on")} | names & {"src", "srcset"}
    assert "url(" not in text
    assert page.named("meta")[1]["content"] == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    )


def test_everything_from_outside_is_escaped() -> None:
    """Text of models, people and callers is shown as it is, its control characters as pictures."""
    page = report(RUNS["hostile"], web_ui=f"javascript:{HOSTILE}", judges=(HOSTILE,))

    assert page.count("<script") == 0
    assert page.count("&lt;script&gt;") >= 20
    assert "\x1b" not in page
    assert "\x00" not in page


def test_the_curve_is_drawn_to_scale() -> None:
    """Scores 0, 1/2 and 1 stand at the bottom, in the middle and at the top of 30 to 316."""
    drawing = chart(report(reflected([0.0, 0.5, 1.0])))

    points = drawing.findall(".//g[@class='confidence']/polyline")[0].attrib["points"]
    bound = drawing.findall(".//g[@class='confidence']/line")[0].attrib

    assert [each.split(",")[1] for each in points.split()] == ["316.0", "173.0", "30.0"]
    assert bound["y1"] == "115.8"


def test_what_the_judges_said_is_its_own_curve_where_a_guardrail_held() -> None:
    """Without a guardrail or a person both are the same, and one is drawn."""
    one = chart(report(RUNS["one"]))
    both = chart(report(RUNS["revised"]))

    assert len(one.findall(".//polyline")) == 1
    assert len(both.findall(".//polyline")) == 2


def test_nothing_is_drawn_where_nothing_has_a_score() -> None:
    """A run whose evaluation failed has no chart, and says so."""
    page = report(RUNS["failed"])

    assert "<svg" not in page
    assert "No draft has a score" in page
    assert "The draft has no score." in page


def test_the_best_draft_is_marked() -> None:
    """The first of two stays the best one where the second is worse."""
    page = report(RUNS["worse"])

    assert "1 <strong>best</strong>" in page
    assert "draft 1, generated, best" in page
    assert '<div class="draft best"><bdi>Kafka keeps a log. Revision 0.</bdi></div>' in page


def test_each_draft_has_all_that_was_said_of_it() -> None:
    """Feedback with its place, guardrails with their reason, judgements with their spread."""
    panel = (
        Judgement(judge="a", score=0.9, scores={"tone": 0.9}),
        Judgement(judge="b", error="no reply in time"),
    )
    evaluation = capped(0.9).model_copy(update={"judgements": panel, "spread": 0.25})

    page = report(reflected([evaluation]))

    assert "<td><bdi>Name the license of each.</bdi></td>" in page
    assert "<bdi>second paragraph</bdi>" in page
    assert "<bdi>240 characters are few for this query</bdi>" in page
    assert "<caption>The panel, spread 0.25</caption>" in page
    assert "<bdi>no reply in time</bdi>" in page
    assert "judged 0.90, capped by too_short" in page


def test_each_part_of_what_it_cost_is_a_row() -> None:
    """Generating, evaluating and revising stand apart, and all of it below."""
    page = report(RUNS["revised"])

    for name, calls in (("generating", 1), ("evaluating", 4), ("revising", 3), ("total", 8)):
        assert f'<th scope="row">{name}</th><td>{calls}</td>' in page


def test_the_settings_are_listed() -> None:
    """What the run was asked for, but for the texts that stand elsewhere."""
    page = report(reflected([judged(0.8)], sources=["A text to cite."], min_gain=0.05))

    assert "<dt>min_gain</dt><dd>0.05</dd>" in page
    assert "<dt>sources</dt>" not in page
    assert "<dt>query</dt>" not in page


def test_a_person_who_decided_is_named() -> None:
    """The decisions say who ended the run, and when."""
    state = reflected([0.4])
    state.stop("finished_by_person", "finished by Ann", START, "Ann")

    page = report(state)

    assert "<strong>stop: finished_by_person by Ann</strong>" in page
    assert "2026-03-01 12:00:00 UTC" in page


def chart(page: str) -> ET.Element:
    start = page.index("<svg viewBox", page.index('class="chart"'))
    return ET.fromstring(page[start : page.index("</svg>", start) + 6])  # noqa: S314 - our own
