"""What a comparison of methods found: numbers, remarks, JSON document and sheet."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from commands.measuring.batches import Findings, Read
from commands.measuring.compare import MethodPlan
from reflection.batch.result import BatchResult
from reflection.critique.calibration import Estimate
from reflection.critique.worth import EVALUATION, REFLECT, SINGLE, Comparison, Outcome, compare
from reflection.sampling.answers import find_marked, read_answer
from reflection.sampling.result import SelfConsistencyResult
from reflection.sheet import EMBEDDED, Fact, Sheet, Table, Verdict, columns
from reflection.text import tally_words, terminal_safe, usd

FEW = 50


def findings(
    plan: MethodPlan, identity: str, batch: BatchResult, reads: Sequence[Read]
) -> Findings:
    """Compare the methods; the document has the data to compute the numbers again."""
    # Runs that were not started, were cancelled, or whose result is not kept are left out.
    made = [read for read in reads if read.result is not None or read.run.status == "failed"]
    outcomes = [_outcome(plan, read) for read in made]
    ordered = sorted(outcomes, key=lambda one: (plan.methods.index(one.method), one.question))
    comparison = compare(ordered)
    results = [read.result for read in reads if read.result is not None]
    said = (*_on_models(plan, results), *_on_runs(outcomes, results, batch))
    failed = all(one.error is not None for one in outcomes)
    document = {
        "id": identity,
        "questions": len(plan.questions),
        "seed": plan.sampling.seed,
        "comparison": comparison.model_dump(mode="json"),
        "outcomes": [one.model_dump(mode="json") for one in outcomes],
        "batch": batch.model_dump(mode="json", exclude={"runs"}),
        "warnings": list(said),
    }
    questions = tally_words(len(plan.questions), "question")
    sheet = Sheet(
        subject="Is reflection worth its cost?",
        verdict=Verdict(
            words=f"{questions} by {', '.join(plan.methods)}", tone="bad" if failed else "plain"
        ),
        facts=(Fact(label="batch", value=identity), *_costs(comparison, outcomes)),
        flags=said,
        tables=(_methods(comparison), _changes(comparison)),
    )
    return Findings(document, sheet, failed)


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
    if batch.stop_reason != "completed":
        left = tally_words(batch.not_started + batch.cancelled, "run")
        yield f"{left} not made: {batch.stop_explanation}."
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
    scored = REFLECT + EVALUATION
    more, again = (100 * (tokens - SINGLE) // SINGLE for tokens in (REFLECT, scored))
    yield Fact(
        label="the chapter",
        value=f"{SINGLE:,} to {REFLECT:,} tokens, +{more} %, for one revision;"
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
    return Table(
        title="Methods, with means of a question",
        columns=columns("method", "runs|number", *(f"{name}|number" for name in names)),
        rows=tuple(rows),
    )


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
    return Table(
        title=f"Against {found.baseline}",
        columns=columns("method", *(f"{name}|number" for name in names)),
        rows=tuple(rows),
    )


def _cells(found: Estimate, sign: str = "") -> tuple[str, str]:
    """Format a share and its interval in percent."""
    if found.value is None or found.low is None or found.high is None:
        return "-", "-"
    low, high = (f"{100 * end:{sign}.0f}" for end in (found.low, found.high))
    return f"{100 * found.value:{sign}.0f} %", f"{low} to {high}"
