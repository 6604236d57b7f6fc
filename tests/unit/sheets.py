"""Sheets of runs of every kind for the renderers' tests, and a terminal that tests can read."""

from datetime import datetime, timedelta
from io import StringIO
from typing import Any, TypeVar

from rich.console import Console

from commands.html.rendering import RunFacts
from mull.agents.loop import Reflexion
from mull.agents.sheet import sheet as reflexion_sheet
from mull.agents.training_result import RetroformerTrainingResult
from mull.agents.training_sheet import sheet as training_sheet
from mull.batch.loop import Batch
from mull.batch.sheet import sheet as batch_sheet
from mull.critique.sheet import sheet as reflect_sheet
from mull.multipath.sheet import sheet as agent_sheet
from mull.run import RunState, Spending, usage
from mull.sampling.loop import Sampling
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.sheet import sheet as ask_sheet
from mull.sheet import (
    Chart,
    Column,
    Curve,
    Fact,
    Sheet,
    Step,
    Table,
    Text,
    Verdict,
    Waiting,
)
from mull.text import Cell
from mull.turn.sheet import sheet as turn_sheet
from tests.unit.agents.trained import trained, training
from tests.unit.agents.tried import agent, try_once
from tests.unit.critique.reflected import WEIGHED, capped, panel, reflected
from tests.unit.multipath.agent_runs import UNCLEAR, UNSUPPORTED, coded, researched, verdict
from tests.unit.runs import START, failed, finished, put_in, sampled
from tests.unit.test_batch import ended, request_of
from tests.unit.turn.turns import Driven, calls, says

StateT = TypeVar("StateT", bound=RunState[Any])

HOSTILE = (
    "</title></style><script>alert('1')</script><img src=x onerror=\"y\"> [red]x[/red] :smile:"
    " \x1b[31m\x07\x00 ```\n# heading\n[link](http://x) **bold** |cell|\u202e 日本"
)

FACTS = RunFacts(
    workflow_id="ask-what-is-3-43-7f3a91c2",
    run_id="0197c2",
    started=datetime.fromisoformat("2026-03-01T14:00:00+02:00"),
    closed=START + timedelta(seconds=12.34),
    web_ui="http://127.0.0.1:8233/namespaces/default/workflows/a/b/history",
    request=SelfConsistencyRequest(question="What is 3 * 43?", rule="ahead_by", seed=7),
)


def console(width: int = 80, *, terminal: bool = False) -> Console:
    """Return a console without colour that keeps what it is given."""
    return Console(
        file=StringIO(),
        width=width,
        force_terminal=terminal,
        color_system=None,
        no_color=True,
        legacy_windows=False,
    )


def written(on: Console) -> str:
    """Return what was printed, without the spaces at the ends of lines."""
    assert isinstance(on.file, StringIO)
    return "\n".join(line.rstrip() for line in on.file.getvalue().splitlines())


def told(sampling: Sampling, **changes: object) -> Sheet:
    """Return the sheet of a run of self-consistency, finished or not."""
    seen = sampling.result() if sampling.stopped else sampling.record(in_flight=3)
    return ask_sheet(seen.model_copy(update=changes), sampling.request)


def table(shown: Sheet, title: str) -> Table:
    return next(table for table in shown.tables if table.title == title)


def column(found: Table | None, name: str) -> list[Cell]:
    assert found is not None
    place = [column.name for column in found.columns].index(name)
    return [row[place] for row in found.rows]


def fact(shown: Sheet, label: str) -> Fact:
    return next(fact for fact in shown.facts if fact.label == label)


def everywhere(text: str) -> Sheet:
    """Return a sheet that has this text in each place for one."""
    columns = (Column(name=text), Column(name=text, kind="number"), Column(name=text, extra=True))
    table = Table(title=text, columns=columns, rows=((text, text, text),) * 50)
    curve = Curve(name=text, points=(0.5, None, 1.0), labels=(text,) * 3)
    return Sheet(
        subject=text,
        verdict=Verdict(words=text, stop_reason=text),
        answer=Text(title=text, content=text, note=text),
        facts=(Fact(label=text, value=text, note=text),) * 50,
        flags=(text,) * 20,
        warnings=(text,) * 20,
        charts=(Chart(title=text, axis=text, curves=(curve,), gap=text, places=(text,) * 3),),
        tables=(table,) * 5,
        texts=(Text(title=text, content=text, note=text, kind="code"),) * 5,
        decisions=table.model_copy(update={"newest": True}),
        steps=(Step(words=text, below=(text,)),),
        busy=text,
        waiting=Waiting(until=START),
    )


def act() -> Reflexion:
    """Try a task twice, and solve it at the second time."""
    state = agent()
    try_once(state, ["add[2]", "[answer] 2"], worth=0.5)
    try_once(state, ["[answer] 7"], worth=2.0, correct=True)
    return state


def run_in_batch() -> Batch:
    """Run some of a batch, until its budget is spent."""
    errors = (None, "Timeout: slow", "no key", "Timeout: slow", "a", "b")
    batch = ended(Batch(request_of(8, max_concurrency=8), "b"), *errors)
    batch.stop("budget", "the next run does not fit")
    return batch


def paid(state: StateT) -> StateT:
    """Count two calls of a model and one without a reply, whose spending is known."""
    state.pay("generating", SPENT, 2)
    state.pay("evaluating" if "evaluating" in state.spent else "revising", SPENT, 1)
    return state


def trained_for() -> RetroformerTrainingResult:
    """End a training whose rollouts cost something."""
    state = training("7")
    state.usage = usage({"generating": [SPENT, SPENT]}, 1, 0)
    return trained(state)


SPENT = Spending(
    calls=1, input_tokens=1_200, output_tokens=80, cached_tokens=1_000, cost_usd=0.0015
)
ANSWERS = ["129", "129", "139", None, "129", "139", *["129"] * 4]
REPLIES = [calls("read a", "mail no"), calls("calc bad"), says("42")]
TURN = Driven(REPLIES, think_level="low", reflections=["Go on."])
ASKED = told(sampled(ANSWERS), warnings=("seed was left out",))
# A run of each loop.
LOOPS = {
    "ask": ASKED,
    "reflect": reflect_sheet(reflected([0.42, capped(0.9), panel()], criteria=WEIGHED).result()),
    "research": agent_sheet(
        researched([[UNSUPPORTED, UNCLEAR], []], ["See it as a queue."]).result()
    ),
    "code": agent_sheet(
        coded([verdict(True, True, False), verdict(False, True, False)], max_revisions=2).result()
    ),
    "turn": turn_sheet(paid(TURN.run().turn).result()),
    "reflexion": reflexion_sheet(paid(act()).result()),
    "train": training_sheet(trained_for()),
    "batch": batch_sheet(run_in_batch().result()),
}
SHEETS = LOOPS | {
    "ask, many": told(sampled(["A", None] * 100, rule="fixed", max_responses=200)),
    "ask, going on": told(sampled(["A", "B"])),
    "ask, people": told(finished(["A", failed(1, "Blocked"), put_in(2, "B", "Ann")])),
    "ask, unreadable": told(sampled([None] * 10)),
    "hostile": everywhere(HOSTILE),
}
