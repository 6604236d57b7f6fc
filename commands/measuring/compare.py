"""`compare`: the same questions by several methods, to see whether reflection is worth its cost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import typer

from commands import plans
from commands.command import checked, fail, flag
from commands.help import COMMON
from commands.measuring.replay import readable_kind
from commands.options import settled, takes_fields
from commands.plans import Findings, Read, found, unmade
from mull.batch.request import BatchRequest, Item
from mull.batch.result import BatchResult
from mull.critique import worth
from mull.critique.estimates import Estimate
from mull.critique.request import ReflectOnResultRequest
from mull.critique.worth import Comparison, Outcome
from mull.request import Record
from mull.sampling.answers import find_marked, read_answer
from mull.sampling.prompts import build_prompt
from mull.sampling.request import AnswerKind, SelfConsistencyRequest
from mull.sampling.result import SelfConsistencyResult
from mull.sheet import EMBEDDED, Fact, Sheet, Table, Verdict, table
from mull.text import tally_words, terminal_safe, usd

FORM = '{"question": "What is 6 times 7?", "gold": "42"}'
FEW = 50
METHODS = "single,reflect,self_consistency"
# Of one call; other questions may take far less or more.
DRAFT_OUT, SAMPLE_OUT = 500, 300
ASSUMED = (
    f"{DRAFT_OUT} out for a draft, {plans.EVALUATION_OUT} for an evaluation and {SAMPLE_OUT} for a "
    "sampled answer, and as many of them as there may be"
)
REFLECTION = "Reflection and its judge"
REFLECTED = ("criteria", "max_revisions", "score_threshold")


@takes_fields(ReflectOnResultRequest, "judges", *REFLECTED, under=REFLECTION)
@takes_fields(SelfConsistencyRequest, "model", "max_responses", under="Sampling")
@takes_fields(BatchRequest)
def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Questions, JSON lines.")],
    methods: Annotated[
        str, typer.Option(metavar="A,B", help="The methods to compare, comma-separated."), COMMON
    ] = METHODS,
    answers: Annotated[
        str,
        typer.Option(metavar="KIND", help="How answers compare: exact, text, number, choice."),
        COMMON,
    ] = "exact",
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="The seed of every run, if the model takes one.")
    ] = 0,
    no_guardrails: Annotated[
        bool,
        flag(
            "--no-guardrails", help="Use the judge's score unchanged.", rich_help_panel=REFLECTION
        ),
    ] = False,
    *,
    how: plans.How,
    **fields: Any,
) -> None:
    """Compare one draft, reflection and sampling on your questions.

    FILE has one JSON object a line: {"question": "...", "gold": "42"}. An answer that reads as
    gold is right: drafts are asked to end with a line "Answer: ".

    For example:

        mull compare questions.jsonl --answers number --model gpt-5-mini
        mull compare questions.jsonl --methods single,reflect --estimate
        mull compare examples/questions.jsonl --answers number

    `single` is one draft, `reflect` judges and revises it, `self_consistency` samples and
    votes. All start from the same seed, so that a difference is the method's. A run that fails
    counts as wrong.

    Repeat the command with the same --id to continue a cancelled batch, or to show one that has
    ended: nothing is paid twice. It asks before it starts only in a terminal; --estimate starts
    nothing.

    The last of the examples needs `mull dev` and no key, and takes many minutes; its toy model
    is mostly wrong.

    Exit codes: 0 done, 1 failed or no run worked, 2 wrong usage or a file that can't be read, 3
    no server or worker, 5 cancelled or not agreed to, 130 detached (the batch goes on).
    """
    plans.require_scipy("compare")
    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    if not names or not set(names) <= set(METHODS.split(",")):
        fail(f"--methods: expected one or more of {METHODS}, comma-separated.")
    kind = readable_kind(answers)
    written = {name: fields[name] for name in ("model", "judges", *REFLECTED)}
    fields |= settled(ReflectOnResultRequest, written, how.profile, alone=True)
    alike = {"model": fields["model"] or None, "seed": seed}
    known = {name: fields[name] for name in REFLECTED}
    known |= {"query": "-", "judges": fields["judges"] or [], "complexity": 1.0, **alike}
    known |= {"guardrails": []} if no_guardrails else {}
    asked = {"question": "-", "answers": kind, "max_responses": fields["max_responses"], **alike}
    plan = MethodPlan(
        methods=names,
        reflecting=checked(ReflectOnResultRequest, known),
        sampling=checked(SelfConsistencyRequest, asked),
        questions=plans.read_lines(file, partial(read_question, kind), FORM, exact=True),
    )
    items: list[Item] = [{"question": one.question, "query": one.query} for one in plan.questions]
    batch = plans.batch_of(items, [plan.variant(method) for method in names], fields)
    from commands.measuring.findings import measure

    measure(f"compare {file.name}", batch, plan.forecast(), how, partial(findings, plan))


class Question(Record):
    """A question, and its right answer in the form that votes."""

    question: str
    gold: str

    @property
    def query(self) -> str:
        """The query for a draft, which asks for a marked answer."""
        return f'{self.question}\n\nEnd with one line "Answer: " that has the final answer alone.'


def read_question(kind: AnswerKind, fields: plans.Fields) -> Question:
    """Read a question and its gold. Raises ValueError."""
    found = Question.model_validate(fields)
    SelfConsistencyRequest(question=found.question)
    ReflectOnResultRequest(query=found.query)
    form = read_answer(kind, found.gold)
    if form is None:
        raise ValueError(f"gold can't be read as {kind}")
    return Question(question=found.question, gold=form)


class MethodPlan(NamedTuple):
    """The questions and the methods; both requests are those of each run, without its texts."""

    methods: Sequence[str]
    reflecting: ReflectOnResultRequest
    sampling: SelfConsistencyRequest
    questions: Sequence[Question]

    def variant(self, method: str) -> dict[str, Any]:
        """Build a method's settings as a variant of the batch."""
        workflow, takes = "ReflectOnResultWorkflow", {"query": "query"}
        fields = self.reflecting.model_dump(mode="json", exclude_unset=True, exclude={"query"})
        if method == "self_consistency":
            workflow, takes = "SelfConsistencyWorkflow", {"question": "question"}
            fields = self.sampling.model_dump(mode="json", exclude_unset=True, exclude={"question"})
        elif method == "single":
            alike = {name: fields[name] for name in ("model", "seed") if name in fields}
            fields = alike | {"reflect": False}
        return {"name": method, "workflow": workflow, "request": fields, "takes": takes}

    def forecast(self) -> plans.Forecast:
        """Count the calls of each method and their tokens, at their maximum."""
        parts = [part for method in self.methods for part in self._calls(method)]
        return plans.Forecast(parts, ASSUMED)

    def _calls(self, method: str) -> list[plans.PlannedCalls]:
        count, model = len(self.questions), self.reflecting.model
        asked = plans.tokens_of(one.query for one in self.questions)
        if method == "single":
            return [plans.PlannedCalls(method, model, count, asked, count * DRAFT_OUT)]
        if method == "self_consistency":
            most, kind = self.sampling.max_responses, self.sampling.answers
            prompts = (build_prompt(one.question, None, kind) for one in self.questions)
            calls, asked = most * count, most * plans.tokens_of(prompts)
            return [plans.PlannedCalls(method, model, calls, asked, calls * SAMPLE_OUT)]
        revisions = self.reflecting.max_revisions
        drafts = count * (1 + revisions)
        # A revision is shown the draft and the feedback on it.
        asked = asked * (1 + revisions) + count * revisions * (DRAFT_OUT + plans.EVALUATION_OUT)
        judging = sum(
            plans.judge_tokens(self.reflecting, one.question, "") for one in self.questions
        )
        judged, out = drafts * (judging // count + DRAFT_OUT), drafts * plans.EVALUATION_OUT
        writing = plans.PlannedCalls("reflect, writing", model, drafts, asked, drafts * DRAFT_OUT)
        names = self.reflecting.panel_judges
        by = [plans.PlannedCalls("reflect, judging", name, drafts, judged, out) for name in names]
        return [writing, *by]


def findings(
    plan: MethodPlan, identity: str, batch: BatchResult, reads: Sequence[Read]
) -> Findings:
    """Compare the methods; the document has the data to compute the numbers again."""
    # Runs that were not started, were cancelled, or whose result is not kept are left out.
    made = [read for read in reads if read.result is not None or read.run.status == "failed"]
    outcomes = [_outcome(plan, read) for read in made]
    ordered = sorted(outcomes, key=lambda one: (plan.methods.index(one.method), one.question))
    comparison = worth.compare(ordered)
    results = [read.result for read in reads if read.result is not None]
    said = (*_on_models(plan, results), *_on_runs(outcomes, results, batch))
    failed = all(one.error is not None for one in outcomes)
    document = {
        "questions": len(plan.questions),
        "seed": plan.sampling.seed,
        "comparison": comparison.model_dump(mode="json"),
        "outcomes": [one.model_dump(mode="json") for one in outcomes],
    }
    return found(identity, batch, document, said, sheet_of, failed=failed)


class Document(Record):
    """What the JSON of a comparison has for its sheet."""

    id: str
    questions: int
    comparison: Comparison
    outcomes: tuple[Outcome, ...]
    warnings: tuple[str, ...]


def sheet_of(document: Any) -> Sheet:
    """Draw the JSON of a comparison. Raises ValueError."""
    known = Document.model_validate(document)
    compared, questions = known.comparison, tally_words(known.questions, "question")
    failed = all(one.error is not None for one in known.outcomes)
    methods = ", ".join(one.method for one in compared.methods)
    return Sheet(
        subject="Is reflection worth its cost?",
        verdict=Verdict(words=f"{questions} by {methods}", tone="bad" if failed else "plain"),
        facts=(Fact(label="batch", value=known.id), *_costs(compared, known.outcomes)),
        flags=known.warnings,
        tables=(_methods(compared), _changes(compared)),
    )


def _outcome(plan: MethodPlan, read: Read) -> Outcome:
    run, result, kind = read.run, read.result, plan.sampling.answers
    text = answer = None
    if isinstance(result, SelfConsistencyResult):
        text = answer = result.final_answer
    elif result is not None:
        text, marked = result.draft, find_marked(result.draft or "")
        answer = marked.answer if marked else None
    form = read_answer(kind, answer)
    return Outcome(
        question=run.item,
        method=run.variant,
        right=form == plan.questions[run.item].gold,
        answer=form,
        revisions=getattr(result, "revisions", None),
        tokens=run.tokens,
        cost_usd=run.cost_usd,
        seconds=read.seconds,
        workflow_id=run.workflow_id,
        error=(run.error or "no answer") if text is None else None,
    )


def _on_models(plan: MethodPlan, results: Sequence[Any]) -> Iterator[str]:
    judges = {name for result in results for name in getattr(result, "judges", ())}
    writers = {result.model for result in results}
    named = {plan.sampling.model or "", *plan.reflecting.judges}
    for name in sorted(named | judges | writers):
        if name.startswith(EMBEDDED):
            yield f"{name} is the embedded toy model: what it writes and judges is noise."
    if len(plan.questions) < FEW:
        few = tally_words(len(plan.questions), "question")
        yield f"{few} are few: note the intervals and p."
    if judges & writers:
        yield "The judge also wrote the texts: models tend to score their own texts high."


def _on_runs(
    outcomes: Sequence[Outcome], results: Sequence[Any], batch: BatchResult
) -> Iterator[str]:
    unjudged = Counter(
        result.stop_explanation for result in results if result.stop_reason == "evaluation_failed"
    )
    for said, count in unjudged.most_common(3):
        runs = tally_words(count, "run")
        yield f"{runs} by reflect stopped unjudged: {terminal_safe(said, 200)}."
    yield from unmade(batch, "run")
    if batch.completed > len(results):
        gone = tally_words(batch.completed - len(results), "result")
        yield f"{gone} no longer kept by the server, and left out."
    failed = Counter((one.method, one.error) for one in outcomes if one.error is not None)
    for (method, error), count in failed.most_common(3):
        runs = f"{tally_words(count, 'run')} by {method} failed, and count as wrong"
        yield f"{runs}: {terminal_safe(error or '', 200)}"
    yield from batch.warnings


def _costs(found: Comparison, outcomes: Sequence[Outcome]) -> Iterator[Fact]:
    """Compare the cost of reflection here with the source's numbers."""
    paired = next((one for one in found.paired if one.method == "reflect"), None)
    if paired is None or paired.tokens_change is None or paired.baseline != "single":
        return
    known = [one.revisions for one in outcomes if one.method == "reflect"]
    revisions = [count for count in known if count is not None]
    note = f"with {fmean(revisions):.2f} revisions a question" if revisions else ""
    change = f"{paired.tokens_change:+,.0f} % of single's tokens"
    yield Fact(label="reflect takes", value=change, note=note)
    scored = worth.REFLECT + worth.EVALUATION
    more, again = (
        100 * (tokens - worth.SINGLE) // worth.SINGLE for tokens in (worth.REFLECT, scored)
    )
    yield Fact(
        label="the chapter",
        value=f"{worth.SINGLE:,} to {worth.REFLECT:,} tokens, +{more} %, for one revision;"
        f" Mull also scores the revision: {scored:,}, +{again} %",
    )


def _methods(found: Comparison) -> Table:
    names = ("accuracy", "95 % interval", "tokens", "cost", "seconds")
    rows = []
    for one in found.methods:
        # A star marks a mean over fewer than all questions.
        tokens, cost = (
            "*" if mean.value is not None and mean.known < one.questions else ""
            for mean in (one.tokens, one.cost_usd)
        )
        rows.append((
            one.method,
            one.questions,
            *_cells(one.accuracy),
            "unknown" if one.tokens.value is None else f"{one.tokens.value:,.0f}{tokens}",
            usd(one.cost_usd.value) + cost,
            "-" if one.seconds.value is None else f"{one.seconds.value:,.1f}",
        ))  # fmt: skip
    numbers = (f"{name}|number" for name in names)
    return table("Methods, with means of a question", ("method", "runs|number", *numbers), rows)


def _changes(found: Comparison) -> Table:
    names = ("change", "95 % interval", "wrong to right", "right to wrong", "p", "tokens")
    rows = []
    for one in found.paired:
        change = one.tokens_change
        rows.append((
            one.method,
            *_cells(one.accuracy, "+"),
            one.wrong_to_right,
            one.right_to_wrong,
            f"{one.p_value:.3f}",
            "unknown" if change is None else f"{change:+,.0f} %",
        ))  # fmt: skip
    numbers = (f"{name}|number" for name in names)
    return table(f"Against {found.baseline}", ("method", *numbers), rows)


def _cells(found: Estimate, sign: str = "") -> tuple[str, str]:
    """Format a share and its interval in percent."""
    if found.value is None or found.low is None or found.high is None:
        return "-", "-"
    low, high = (f"{100 * end:{sign}.0f}" for end in (found.low, found.high))
    return f"{100 * found.value:{sign}.0f} %", f"{low} to {high}"
