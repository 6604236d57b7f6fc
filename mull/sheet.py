"""One frozen `Sheet` for any run, running or finished: built by each loop, drawn by renderers.

A loop's `sheet.py` turns the record of a run into a `Sheet`. The terminal, the page and the
Web UI's details know nothing else of a run, so that a warning that stands on the sheet stands in
all three. Texts are as they came from models and people: each renderer makes them safe to show.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from mull.drafts import Drafted, Made, PlainResult, RunRecord, best_of
from mull.request import Record
from mull.run import Decided, Part, Spending, Usage
from mull.text import quoted, tally_words, usd

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
    """

    title: str
    content: str
    kind: Literal["plain", "markdown", "code"] = "plain"
    note: str = ""
    folded: bool = True


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
    same for all. `doing` says what is under way, and `awaited` names what is in flight. Tables
    without rows are left out. `more` are other fields of the sheet.
    """
    made, waits = seen.decisions[-1:], seen.step in WAITS
    calls = tally_words(seen.in_flight, awaited)
    busy = f"{doing}, {calls} in flight" if seen.in_flight else doing
    verdict = Verdict(words=busy, tone="running")
    if seen.stop_reason is not None:
        busy = busy if waits else ""
        tone: Tone = "plain" if seen.stop_reason in UNDONE else "warning"
        tone = "good" if seen.stop_reason in GOOD else tone
        tone = "warning" if getattr(seen, "doubt", "") else tone
        verdict = Verdict(
            words=signed(made[0].reason, made[0].author) if made else seen.stop_reason,
            tone="bad" if answer is None or seen.stop_reason in FAILED else tone,
            stop_reason=seen.stop_reason,
        )
    shared, going = [Fact("spent", spent_words(seen.usage))], seen.stop_reason is None
    if seen.model:
        toy = seen.model.startswith(EMBEDDED)
        shared.append(Fact("model", seen.model, TOY if toy else "", "warning" if toy else "plain"))
    return Sheet(
        verdict=verdict,
        busy=busy,
        waiting=Waiting(until=seen.review_until, asked=getattr(seen, "asked", ()))
        if waits
        else None,
        answer=answer,
        facts=tuple(one for one in (*facts, *shared) if going or one.tone != "running"),
        warnings=seen.warnings,
        tables=tuple(found for found in (*tables, _usage_table(seen.usage)) if found.rows),
        **more,
    )


def draft_sheet(seen: PlainResult, request: object = None) -> Sheet:
    """Build the sheet of a loop that shows its drafts and decisions and nothing else."""
    del request  # for the signature that every loop's sheet has
    made, best = seen.decisions, best_of(seen)
    listed = draft_table(seen.drafts, best, "kept", "", [() for _ in seen.drafts])
    return run_sheet(
        seen,
        subject=seen.subject,
        doing=seen.step.replace("_", " "),
        answer=Text(title="answer", content=best.text, folded=False) if best else None,
        facts=(),
        tables=[listed],
        decisions=decision_table(made, "decision, because", ((one.stop_reason,) for one in made)),
        steps=tuple(Step(words=reason_words(one)) for one in made),
    )


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


def table(
    title: str, names: str | Sequence[str], rows: Iterable[Sequence[Cell]], **more: Any
) -> Table:
    """Make a table; the names are those of `columns`, and `more` are other fields."""
    listed = names.split(", ") if isinstance(names, str) else names
    return Table(title=title, columns=columns(*listed), rows=tuple(map(tuple, rows)), **more)


def draft_table(
    drafts: Sequence[Drafted],
    best: Drafted | None,
    mark: str,
    names: str,
    measures: Iterable[Sequence[Cell]],
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
        for draft, measured in zip(drafts, measures, strict=True)
    )
    tones: tuple[Tone, ...] = tuple("good" if draft is best else "plain" for draft in drafts)
    names = f"#, origin, {names}{', ' if names else ''}chars|number|extra, model|extra"
    return table("Drafts", names, rows, tones=tones, newest=True)


def decision_table(
    decisions: Sequence[Decided], names: str, numbers: Iterable[Sequence[Cell]], **more: Any
) -> Table:
    """Make the table of decisions: the loop's numbers, why and by whom, and when.

    The last of the names is that of the reasons. `more` are other fields of the table.
    """
    rows = (
        (*row, reason_words(made), moment_words(made.at))
        for made, row in zip(decisions, numbers, strict=True)
    )
    return table("Decisions", f"{names}, at|extra", rows, newest=True, **more)


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


def claimed(author: str | None) -> str | None:
    """Show a person's name as the claim that it is: any client may give any."""
    return author if author in {None, "a person"} else f"{quoted(str(author))} (unverified)"


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


def _usage_table(usage: Usage) -> Table:
    """Tell what each part of a run spent, and all of it; what nobody knows is called unknown."""

    def row(name: str, spent: Usage | Spending) -> tuple[Cell, ...]:
        tokens = (spent.input_tokens, spent.cached_tokens, spent.output_tokens)
        counts = ("unknown" if count is None else count for count in tokens)
        return (name, spent.calls, *counts, usd(spent.cost_usd))

    names = "part, calls|number, tokens in|number, of them cached|number, tokens out|number"
    parts = [row(name, part) for name, part in usage.parts.items() if part.calls]
    rows = (*parts, row("total", usage))
    return table("Usage", f"{names}, cost|number", rows, folded=True)


def spent_words(spent: Usage | Spending) -> str:
    """Say in one line what was spent: calls, tokens and cost."""
    read, written = spent.input_tokens, spent.output_tokens
    cached = f" ({spent.cached_tokens:,} of them cached)" if spent.cached_tokens else ""
    tokens = f"{_known(read)} tokens in{cached} and {_known(written)} out"
    if read is None and written is None:
        tokens = "tokens unknown"
    said = f"{tally_words(spent.calls, 'call')}, {tokens}, cost {usd(spent.cost_usd)}"
    if isinstance(spent, Usage):
        lost = sum(spent.parts[part].calls for part in LOST if part in spent.parts)
        unknown = "without a reply, whose charge is not known"
        return f"{said}, and {tally_words(lost, 'call')} {unknown}" if lost else said
    return said


def _known(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"
