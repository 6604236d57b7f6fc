"""Runs side by side, the table of a batch, and findings that are opened from their JSON."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from commands.web import compare
from commands.web.live import View
from commands.web.rendering import Page
from commands.web.run import draw_run
from mull.batch.request import BatchRequest
from mull.errors import RunFailedError
from mull.handle import Run
from mull.loops import BATCH, CRITIQUE, SAMPLING, Loop
from tests.unit.critique.reflected import reflected
from tests.unit.measuring.test_findings import calibrated
from tests.unit.runs import START, sampled
from tests.unit.web.pages import pages, said

RUN = "0197c2aa-0000-4000-8000-00000000000{}"
COMPLETED, FAILED = WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.FAILED
RUNNING = WorkflowExecutionStatus.RUNNING
CLIENT: Any = SimpleNamespace(temporal=None)
HOSTILE = "<script>alert(1)</script>"


class Known(Run[Any]):
    """A run whose record is this state's, or which failed."""

    def __init__(self, loop: Loop, state: Any, *, fails: bool = False, asked: Any = None) -> None:
        self.loop, self.state, self.fails = loop, state, fails
        self.description: Any = None
        self.handle: Any = SimpleNamespace(id=f"words-{HOSTILE}")
        self.asked = asked or state.request

    async def look(self) -> Any:
        if self.fails:
            raise RunFailedError("its-id", "AuthenticationError", "no key")
        return self.state.result()

    async def request(self) -> Any:
        return self.asked


def found(monkeypatch: pytest.MonkeyPatch, *runs: Known) -> None:
    async def by(_: object, run_id: str) -> Known:
        return runs[int(run_id[-1])]

    monkeypatch.setattr(compare, "find", by)


def test_chosen_runs_stand_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their answers, what is known of each, and the settings in which they differ."""
    one = Known(SAMPLING, sampled(["A"] * 5, model="a/b"))
    other = Known(CRITIQUE, reflected([0.9], query=HOSTILE, model="c/d"))
    failed = Known(SAMPLING, sampled(["A"] * 5), fails=True)
    found(monkeypatch, one, other, failed)
    query = "&".join(f"run={RUN.format(at)}" for at in range(3))

    page = pages(CLIENT).get(f"/compare?{query}").text
    words = said(page)

    assert page.count('<th scope="col">') == 3
    # On a phone each value is named by its run.
    for number, run in enumerate(("What is 3 * 43?", "&lt;script&gt;", "words-"), 1):
        assert page.count(f'data-name="{number}. {run}') > 3
    assert "<script>alert" not in page
    assert "model a/b c/d openai/gpt-test" in words
    assert "Kafka keeps a log. Revision 0." in words
    assert "the run its-id failed (AuthenticationError: no key)" in words
    assert "temperature" not in words


def test_only_few_runs_are_compared_at_once() -> None:
    query = "&".join(f"run={at}" for at in range(7))

    answer = pages(CLIENT).get(f"/compare?{query}")

    assert answer.status_code == 400
    assert "Choose at most 6." in said(answer.text)


ITEMS = [
    {"id": "q1", "question": f"What is 6 times 7? {HOSTILE}", "gold": "42"},
    {"id": "q2", "question": "Who?"},
    {"id": "q3", "question": "Why?"},
]
VARIANTS = [
    {"name": "plain", "workflow": "SelfConsistencyWorkflow", "repeats": 2},
    {"name": "thrifty", "workflow": "SelfConsistencyWorkflow", "request": {"preset": "thrifty"}},
]


def listed(
    name: str, number: int, status: WorkflowExecutionStatus = COMPLETED, **known: Any
) -> SimpleNamespace:
    """A run as the server lists it: search attributes, and a memo with a text."""
    memo = {"answer": known.pop("answer", None), "doubt": known.pop("doubt", None)}

    async def decoded() -> Mapping[str, Any]:
        return memo

    return SimpleNamespace(
        id=f"b/{name}",
        run_id=RUN.format(number),
        workflow_type="SelfConsistencyWorkflow",
        status=status,
        start_time=START + timedelta(seconds=number),
        typed_search_attributes=[
            SimpleNamespace(key=SimpleNamespace(name=key), value=value)
            for key, value in known.items()
        ],
        memo=decoded,
    )


class Lists:
    """A server that has these runs of a batch."""

    def __init__(self, *runs: SimpleNamespace) -> None:
        self.runs, self.asked = runs, ""

    async def list_workflows(self, query: str) -> AsyncIterator[SimpleNamespace]:
        self.asked = query
        for run in self.runs:
            yield run


MADE = (
    listed("0-plain-0", 1, MullConfidence=0.9, MullCostUsd=0.01, answer=f"42 {HOSTILE}"),
    listed("0-plain-1", 2, MullConfidence=0.4, MullCostUsd=0.03, answer="41", doubt="a tie"),
    listed("1-plain-0", 3, FAILED, MullConfidence=0.3, MullCostUsd=0.05),
    listed("1-thrifty-0", 4, RUNNING, MullNeedsReview=True),
    listed("0-thrifty-0", 5, MullConfidence=0.2, answer="an earlier one"),
    listed("0-thrifty-0", 6, MullConfidence=0.8, answer="40"),
)


def opened(monkeypatch: pytest.MonkeyPatch, query: str = "") -> tuple[str, Lists]:
    asked = BatchRequest.model_validate({"items": ITEMS, "variants": VARIANTS})
    run = Known(BATCH, SimpleNamespace(request=asked))
    run.handle = SimpleNamespace(id="b")
    found(monkeypatch, run)
    server: Any = Lists(*MADE)
    answer = pages(SimpleNamespace(temporal=server)).get(f"/batch/{RUN.format(0)}{query}")
    assert answer.status_code == 200, answer.text
    return answer.text, server


def test_the_page_of_a_batch_leads_to_its_table() -> None:
    asked = BatchRequest.model_validate({"items": ITEMS, "variants": VARIANTS})
    run, link = Known(BATCH, SimpleNamespace(request=asked)), f'href="/batch/{RUN.format(0)}"'
    run.description = SimpleNamespace(run_id=RUN.format(0), start_time=START, close_time=None)
    other = Known(SAMPLING, sampled(["A"] * 5))
    other.description = run.description

    assert link in draw_run(Page(CLIENT), run, asked, View())
    assert link not in draw_run(Page(CLIENT), other, other.asked, View())


def lines(page: str) -> list[str]:
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [said(row) for row in body.split("</tr>")[:-1]]


def test_a_batch_is_a_table_of_inputs_by_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell leads to its newest run, by a list of them alone: no run is asked by itself."""
    page, server = opened(monkeypatch)

    assert server.asked == "ParentWorkflowId = \"b\" AND ExecutionStatus != 'ContinuedAsNew'"
    assert [said(head) for head in page.partition("</thead>")[0].split("<th ")[1:]] == [
        'scope="col" class="number">Line',
        'scope="col">Input',
        'scope="col">plain, 1',
        'scope="col">plain, 2',
        'scope="col">thrifty',
    ]
    first, second, third = lines(page)
    assert f"What is 6 times 7? {HOSTILE} q1 gold: 42" in first
    assert f"42 {HOSTILE} agreement 0.90" in first
    assert "41 agreement 0.40" in first
    assert "not to be built on: a tie" in first
    assert ("40 agreement 0.80" in first, "an earlier one" in page) == (True, False)
    assert "failed" in second
    assert "needs review" in second
    assert third.count("not started") == 3
    assert f'href="/runs/{RUN.format(6)}"' in page
    assert "<script>alert" not in page


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [1, 2, 3]),
        ("?sort=measure", [2, 1, 3]),
        ("?sort=cost", [2, 1, 3]),
        ("?outcome=failed", [2]),
        ("?outcome=doubtful", [1]),
        ("?outcome=waiting", [2]),
        ("?outcome=missing&sort=nothing", [2, 3]),
        ("?outcome=nothing", []),
    ],
)
def test_lines_are_filtered_and_sorted_by_the_address(
    monkeypatch: pytest.MonkeyPatch, query: str, numbers: list[int]
) -> None:
    page, _ = opened(monkeypatch, query)

    assert [int(line.partition(" ")[0]) for line in lines(page)] == numbers


@pytest.mark.parametrize(
    ("part", "read"), [("1", 1), ("2", 0), ("-1", 0), ("²", 0), ("9" * 5_000, 0)]
)
def test_of_the_pages_that_there_are_one_is_read(
    monkeypatch: pytest.MonkeyPatch, part: str, read: int
) -> None:
    """The first, where the address asks for one that there is not."""
    asked = BatchRequest.model_validate({"pages": 2, "variants": VARIANTS})
    found(monkeypatch, Known(BATCH, SimpleNamespace(request=asked)))
    names = list[str]()

    async def by(_: object, name: str) -> None:
        names.append(name)

    monkeypatch.setattr(compare, "batch_by", by)
    page = pages(CLIENT).get(f"/batch/{RUN.format(0)}?part={part}")

    assert (page.status_code, f"Page {read + 1} of 2." in page.text) == (200, True)
    assert [name.rpartition("/")[2] for name in names] == [f"page-{read}"]


def test_the_least_sure_line_comes_first_and_the_dearest() -> None:
    cells = [
        [compare.RunCell("good", measure=0.9, cost=0.5), compare.RunCell("good", measure=0.5)],
        [compare.RunCell("good", measure=0.4, cost=0.1)],
        [compare.MISSING],
    ]
    made = [compare.BatchLine(at, "", "", "", row) for at, row in enumerate(cells, 1)]

    def order(sort: str) -> list[int]:
        return [one.number for one in sorted(made, key=lambda one: one.before(sort))]

    assert (order("measure"), order("cost")) == ([2, 1, 3], [1, 2, 3])


def test_what_is_no_batch_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, Known(SAMPLING, sampled(["A"] * 5)))

    answer = pages(CLIENT).get(f"/batch/{RUN.format(0)}")

    assert answer.status_code == 400
    assert "This run is not a batch." in said(answer.text)


def test_findings_are_opened_from_their_json() -> None:
    """With the curves and the words of the command's own page."""
    measured = calibrated([0.9, 0.1, 0.8, 0.3], HOSTILE)
    file = json.dumps(measured.document).encode()

    answer = pages(CLIENT).post("/open", files={"file": ("found.json", file)})

    assert answer.status_code == 200
    assert "How good is the judge?" in said(answer.text)
    assert answer.text.count("<polyline") > 2
    assert "<script>alert" not in answer.text
    assert all(flag in said(answer.text) for flag in measured.sheet.flags)


ENDLESS = re.sub(
    r'"cost_usd": [^,}]+', '"cost_usd": 1e999', json.dumps(calibrated([0.9]).document)
).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "this file can't be opened: not valid JSON."),
        (b"\xff", "this file can't be opened: not valid JSON."),
        (b"[1, 2]", "this file can't be opened."),
        (b"3", "this file can't be opened."),
        (b'{"a": 1}', "this file can't be opened."),
        (b'{"rules": 3}', "can't be opened: questions: missing; rules: should be a valid"),
        (b'{"comparison": {}}', "this file can't be opened: id: missing"),
        (json.dumps(calibrated([0.9]).document | {"criteria": "x"}).encode(), "unknown preset"),
        (b"[" * 200_000, "at most 100,000 are read"),
        (ENDLESS, "this file can't be opened."),
    ],
)
def test_another_file_is_refused(data: bytes, words: str) -> None:
    """It says what is expected, and the form is there for another one."""
    answer = pages(CLIENT).post("/open", files={"file": ("found.json", data)})

    assert answer.status_code == 422
    assert words in said(answer.text)
    assert "Expected is what `calibrate`, `compare` or `replay` prints with --json." in answer.text
    assert 'type="file"' in answer.text


def test_without_a_file_nothing_is_opened() -> None:
    assert pages(CLIENT).post("/open", data={"file": "text"}).status_code == 422
