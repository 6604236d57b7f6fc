"""One frozen `Sheet` for any run, running or finished: built by each loop, drawn by renderers.

A loop's `sheet.py` turns the record of a run into a `Sheet`. The terminal, the page and the
Web UI's details know nothing else of a run, so that a warning that stands on the sheet stands in
all three. Texts are as they came from models and people: each renderer makes them safe to show.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple

from mull.drafts import Drafted, Made, PlainDecision, PlainResult, RunRecord, best_of
from mull.request import Record
from mull.run import Decided, Part, Spending, Usage
from mull.text import Cell, Shown, claimed, spaced, tally_words, usd

Tone = Literal["good", "warning", "bad", "running", "plain"]

# Stop reasons of every loop. A run without an answer is bad, and any other stop a warning.
GOOD = {
    "rule", "decided", "max_responses", "passed", "consistent", "answered", "solved", "trained",
    "accepted_by_person", "replaced_by_person", "scored_by_person",
}  # fmt: skip
FAILED = {
    "evaluation_failed", "revision_failed",
    "unrouted", "generation_failed", "reflection_failed", "test_failed", "environment_failed",
}  # fmt: skip
UNDONE = {"disabled", "skipped"}
EMBEDDED = "embedded/"
LOST: tuple[Part, ...] = ("retried", "cancelled")
# The steps in which a person is asked.
WAITS = {"waiting_for_review", "waiting_for_permission"}
TOY = "a toy: what it writes shows how Mull works, not how good models are"


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
    `draft` is the number of the draft that it is, and `source` that by which a report cites it.
    """

    title: str
    content: str
    kind: Literal["plain", "markdown", "code"] = "plain"
    note: str = ""
    folded: bool = True
    draft: int | None = None
    source: int | None = None


class Fact(NamedTuple):
    """A label and its value on one line; one with the tone `running` is of a run that goes on."""

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


class Table(Record):
    """Rows under named columns; None is an empty cell.

    `newest` is true where the last rows matter most: a renderer with little room leaves out the
    first ones, else the last ones, and says how many. `left_out` counts those that are not here.
    `tones` are those of the rows, where any. A `folded` table stands on the page alone. The rows of
    a `timeline` follow each other, and the number of one at its end is how many seconds it took.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    newest: bool = False
    left_out: int = 0
    tones: tuple[Tone, ...] = ()
    folded: bool = False
    timeline: bool = False

    def cut(self, rows: int) -> "Table":
        """Keep so many rows, those that matter most."""
        kept = slice(-rows, None) if self.newest else slice(rows)
        cut = {"rows": self.rows[kept], "tones": self.tones[kept]}
        more = max(0, len(self.rows) - rows)
        return self.model_copy(update={**cut, "left_out": self.left_out + more})


class Curve(Record):
    """A series of values from 0 to 1; None leaves a gap. `labels` say what each point is."""

    name: str
    points: tuple[float | None, ...]
    labels: tuple[str, ...] = ()


class Bound(NamedTuple):
    """A value from 0 to 1 that the curve of this name is held against, such as a threshold."""

    label: str
    value: float
    curve: str = ""


class Band(NamedTuple):
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
    """One line of what a person sees while a run goes on, what matters most first.

    The steps of a run are never changed, and new ones are added at the end. `below` are lines that
    belong to it and stand under it, such as the critiques of a draft.
    """

    words: str
    below: tuple[str, ...] = ()
    tone: Tone = "plain"


class Waiting(Record):
    """The run waits for a person's review, until then; None is for ever.

    `asked` is what the person is asked about, where that is not the answer: a line for each thing.
    """

    until: datetime | None = None
    asked: tuple[str, ...] = ()


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


def run_sheet(
    seen: RunRecord,
    *,
    doing: str,
    answer: Text | None,
    facts: Iterable[Fact],
    tables: Iterable[Table],
    awaited: str = "call",
    **more: Any,
) -> Sheet:
    """Build the sheet of a run: what its loop says of it, and what is the same for all runs.

    The verdict, the wait for a person, the spending, the model, the warnings and the usage are the
    same for all, and fields of the record with a `Shown` become facts. `doing` says
    what is under way, and `awaited` names what is in flight. Facts without a value and tables
    without rows are left out. `more` are other fields of the sheet.
    """
    made, waits = seen.decisions[-1:], seen.step in WAITS
    calls = tally_words(seen.in_flight, awaited)
    busy = f"{doing}, {calls} in flight" if seen.in_flight else doing
    verdict = Verdict(words=busy, tone="running")
    waiting = Waiting(until=seen.review_until, asked=getattr(seen, "asked", ())) if waits else None
    if seen.stop_reason is not None:
        busy = busy if waits else ""
        tone: Tone = "plain" if seen.stop_reason in UNDONE else "warning"
        tone = "good" if seen.stop_reason in GOOD else tone
        tone = "warning" if seen.doubt else tone
        verdict = Verdict(
            words=signed(made[0].reason, made[0].author) if made else seen.stop_reason,
            tone="bad" if answer is None or seen.stop_reason in FAILED else tone,
            stop_reason=seen.stop_reason,
        )
    known = [(mark.name, mark.cell(getattr(seen, name))) for name, mark in shown_in(type(seen))]
    shared = [Fact(label, str(value)) for label, value in known if value]
    shared.append(Fact("spent", spent_words(seen.usage)))
    parts = [(name, part) for name, part in seen.usage.parts.items() if part.calls]
    spent = table("Usage", ("part", Spending), [*parts, ("total", seen.usage)], folded=True)
    if seen.model:
        toy = seen.model.startswith(EMBEDDED)
        shared.append(Fact("model", seen.model, TOY if toy else "", "warning" if toy else "plain"))
    return Sheet(
        verdict=verdict,
        busy=busy,
        waiting=waiting,
        answer=answer,
        facts=tuple(one for one in (*facts, *shared) if one.value),
        warnings=seen.warnings,
        tables=tuple(found for found in (*tables, spent) if found.rows),
        **more,
    )


def draft_sheet(seen: PlainResult, request: object = None) -> Sheet:
    """Build the sheet of a loop that shows its drafts and decisions and nothing else."""
    del request  # for the signature that every loop's sheet has
    best = best_of(seen)
    return run_sheet(
        seen,
        subject=seen.subject,
        doing=spaced(seen.step),
        answer=Text(title="answer", content=best.text, folded=False) if best else None,
        facts=(),
        tables=[draft_table(seen.drafts, best, "kept")],
        decisions=decision_table(PlainDecision, seen.decisions),
        steps=tuple(Step(words=reason_words(made)) for made in seen.decisions),
    )


@cache
def shown_in(kind: type[Record]) -> tuple[tuple[str, Shown], ...]:
    """List the fields of records that say how they are shown, each with what it says."""
    return tuple(
        (name, mark)
        for name, field in kind.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Shown)
    )


def table(
    title: str,
    heads: str | Sequence[str | type[Record]],
    rows: Iterable[Sequence[Any]],
    **more: Any,
) -> Table:
    """Make a table, without the columns that are empty in every row.

    A head is a column's name and what it is: `score|share`, `chars|number`, `model|extra`. A class
    of records as a head stands for the columns that its fields declare, and a row has a record
    there. `more` are other fields of the table.
    """
    heads = heads.split(", ") if isinstance(heads, str) else heads
    names = [
        name
        for head in heads
        for name in ([head] if isinstance(head, str) else [mark.name for _, mark in shown_in(head)])
    ]
    grid = [
        [cell for head, item in zip(heads, row, strict=True) for cell in _cells(head, item)]
        for row in rows
    ]
    kept = [at for at in range(len(names)) if any(row[at] not in {None, ""} for row in grid)]
    return Table(
        title=title,
        columns=tuple(_column(names[at]) for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in grid),
        **more,
    )


def _cells(head: str | type[Record], item: Any) -> list[Cell]:
    if isinstance(head, str):
        return [item]
    return [mark.cell(getattr(item, name)) for name, mark in shown_in(head)]


def _column(words: str) -> Column:
    name, *kinds = words.split("|")
    kind = "share" if "share" in kinds else "number" if "number" in kinds else "text"
    return Column(name=name, kind=kind, extra="extra" in kinds)


def draft_table(
    drafts: Sequence[Drafted],
    best: Drafted | None,
    mark: str,
    heads: Sequence[str | type[Record]] = (),
    measures: Iterable[Sequence[Any]] | None = None,
) -> Table:
    """Make the table of drafts: `mark` is set on the best one, `measures` are the loop's."""
    rows = (
        (
            f"{draft.index + 1} {mark}" if draft is best else str(draft.index + 1),
            _origin_words(draft),
            *measured,
            len(draft.text),
            draft.model,
        )
        for draft, measured in zip(drafts, measures or [()] * len(drafts), strict=True)
    )
    tones: tuple[Tone, ...] = tuple("good" if draft is best else "plain" for draft in drafts)
    listed: list[str | type[Record]] = ["#", "origin", *heads, "chars|number|extra", "model|extra"]
    return table("Drafts", listed, rows, tones=tones, newest=True)


def decision_table(
    kind: type[Decided],
    decisions: Sequence[Decided],
    heads: Sequence[str] = (),
    own: Iterable[Sequence[Cell]] | None = None,
    left_out: int = 0,
) -> Table:
    """Make the table of decisions: what they declare, the loop's own cells, why, by whom, and when.

    So many earlier decisions are `left_out`.
    """
    rows = (
        (made, *cells, outcome_words(made), reason_words(made), moment_words(made.at))
        for made, cells in zip(decisions, own or [()] * len(decisions), strict=True)
    )
    tones: tuple[Tone, ...] = tuple("running" if made.stop else "plain" for made in decisions)
    listed: list[str | type[Record]] = [kind, *heads, "decision", "because", "at|extra"]
    return table("Decisions", listed, rows, newest=True, left_out=left_out, tones=tones)


def next_words(made: Decided) -> str:
    """Say in a word whether a decision ends the run, or what comes next."""
    if getattr(made, "waits_for_review", False):
        return "a person's review"
    return "stop" if made.stop else getattr(made, "next", None) or "go on"


def outcome_words(made: Decided) -> str:
    """Say what a decision led to, and for which reason if the run ends or waits."""
    return ": ".join(said(next_words(made), made.stop_reason))


def said(*parts: object) -> tuple[str, ...]:
    """Keep the parts that are texts, without empty ones: `condition and "text"` is a part."""
    return tuple(part for part in parts if part and isinstance(part, str))


def moment_words(moment: datetime | None) -> str | None:
    """Write when something was done, to the second; None where nobody knows."""
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}" if moment else None


def draft_words(index: int | None) -> str:
    """Name a draft, counted from 1."""
    return "no draft" if index is None else f"draft {index + 1}"


def draft_name(draft: Drafted) -> str:
    """Name a draft with where it is from, and which person is behind it."""
    return f"{draft_words(draft.index)}, {_origin_words(draft)}"


def made_words(made: Made) -> str:
    """Say what wrote a text, when, in how many attempts and at what cost, as far as is known."""
    known = said(
        made.model and f"by {made.model}",
        made.seed is not None and f"seed {made.seed}",
        made.timestamp and f"at {moment_words(made.timestamp)}",
        made.attempts and tally_words(made.attempts, "attempt"),
        made.spending and f"spent {spent_words(made.spending)}",
    )
    return "; ".join(known)


def reason_words(made: Decided) -> str:
    """Say why something was decided, what a person wants changed, and who, unless named already."""
    asked = getattr(made, "asked", None)
    reason = f"{made.reason}: {asked}" if asked else made.reason
    named = made.author is None or _named(made.author).search(made.reason)
    return signed(reason if named else f"{reason} (by {made.author})", made.author)


def signed(said: str, author: str | None) -> str:
    """Show the name of the person who did it as a claim, wherever it stands."""
    return _named(str(author)).sub(lambda _: f"by {claimed(author)}", said)


def _named(author: str) -> re.Pattern[str]:
    return re.compile(rf"\bby {re.escape(author)}(?!\w)")


def ended_words(explanation: str) -> str:
    """Say why a run without decisions ended, with a person's name as a claim."""
    return signed(explanation, explanation.removeprefix("finished by "))


def _origin_words(draft: Drafted) -> str:
    return f"{draft.origin} by {claimed(draft.author)}" if draft.author else draft.origin


def spent_words(spent: Usage | Spending) -> str:
    """Say in one line what was spent: calls, tokens and cost."""
    read, written = spent.input_tokens, spent.output_tokens
    cached = f" ({spent.cached_tokens:,} of them cached)" if spent.cached_tokens else ""
    tokens = f"{_known(read)} tokens in{cached} and {_known(written)} out"
    if read is None and written is None:
        tokens = "tokens unknown"
    said = f"{tally_words(spent.calls, 'call')}, {tokens}, cost {usd(spent.cost_usd)}"
    parts = spent.parts if isinstance(spent, Usage) else {}
    lost = sum(parts[part].calls for part in LOST if part in parts)
    unknown = "without a reply, whose charge is not known"
    return f"{said}, and {tally_words(lost, 'call')} {unknown}" if lost else said


def _known(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"
