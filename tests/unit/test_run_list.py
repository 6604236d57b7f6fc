"""The list of runs, as the terminal shows it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from commands.found import status_words
from commands.run_list import MOST_READ, SHOWN, _row
from commands.runs import runs_table
from mull.client import new_id
from tests.unit.sheets import console, written

AGENT = "agent-write-a-function-that-add-7f3a91c2"
ASK = "ask-is-91-prime-7f3a91c2"


def row(run: str, workflow: str, **known: Any) -> dict[str, Any]:
    empty = dict.fromkeys(SHOWN)
    started = "2026-03-01T13:05:09+01:00"
    about = {"id": run, "run_id": run, "workflow": workflow, "status": "completed"}
    return {**empty, **about, "started": started, **known}


ROWS = [
    row(AGENT, "MultiPathWorkflow", MullRevisions=2, MullStopReason="passed", MullCostUsd=0.25),
    row(ASK, "SelfConsistencyWorkflow", MullConfidence=0.8, MullStopReason="confidence"),
    row("reflect-7f3a91c2", "ReflectOnResultWorkflow", MullScore=0.75, status="running"),
    row("batch-7f3a91c2", "BatchWorkflow", status="running"),
]


def shown(width: int, rows: list[dict[str, Any]] = ROWS) -> list[str]:
    on = console(width)
    on.print(runs_table(rows, {"batch-7f3a91c2": "2/3 done"}, width), crop=False)
    return written(on).splitlines()


def test_each_kind_has_what_fits_it() -> None:
    """Drafts of an agent, the confidence of answers, the score of a draft, how far a batch is."""
    lines = [" ".join(line.split()) for line in shown(120)]

    assert [lines[0], *lines[2:]] == [
        "id ended by start (UTC) result cost",
        f"{AGENT} passed 03-01 12:05 2 drafts $0.25",
        f"{ASK} confidence 03-01 12:05 agreement 0.80 -",
        "reflect-7f3a91c2 running 03-01 12:05 score 0.75 -",
        "batch-7f3a91c2 2/3 done 03-01 12:05 - -",
    ]


@pytest.mark.parametrize("workflow", ["ReflexionWorkflow", "RetroformerWorkflow"])
def test_an_agent_that_learns_has_its_episodes(workflow: str) -> None:
    """With a reward model as without one."""
    lines = shown(120, [row("run-7f3a91c2", workflow, MullRevisions=3, MullStopReason="solved")])

    assert lines[2].endswith(" 3 episodes -")


@pytest.mark.parametrize("width", [80, 52])
def test_an_id_is_never_broken(width: int) -> None:
    """Columns after it are left out first, so that it can be copied, and are named."""
    lines = shown(width)

    assert lines[2 + len(ROWS)].startswith(f"left out at {width} columns: ")
    assert lines[2].startswith(f"{AGENT} passed")
    assert all(len(line) <= width for line in lines)
    # What can't fit is not cut either.
    assert "x" * 90 in shown(width, [row("x" * 90, "MultiPathWorkflow")])[2]


def test_80_columns_have_room_for_the_start_and_the_result() -> None:
    """Also where command, question, end and result are the longest that there are."""
    run = new_id("reflect", "Document every function of this module")
    ended = row(run, "SelfConsistencyWorkflow", MullConfidence=1, MullStopReason="x" * 18)

    lines = shown(80, [ended])

    assert "03-01 12:05 agreement 1.00" in lines[2]
    assert lines[3] == "left out at 80 columns: cost (widen the terminal, or use --json)"


def test_a_question_stands_below_its_run() -> None:
    """On one line that fits; a session has the ids of its turns there."""
    asked = row(ASK, "SelfConsistencyWorkflow", asked="Is [red]91[/red] \x1b[1m prime? " * 9)
    turns = ["bugs-turn-12", "bugs-turn-11", "bugs-turn-10"]
    session = row("bugs", "SessionWorkflow", status="running", asked=None, turns=turns)

    lines = shown(60, [asked, session])

    assert lines[3].startswith("  Is [red]91[/red] ␛[1m prime? Is")
    assert (len(lines[3]), lines[3][-1]) == (60, "…")
    assert lines[5] == "  turns: bugs-turn-10 to bugs-turn-12"
    assert shown(60, [session | {"turns": turns[:1]}])[-1] == f"  turns: {turns[0]}"
    many = [f"bugs-turn-{number}" for number in range(50, 50 - MOST_READ, -1)]
    assert shown(60, [session | {"turns": many}])[-1].startswith("  newest turns: bugs-turn-")


def test_a_run_that_is_not_to_be_built_on_is_marked() -> None:
    """Below its question, with the reason, on one line that fits."""
    doubted = row(ASK, "SelfConsistencyWorkflow", asked="Is 91 prime?", doubt="the votes " * 9)

    lines = shown(60, [doubted, row("b", "SelfConsistencyWorkflow", doubt=None)])

    assert lines[4].startswith("  not to be built on: the votes the votes")
    assert (len(lines[4]), lines[4][-1], lines[5][:2]) == (60, "…", "b ")
    assert not any("built on" in line for line in shown(20))


async def test_a_text_that_can_t_be_read_leaves_its_row() -> None:
    """Whoever lists runs may lack the codec that another client had."""

    async def memo_value(*_: object, **__: object) -> str:
        raise KeyError("Unknown payload encoding my/codec")

    run: Any = SimpleNamespace(
        id=ASK, run_id="1", workflow_type="SelfConsistencyWorkflow", memo_value=memo_value,
        status=WorkflowExecutionStatus.COMPLETED, start_time=datetime(2026, 3, 1, tzinfo=UTC),
        typed_search_attributes=(),
    )  # fmt: skip
    client: Any = SimpleNamespace(data_converter=SimpleNamespace(payload_codec=None))

    assert (await _row(client, run, newest=True))["asked"] is None


def test_cancelled_is_spelled_as_everywhere_else() -> None:
    """Temporal's own spelling has one letter less."""
    assert status_words(WorkflowExecutionStatus.CANCELED) == "cancelled"
    assert status_words(WorkflowExecutionStatus.TIMED_OUT) == "timed_out"
    assert status_words(None) is None


async def test_the_id_of_a_session_is_one_text_in_the_filter_of_its_turns() -> None:
    """Any client may choose one, and another filter by it."""
    asked = list[str]()

    async def turns(where: str, limit: int) -> AsyncIterator[Any]:
        asked.append(where)
        for _ in range(0):
            yield limit

    run: Any = SimpleNamespace(
        id="x' OR WorkflowId != '", run_id="1", workflow_type="SessionWorkflow",
        status=WorkflowExecutionStatus.RUNNING, start_time=datetime(2026, 3, 1, tzinfo=UTC),
        typed_search_attributes=(),
    )  # fmt: skip
    encrypts = SimpleNamespace(payload_codec=True)
    client: Any = SimpleNamespace(data_converter=encrypts, list_workflows=turns)

    assert (await _row(client, run, newest=True))["turns"] == []
    assert asked == [
        "WorkflowType = 'ToolTurnWorkflow' AND ParentWorkflowId = \"x' OR WorkflowId != '\""
    ]
