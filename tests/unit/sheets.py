"""Sheets of runs of every kind for the renderers' tests, and a terminal that tests can read."""

from io import StringIO

from rich.console import Console

from mull.critique.sheet import sheet as reflect_sheet
from mull.multipath.sheet import sheet as agent_sheet
from mull.sampling.loop import Sampling
from mull.sampling.sheet import sheet as ask_sheet
from mull.sheet import (
    Cell,
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
from tests.unit.critique.reflected import WEIGHED, capped, panel, reflected
from tests.unit.multipath.agent_runs import UNCLEAR, UNSUPPORTED, coded, researched, verdict
from tests.unit.runs import START, failed, finished, put_in, sampled

HOSTILE = (
    "</title></style><script>alert('1')</script><img src=x onerror=\"y\"> [red]x[/red] :smile:"
    " \x1b[31m\x07\x00 ```\n# heading\n[link](http://x) **bold** |cell|\u202e 日本"
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


ANSWERS = ["129", "129", "139", None, "129", "139", *["129"] * 4]
ASKED = told(sampled(ANSWERS), warnings=("seed was left out",))
SHEETS = {
    "ask": ASKED,
    "ask, many": told(sampled(["A", None] * 100, rule="fixed", max_responses=200)),
    "ask, going on": told(sampled(["A", "B"])),
    "ask, people": told(finished(["A", failed(1, "Blocked"), put_in(2, "B", "Ann")])),
    "ask, unreadable": told(sampled([None] * 10)),
    "reflect": reflect_sheet(reflected([0.42, capped(0.9), panel()], criteria=WEIGHED).result()),
    "research": agent_sheet(
        researched([[UNSUPPORTED, UNCLEAR], []], ["See it as a queue."]).result()
    ),
    "code": agent_sheet(
        coded([verdict(True, True, False), verdict(False, True, False)], max_revisions=2).result()
    ),
    "hostile": everywhere(HOSTILE),
}
