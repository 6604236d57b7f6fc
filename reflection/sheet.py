"""One frozen `Sheet` for any run, running or finished: built by each loop, drawn by renderers.

A loop's `sheet.py` turns its progress or its result into a `Sheet`. The terminal, the page and the
Web UI's details know nothing else of a run, so that a warning that stands on the sheet stands in
all three. Texts are as they came from models and people: each renderer makes them safe to show.
"""

from datetime import datetime
from typing import Literal

from reflection.run import Record, Spending, Usage
from reflection.text import spent_words, tally_words, usd

Tone = Literal["good", "warning", "bad", "running", "plain"]


class Verdict(Record):
    """The one sentence about a run: where it stands, or why it stopped and with what.

    `stop_reason` is the run's own, None while it goes on.
    """

    words: str
    tone: Tone = "plain"
    stop_reason: str | None = None


class Text(Record):
    """A text of any length, shown as it is: an answer, a draft, a reply, a report, code.

    `note` says in a few words what it is worth ("the best, 0.82"); `folded` texts open on demand.
    """

    title: str
    content: str
    kind: Literal["plain", "markdown", "code"] = "plain"
    note: str = ""
    folded: bool = True


class Fact(Record):
    """A label and its value on one line."""

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"


class Column(Record):
    """A table's column; `share` cells are numbers from 0 to 1, drawn as a bar beside the number.

    Numbers that are not whole have two digits. An `extra` column is left out where room is short.
    """

    name: str
    kind: Literal["text", "number", "share"] = "text"
    extra: bool = False


Cell = str | int | float | None


class Table(Record):
    """Rows under named columns; None is an empty cell.

    `newest` is true where the last rows matter most: a renderer with little room leaves out the
    first ones, else the last ones, and says how many. `earlier` rows were left out already.
    `tones` are those of the rows, where any. A `folded` table stands on the page alone.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    newest: bool = False
    earlier: int = 0
    tones: tuple[Tone, ...] = ()
    folded: bool = False


class Curve(Record):
    """A series of values from 0 to 1; None leaves a gap. `labels` say what each point is."""

    name: str
    points: tuple[float | None, ...]
    labels: tuple[str, ...] = ()


class Bound(Record):
    """A value from 0 to 1 that the curve of this name is held against, such as a threshold."""

    label: str
    value: float
    curve: str = ""


class Band(Record):
    """A stretch of the axis, in points, such as one wave."""

    label: str
    points: int


class Chart(Record):
    """Curves over one axis, one place for each point.

    `levels` name the heights from the bottom to the top where they are no shares, such as nodes.
    `places` name the points, else they are counted from 1. `gap` says what a point is that has a
    value in no curve.
    """

    title: str
    axis: str
    curves: tuple[Curve, ...]
    bounds: tuple[Bound, ...] = ()
    bands: tuple[Band, ...] = ()
    levels: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    gap: str = ""


class Step(Record):
    """One line of what a person sees while a run goes on; `short` is for a narrow terminal.

    The steps of a run are never changed, and new ones are added at the end. `below` are lines that
    belong to it and stand under it, such as the critiques of a draft.
    """

    words: str
    short: str = ""
    below: tuple[str, ...] = ()
    tone: Tone = "plain"


class Waiting(Record):
    """The run waits for a person's review, until then; None is for ever."""

    until: datetime | None = None


class Sheet(Record):
    """What any run shows, finished or not. Renderers know nothing else of a run.

    `subject` is the question, query or prompt. `answer` is what was asked for, where there is one;
    while a run goes on, what it would give now.
    `flags` say what a reader has to know before building on the answer; `warnings` are the run's.
    `steps` are those complete so far, and `busy` says in a few words what is under way, for a line
    that changes in place; the verdict of a run that goes on says it too.
    """

    subject: str
    verdict: Verdict
    answer: Text | None = None
    facts: tuple[Fact, ...] = ()
    flags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    texts: tuple[Text, ...] = ()
    decisions: Table | None = None
    steps: tuple[Step, ...] = ()
    busy: str = ""
    waiting: Waiting | None = None


EMBEDDED = "embedded/"


def columns(*names: str) -> tuple[Column, ...]:
    """Name a table's columns and what they are: `score|share`, `chars|number`, `model|extra`."""
    parts = [name.split("|") for name in names]
    return tuple(
        Column(
            name=name,
            kind="share" if "share" in kinds else "number" if "number" in kinds else "text",
            extra="extra" in kinds,
        )
        for name, *kinds in parts
    )


def model_fact(name: str, thing: str) -> Fact:
    """Name the model that wrote, and say where it is a toy; `thing` is what it wrote."""
    toy = f"a toy: its {thing} show how Mull works, not how good models are"
    return Fact(label="model", value=name, note=toy if name.startswith(EMBEDDED) else "")


def moment_words(moment: datetime | None) -> str | None:
    """Write when something was done, to the second; None where nobody knows."""
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}" if moment else None


def draft_words(index: int | None) -> str:
    """Name a draft, counted from 1."""
    return "no draft" if index is None else f"draft {index + 1}"


def origin_words(origin: str, author: str | None) -> str:
    """Say where a draft is from, and which person is behind it."""
    return f"{origin} by {author}" if author else origin


def made_words(
    model: str | None,
    seed: int | None,
    at: datetime | None,
    attempts: int,
    spending: Spending | None,
) -> str:
    """Say what wrote a draft, when, in how many attempts and at what cost, as far as is known."""
    known = (
        model and f"by {model}",
        seed is not None and f"seed {seed}",
        at and f"at {moment_words(at)}",
        attempts and tally_words(attempts, "attempt"),
        spending and f"spent {spent_words(spending)}",
    )
    return "; ".join(part for part in known if part)


def reason_words(reason: str, asked: str | None, author: str | None) -> str:
    """Say why something was decided, what a person wants changed, and who, unless named already."""
    said = f"{reason}: {asked}" if asked else reason
    return f"{said} (by {author})" if author and author not in reason else said


def usage_table(usage: Usage) -> Table:
    """Tell what each part of a run spent, and all of it; what nobody knows is called unknown."""

    def row(name: str, spent: Usage | Spending) -> tuple[Cell, ...]:
        tokens = (spent.input_tokens, spent.cached_tokens, spent.output_tokens)
        counts = ("unknown" if count is None else count for count in tokens)
        return (name, spent.calls, *counts, usd(spent.cost_usd))

    counted = ("calls", "tokens in", "of them cached", "tokens out", "cost")
    parts = [row(name, part) for name, part in usage.parts.items() if part.calls]
    return Table(
        title="Usage",
        columns=columns("part", *(f"{name}|number" for name in counted)),
        rows=(*parts, row("total", usage)),
        folded=True,
    )
