"""The page of a run of the agent."""

from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest

from commands.report.document import RunFacts
from commands.report.multipath import report_html
from reflection.multipath import people
from reflection.multipath.loop import Run
from reflection.multipath.outcome import result
from reflection.multipath.result import Routing
from reflection.multipath.state import Critique, Passage
from reflection.multipath.suite import Suite, TestFile, TestOutcome
from tests.unit.multipath.commands.agent_runs import (
    START,
    UNCLEAR,
    UNSUPPORTED,
    broken,
    coded,
    researched,
    routed,
    verdict,
    write,
)
from tests.unit.page import HOSTILE, WEB_UI, Page


def report(run: Run, *, web_ui: str | None = None, **changes: object) -> str:
    if not run.stopped:
        run.settle("finished_by_person", "finished by Ann", START, "Ann")
    return report_html(
        result(run).model_copy(update=changes),
        RunFacts(
            workflow_id="agent-compare-kafka-7f3a91c2",
            run_id="0197c2",
            started=START,
            closed=START + timedelta(seconds=12.34),
            web_ui=web_ui,
            settings=run.request.model_dump(),
        ),
    )


def hostile(mode: str) -> Run:
    """Every text that comes from models, people, documents and callers is hostile."""
    passage = Passage(id="x", source=HOSTILE, first_line=1, last_line=2, score=1, text=HOSTILE)
    failed = TestOutcome(test=HOSTILE, passed=False, expected=HOSTILE, got=HOSTILE, message=HOSTILE)
    error = broken(failed).model_copy(update={"traceback": HOSTILE, "status": HOSTILE})
    known = {"outcomes": (failed,), "error": error, "output": HOSTILE, "backend": HOSTILE}
    critique = Critique(aspect="person", advice=HOSTILE, sentence=HOSTILE, author=HOSTILE)
    if mode == "code":
        came_of = verdict(False).model_copy(update=known)
        run = coded([came_of] * 5, prompt=HOSTILE, entry="add")
        run.suite = Suite(
            origin="user", kind="script", file=TestFile(name="t.py", text=HOSTILE), entry="add"
        )
    else:
        run = researched([[critique]] * 3, [HOSTILE], prompt=HOSTILE, passages=(passage,))
    run.routing = Routing(mode=run.state.mode, reason=HOSTILE, chosen_by="model")
    write(run, HOSTILE, author=HOSTILE, model=HOSTILE)
    run.warn(HOSTILE)
    people.replace(run, HOSTILE, HOSTILE, START)
    run.settle("replaced_by_person", HOSTILE, START, HOSTILE)
    return run


RUNS = {
    "research": researched([[UNSUPPORTED, UNCLEAR], []], ["See it as a queue."]),
    "open": researched([[UNSUPPORTED, UNCLEAR]] * 3),
    "code": coded([verdict(True, False, False), verdict(True, True, True)]),
    "code open": coded([verdict(False, False, True)], max_revisions=1),
    "unrouted": routed(None),
    "hostile research": hostile("research"),
    "hostile code": hostile("code"),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_page_is_whole(run: Run) -> None:
    """Every element is closed in order, and every column and row of a table has a header."""
    page = Page(report(run, web_ui=WEB_UI))

    assert page.open == []
    assert {each.get("scope") for each in page.named("th")} == {"row", "col"}
    assert len(page.named("caption")) == len(page.named("table"))


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_page_loads_nothing_and_runs_nothing(run: Run) -> None:
    """No element or attribute loads or runs anything, and the policy forbids it besides."""
    text = report(run, web_ui=WEB_UI)
    page = Page(text)
    names = {name for _, attributes in page.elements for name in attributes}

    assert not {tag for tag, _ in page.elements} & {"script", "img", "link", "iframe", "object"}
    assert not {each for each in names if each.startswith("on")} | names & {"src", "srcset"}
    assert "url(" not in text
    assert page.named("meta")[1]["content"] == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    )


@pytest.mark.parametrize("mode", ["research", "code"])
def test_everything_from_outside_is_escaped(mode: str) -> None:
    """Text of models, people, documents and callers is shown as it is, controls as pictures."""
    page = report(RUNS[f"hostile {mode}"], web_ui=f"javascript:{HOSTILE}")

    assert page.count("<script") == 0
    assert page.count("&lt;script&gt;") >= 20
    assert "\x1b" not in page
    assert "\x00" not in page


def test_the_walk_has_a_lane_for_each_node_and_a_mark_for_each_decision() -> None:
    """What the drawing shows is what was decided, in its order, and the end."""
    drawing = walk(report(RUNS["research"]))

    lanes = [each.text for each in drawing.findall(".//text[@class='end']")]
    points = drawing.findall(".//g[@class='walk']/polyline")[0].attrib["points"].split()
    marks = [each.text for each in drawing.findall(".//g[@class='mark']/title")]
    assert lanes == ["retrieve", "route", "generate_report", "reflect_on_report", "end"]
    assert [point.split(",")[1] for point in points] == [
        "46.0", "86.0", "126.0", "166.0", "126.0", "166.0", "206.0",
    ]  # fmt: skip
    assert marks[3] == "draft 1: 2 critiques to mend, next: generate_report"


def test_what_was_found_is_marked_apart() -> None:
    """A reflection or a test that found something has another mark and its count."""
    research, code = walk(report(RUNS["research"])), walk(report(RUNS["code"]))

    assert [each.text for each in research.findall("./g[@class='compared']/text")] == ["K 2"]
    assert [each.text for each in code.findall("./g[@class='compared']/text")] == ["1/3"]


def test_a_run_that_ended_before_any_node_has_no_drawing() -> None:
    """Nothing is drawn where nothing was walked, and the page says so."""
    run = routed("research")
    run.decisions.clear()
    run.after = None
    run.stop("budget", "there is no room for a call", START)

    page = report(run)

    assert "<svg viewBox" not in page
    assert "The run ended before any node" in page
    assert "There is no report." in page


def test_each_draft_has_its_k() -> None:
    """Critiques stand with their sentence and source at the draft that they are about."""
    page = report(RUNS["research"])
    first = page[page.index("<summary>draft 1") : page.index("<summary>draft 2")]

    assert "<bdi>Kafka deletes records after a day [1].</bdi>" in first
    assert "<td>[1]</td>" in first
    assert "<bdi>See it as a queue.</bdi>" in first


def test_each_draft_has_its_e() -> None:
    """An error stands with what was expected and the frames of the code."""
    page = report(RUNS["code open"])

    assert '<p class="error">it returned 99, not 3</p>' in page
    assert "<dt>expected</dt><dd><bdi>3</bdi></dd>" in page
    assert "File &quot;main.py&quot;, line 2, in add" in page
    assert "<dt>memory</dt><dd>20 MiB</dd>" in page


def test_each_test_has_what_came_of_it_with_each_draft() -> None:
    """One row for a test, one column for the kept draft and the last, and how it failed."""
    reports = [verdict(True, True, False), verdict(False, False, True)]
    page = report(coded(reports, max_revisions=2))

    assert (
        '<th scope="row"><bdi>add(0, 0)</bdi></th><td><bdi>0</bdi></td>'
        "<td>passed</td><td>failed</td><td><bdi>expected 0, got 99</bdi></td>"
    ) in page
    assert "3 tests, the model&#x27;s own" in page


def test_a_quarantined_test_is_named() -> None:
    """Whoever reads the tests sees which of them are not believed."""
    page = report(coded([verdict(True, False, True)] * 3))

    assert '<th scope="row"><bdi>add(0, 0) (quarantined)</bdi></th>' in page


def test_a_users_own_tests_stand_on_the_page() -> None:
    """What the code was held to can be read, and that it could be forged is said."""
    page = report(RUNS["hostile code"])

    assert "<summary>t.py</summary>" in page
    assert "run beside the code, which could forge their verdict" in page


def test_sources_have_their_passages() -> None:
    """What a citation can be held against stands on the page itself."""
    page = report(RUNS["research"])

    assert "<summary>[2] papers/pulsar.pdf, page 4:1 " in page
    assert '<div class="draft"><bdi>Pulsar has tiers.</bdi></div>' in page


def test_what_is_open_is_said_above_all() -> None:
    """Critiques that remain are flagged before anything else, and listed."""
    page = report(RUNS["open"])

    assert '<li class="flag">the result is open: 2 critiques remain</li>' in page
    assert "<caption>Critiques that remain (K)</caption>" in page
    assert "<h2>Still open</h2>" not in report(RUNS["code"])


def test_code_keeps_its_lines() -> None:
    """Code stands in its own type, and is the draft that was kept."""
    page = report(RUNS["code"])

    assert '<div class="draft best code"><bdi>def add(a, b):\n    return a + b  # 2' in page
    assert "draft 2, refined, kept" in page


def test_symbols_stand_with_their_words() -> None:
    """Who does not know the paper's letters reads what they count."""
    page = report(RUNS["research"])

    assert '<th scope="col">revisions (R_n)</th><th scope="col">critiques (K)</th>' in page


def test_the_settings_are_listed() -> None:
    """What the run was asked for, but for the texts that stand elsewhere."""
    page = report(RUNS["code"])

    assert "<dt>temperature</dt><dd>0.7</dd>" in page
    assert "<dt>creative</dt><dd>yes</dd>" in page
    assert "<dt>limits</dt><dd>wall_seconds 10, cpu_seconds 10, memory_mb 512, " in page
    assert "<dt>packages</dt>" not in page
    assert "<dt>prompt</dt>" not in page


def walk(page: str) -> ET.Element:
    start = page.index("<svg viewBox", page.index('class="chart"'))
    return ET.fromstring(page[start : page.index("</svg>", start) + 6])  # noqa: S314 - our own
