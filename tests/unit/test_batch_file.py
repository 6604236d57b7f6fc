"""A batch's file before anything starts: which lines are taken, and what is said of the others."""

import asyncio
import csv
import io
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
import typer
from temporalio.client import WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from commands import batch, lines, pages, rows
from commands.command import Exit
from commands.measuring import findings
from commands.options import Wanted
from mull.batch.request import BATCH_CONTINUES, BatchPage, BatchRequest, Variant
from mull.batch.result import BatchResult, BatchRun

Capture: TypeAlias = pytest.CaptureFixture[str]
FORMULAS = (
    *("=1+1", "+cmd", "-3+1", "@x", "-", "\t=1", "\r=1", "\n=1"),
    *("- item", "-3.5\n=1", "+.", "\uff1d1", "-3 pounds"),
)
PLAIN = ("-3.5", "+4", "-1,000", "-1e-5", "-.5", "5%", "a=1", "", "'=1")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *((text, f"'{text}") for text in FORMULAS),
        *((text, text) for text in PLAIN),
        ("\x00=1", "'=1"),
        ("\x1b[2J\x07-3.5", "[2J-3.5"),
        ("a\r\nb\tc\x85\x7f", "a\r\nb\tc"),
    ],
)
def test_a_cell_runs_as_no_formula(text: str, written: str) -> None:
    """What begins like one gets an apostrophe, a number stays one, and control characters go."""
    assert rows.cell(text) == written


async def test_every_cell_of_a_table_is_written_so(capsys: Capture) -> None:
    """Those of models and those of people alike; numbers stay as they are."""
    variants = (Variant(name="a", workflow="SelfConsistencyWorkflow"),)
    request = BatchRequest(variants=variants, pages=1)
    hostile = {"answer": "=A", "gold": "@B", "id": "+C", "error": "\x1b-D", "doubt": "=E"}
    row = {**dict.fromkeys(rows.columns_of(request)), **hostile, "status": "completed"}

    async def made() -> Any:
        yield row | {"line": 1, "score": -3.5}

    chosen = lines.Chosen(None, False, False, False, Wanted(), "csv", {})
    await rows._print("batch", request, made(), None, chosen)

    [read] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert {name: read[name] for name in hostile} == {
        "answer": "'=A", "gold": "'@B", "id": "'+C", "error": "'-D", "doubt": "'=E",
    }  # fmt: skip
    assert read["score"] == "-3.5"


def items(path: Path, text: str, name: str = "q.csv", command: str = "ask") -> list[Any]:
    """Return the items that the lines of a file make."""
    file = path / name
    file.write_bytes(text.encode())
    given, _ = batch._given(str(file), command, [], {})
    return [item for page in given.pages for item in page]


def refused(path: Path, text: str, name: str = "q.csv", command: str = "ask") -> None:
    with pytest.raises(typer.Exit) as caught:
        items(path, text, name, command)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.jsonl", '\ufeff"a"\r\n\r\n{"query": "b", "id": "7"}\r\n'),
        ("q.csv", "\ufeffid,question\r\n,a\r\n\r\n,\r\n7,b\r\n"),
        ("q.csv", "id;question\n;a\n7;b\n"),
        ("Q.CSV", ",question,id\n0,a,\n1,b,7\n"),
        ("q.csv", 'question,question_id,id\n"a",x,\n"b",y,7\n'),
    ],
)
def test_what_programs_write(tmp_path: Path, name: str, text: str) -> None:
    """A byte order mark, line ends of Windows, empty lines, semicolons, columns for themselves."""
    found = items(tmp_path, text, name)

    assert found == [{"question": "a"}, {"question": "b", "id": "7"}]


@pytest.mark.parametrize(
    ("options", "bounds", "said"),
    [
        ([], {"budget_usd": 5.0}, True),
        ([], {"budget_tokens": 5}, False),
        (["--model", "openai/gpt-4o-mini"], {"budget_usd": 5.0}, False),
    ],
)
def test_a_budget_of_dollars_needs_a_price(
    tmp_path: Path, capsys: Capture, options: list[str], bounds: dict[str, Any], said: bool
) -> None:
    """Where no price is known the batch would end after one line: that is said before."""
    file = tmp_path / "q.jsonl"
    file.write_text('"a"')
    batch._given(str(file), "ask", options, bounds)

    assert ("--budget-tokens bounds it" in capsys.readouterr().err) == said


def test_columns_that_are_no_field_are_named(tmp_path: Path, capsys: Capture) -> None:
    """They are said once, and what has no name is said too."""
    items(tmp_path, "question,category,\na,x,0\nb,y,1\n")

    assert capsys.readouterr().err == "Columns that are not used: 'category', ''.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Question\na\n", "column 'Question' is no field; did you mean question? Rename it"),
        ("question,temprature\na,0\n",
         "column 'temprature' is no field; did you mean temperature?"),
        ("question,answer\na,7\n", "column 'answer' is no field; did you mean answers?"),
        ("question,id,question\na,7,b\n", "two columns have one name"),
        ("question\na,b\n", "line 2: more cells than the header: no such field"),
        ("id|question\n1|a\n", "column 'id|question' is no field"),
        ("id,topic,question\n1,x,\n", "line 2: one of question, query, prompt, message is exp"),
        ('question\n"a\n', "line 2: not CSV: unexpected end of data"),
        ("question,seed\na,x\n", "line 2: seed: "),
        ("question\n", "is empty"),
        ("", "is empty"),
    ],
)  # fmt: skip
def test_tables_that_are_refused(tmp_path: Path, capsys: Capture, text: str, said: str) -> None:
    """A column that may be a misspelt field is not left out in silence."""
    refused(tmp_path, text)

    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "more"), [(1, []), (10, []), (11, ["And 1 more."]), (1_210, ["And 1,200 more."])]
)
def test_the_first_wrong_lines_are_named(
    tmp_path: Path, capsys: Capture, wrong: int, more: list[str]
) -> None:
    """Ten of them, each with its file and its reason, and then how many more there are."""
    refused(tmp_path, '"fine"\n{"question": 7}\n' * wrong, "q.jsonl")

    said = capsys.readouterr().err.removeprefix("Error: ").splitlines()
    file = f"{tmp_path}/q.jsonl"
    places = [f"{file}, line {2 * number}: question: " for number in range(1, wrong + 1)]
    assert said[10:] == more
    assert all(map(str.startswith, said, places[:10]))
    assert len(said) == min(wrong, 10) + len(more)


class Ending:
    """A batch that answers each page as it is told to: `None` takes it."""

    id = "letters"

    def __init__(self, answers: list[Exception | None], status: WorkflowExecutionStatus) -> None:
        self.answers, self.status = answers, status

    async def execute_update(self, _: str, page: BatchPage) -> int:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        return page.number + 1

    async def describe(self) -> "Ending":
        return self

    async def query(self, _: str) -> dict[str, Any]:
        return {"stop_reason": "budget"}


def update(kind: str) -> Exception:
    return WorkflowUpdateFailedError(ApplicationError("the batch goes on", type=kind))


CLOSES = RPCError("the history ends", RPCStatusCode.FAILED_PRECONDITION, b"")
GONE = RPCError("no such run", RPCStatusCode.NOT_FOUND, b"")
RUNS, ENDED = WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED


@pytest.mark.parametrize(
    ("answers", "status", "taken"),
    [
        ([None], RUNS, 1),
        ([update(BATCH_CONTINUES), update(BATCH_CONTINUES), None], RUNS, 1),
        ([GONE, CLOSES, None], RUNS, 1),
        ([GONE], ENDED, None),
        ([update("Refused")], RUNS, None),
    ],
)
def test_a_page_is_sent_until_it_is_taken(
    monkeypatch: pytest.MonkeyPatch, answers: Any, status: Any, taken: int | None
) -> None:
    """A history that ends refuses it, and the next one takes it; a batch that ended never will."""
    monkeypatch.setattr(pages, "LOOK_SECONDS", 0)
    handle: Any = Ending(answers, status)

    sent = asyncio.run(pages.send_page(handle, BatchPage(number=0, items=({"question": "a"},))))

    assert (sent, handle.answers) == (taken, [])


def test_doubtful_answers_are_counted_beside_failures(capsys: Capture) -> None:
    """Who sees only what failed would build on the rest."""
    became = {"completed": 8, "failed": 1, "cancelled": 0, "not_started": 0}
    why: Any = {"stop_reason": "completed", "stop_explanation": "all 9 runs have ended"}
    ended = BatchResult(runs=(), **why, total=9, **became, tokens=None, cost_usd=None)
    counts = Counter[str](became)
    chosen = lines.Chosen("b", False, False, True, Wanted(), "jsonl", {})

    code = rows._concluded("b", ended, counts, 3, chosen)

    said = capsys.readouterr().err
    assert "3 answers not to be built on" in said
    assert "mull batch --retry b" in said
    assert code == Exit.FAILED


class Away:
    """A server that answers each request with this error."""

    def __init__(self, status: RPCStatusCode) -> None:
        self.status = status

    def get_workflow_handle(self, *_: Any, **__: Any) -> "Away":
        return self

    async def result(self) -> Any:
        raise RPCError("no answer", self.status, b"")

    describe = result


MADE = BatchRun(item=0, variant="ask", repeat=0, workflow_id="a", status="completed")


def test_a_result_is_gone_only_where_the_server_says_so() -> None:
    """What a server that is away does not tell is an error, and no result that is not kept."""
    request = BatchRequest(
        items=({"question": "a"},), variants=(Variant(name="ask", workflow="ToolTurnWorkflow"),)
    )
    order: Any = SimpleNamespace(pages=[[{"question": "a"}]], request=request)
    whole: Any = SimpleNamespace(runs=())

    def asked(status: RPCStatusCode) -> list[Any]:
        client: Any = Away(status)
        row = rows._row(client, pages.loop_of_runs(request), None, True, MADE)
        return [row, findings._read(client, "letters", whole, order)]

    row, read = map(asyncio.run, asked(RPCStatusCode.NOT_FOUND))
    assert (row["error"], read) == (pages.NOT_KEPT, [])
    for one in asked(RPCStatusCode.UNAVAILABLE):
        with pytest.raises(RPCError):
            asyncio.run(one)
