"""The findings of a comparison of methods: numbers, remarks, JSON document and sheet."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from commands.measuring.compare import Answered, MethodPlan, Scores
from commands.measuring.plans import resamples
from reflection.batch.result import BatchResult
from reflection.critique.calibration import Estimate
from reflection.critique.worth import EVALUATION, SOURCE_COSTS, Comparison, Outcome, compare
from reflection.sheet import EMBEDDED, Fact, Sheet, Table, Verdict, columns
from reflection.text import tally_words, terminal_safe, usd

FEW = 50


class MethodFindings(NamedTuple):
    """A comparison with its data; `scoring` are the batches that scored the answers."""

    identity: str
    plan: MethodPlan
    answers: Sequence[Answered]
    outcomes: Sequence[Outcome]
    batch: BatchResult
    scoring: Sequence[BatchResult]
    comparison: Comparison

    @property
    def all_failed(self) -> bool:
        """True if no method gave any answer."""
        return all(one.failed for one in self.answers)

    def document(self) -> dict[str, Any]:
        """Build the JSON document, with the data to compute the numbers again."""
        return {
            "id": self.identity,
            "questions": len(self.plan.questions),
            "seed": self.plan.sampling.seed,
            "comparison": self.comparison.model_dump(mode="json"),
            "outcomes": [
                {
                    **outcome.model_dump(mode="json"),
                    "answer": one.answer,
                    "revisions": one.revisions,
                    "status": one.read.run.status,
                    "error": one.read.run.error,
                    "workflow_id": one.read.run.workflow_id,
                }
                for one, outcome in zip(self.answers, self.outcomes, strict=True)
            ],
            "batch": self.batch.model_dump(mode="json", exclude={"runs"}),
            "scoring": [batch.model_dump(mode="json", exclude={"runs"}) for batch in self.scoring],
            "chapter": [cost.model_dump(mode="json") for cost in SOURCE_COSTS],
            "warnings": list(remarks(self)),
        }


def findings(
    identity: str,
    plan: MethodPlan,
    answers: Sequence[Answered],
    scores: Scores,
    batch: BatchResult,
    scoring: Sequence[BatchResult],
) -> MethodFindings:
    """Compare the methods; the same answers give the same intervals.

    A run without an answer counts as wrong, or as 0.
    """
    outcomes = []
    for one in answers:
        run = one.read.run
        place, method, gold = run.item, run.variant, plan.questions[run.item].gold
        outcomes.append(
            Outcome(
                question=place,
                method=method,
                right=None if gold is None else one.answer == gold,
                score=0.0 if one.failed else scores.get((place, method)),
                tokens=run.tokens,
                cost_usd=run.cost_usd,
                seconds=one.read.seconds,
            )
        )
    ordered = sorted(outcomes, key=lambda one: (plan.methods.index(one.method), one.question))
    size = len(plan.questions)
    comparison = compare(size, ordered, resamples(size))
    return MethodFindings(identity, plan, answers, outcomes, batch, scoring, comparison)


def remarks(found: MethodFindings) -> Iterator[str]:
    """Yield what a reader of the numbers needs to know."""
    plan, size = found.plan, len(found.plan.questions)
    results = [one.read.result for one in found.answers if one.read.result is not None]
    judges = {name for result in results for name in getattr(result, "judges", ())}
    writers = {result.model for result in results}
    named = {plan.sampling.model or "", *plan.reflecting.judges}
    for name in sorted(named | judges | writers):
        if name.startswith(EMBEDDED):
            yield f"{name} is the embedded toy model: what it writes and judges is noise."
    if size < FEW:
        yield f"{tally_words(size, 'question')} are few: note the intervals and p."
    unknown = sum(one.gold is None for one in plan.questions)
    if plan.has_gold and unknown:
        yield f"{tally_words(unknown, 'question')} without gold count only for the cost."
    if judges & writers:
        yield "The judge also wrote the texts: models tend to score their own texts high."
    unjudged = Counter(
        result.stop_explanation for result in results if result.stop_reason == "evaluation_failed"
    )
    for said, count in unjudged.most_common(3):
        runs = tally_words(count, "run")
        yield f"{runs} by reflect stopped unjudged: {terminal_safe(said, 200)}."
    if not plan.has_gold and "reflect" in plan.methods:
        yield "No gold: the judge that scores is also the one that guided reflect's revisions."
    yield from _unmade(found)
    yield from found.batch.warnings


def _unmade(found: MethodFindings) -> Iterator[str]:
    for batch in (found.batch, *found.scoring):
        if batch.stop_reason != "completed":
            left = batch.not_started + batch.cancelled
            yield f"{tally_words(left, 'run')} not made: {batch.stop_explanation}."
    kept = sum(one.read.run.status == "completed" for one in found.answers)
    if found.batch.completed > kept:
        gone = tally_words(found.batch.completed - kept, "result")
        yield f"{gone} no longer kept by the server, and left out."
    failed = [one.read.run for one in found.answers if one.failed]
    said = Counter((run.variant, run.error or "no answer") for run in failed)
    for (method, error), count in said.most_common(3):
        runs = f"{tally_words(count, 'run')} by {method} failed, and count as wrong, or 0"
        yield f"{runs}: {terminal_safe(error, 200)}"


def sheet(found: MethodFindings) -> Sheet:
    """Show each method's result, its change against the first, and the cost of reflection."""
    plan = found.plan
    return Sheet(
        subject="Is reflection worth its cost?",
        verdict=Verdict(
            words=f"{tally_words(len(plan.questions), 'question')} by {', '.join(plan.methods)}",
            tone="bad" if found.all_failed else "plain",
            stop_reason=found.batch.stop_reason,
        ),
        facts=(Fact(label="batch", value=found.identity), *_costs(found)),
        flags=tuple(remarks(found)),
        tables=(
            _methods(found.comparison, gold=plan.has_gold),
            _changes(found.comparison, gold=plan.has_gold),
        ),
    )


def _costs(found: MethodFindings) -> Iterator[Fact]:
    """Compare the cost of reflection here with the source's table."""
    if found.scoring:
        tokens = [batch.tokens for batch in found.scoring]
        cost = [batch.cost_usd for batch in found.scoring]
        said = "tokens unknown" if None in tokens else f"{sum(n or 0 for n in tokens):,} tokens"
        spent = None if None in cost else sum(value or 0.0 for value in cost)
        value = f"took {said} more, cost {usd(spent)}, not in the table"
        yield Fact(label="measuring", value=value)
    paired = next((one for one in found.comparison.paired if one.method == "reflect"), None)
    if paired is None or paired.tokens_change is None or paired.baseline != "single":
        return
    known = [one.revisions for one in found.answers if one.read.run.variant == "reflect"]
    revisions = [count for count in known if count is not None]
    note = f"with {fmean(revisions):.2f} revisions a question" if revisions else ""
    change = f"{paired.tokens_change:+,.0f} % of single's tokens"
    yield Fact(label="reflect takes", value=change, note=note)
    single, reflect = SOURCE_COSTS
    scored = reflect.total + EVALUATION
    more = 100 * (scored - single.total) / single.total
    yield Fact(
        label="the chapter",
        value=f"{single.total:,} to {reflect.total:,} tokens, +{int(reflect.change)} %, for one"
        f" revision; Mull also scores the revision: {scored:,}, +{more:.0f} %",
    )


def _methods(found: Comparison, *, gold: bool) -> Table:
    names = ("accuracy" if gold else "score", "95 % interval", "tokens", "cost", "seconds")
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
            *_cells(one.accuracy if gold else one.score, gold=gold),
            "unknown" if one.tokens.value is None else f"{one.tokens.value:,.0f}{tokens}",
            usd(one.cost_usd.value) + cost,
            "-" if one.seconds.value is None else f"{one.seconds.value:,.1f}",
        ))  # fmt: skip
    return Table(
        title="Methods, with means of a question",
        columns=columns("method", "runs|number", *(f"{name}|number" for name in names)),
        rows=tuple(rows),
    )


def _changes(found: Comparison, *, gold: bool) -> Table:
    counted = ("wrong to right", "right to wrong", "p") if gold else ()
    rows = []
    for one in found.paired:
        p_value = None if one.p_value is None else f"{one.p_value:.3f}"
        change = one.tokens_change
        rows.append((
            one.method,
            *_cells(one.accuracy if gold else one.score, gold=gold, sign="+"),
            *((one.wrong_to_right, one.right_to_wrong, p_value) if gold else ()),
            "unknown" if change is None else f"{change:+,.0f} %",
        ))  # fmt: skip
    names = ("change", "95 % interval", *counted, "tokens")
    return Table(
        title=f"Against {found.baseline}",
        columns=columns("method", *(f"{name}|number" for name in names)),
        rows=tuple(rows),
    )


def _cells(found: Estimate, *, gold: bool, sign: str = "") -> tuple[str, str]:
    """Format a share in percent, or a score, and its interval."""
    times, digits, unit = (100, 0, " %") if gold else (1, 2, "")
    if found.value is None:
        return "-", "-"
    value = f"{times * found.value:{sign}.{digits}f}{unit}"
    if found.low is None or found.high is None:
        return value, "-"
    return value, f"{times * found.low:{sign}.{digits}f} to {times * found.high:{sign}.{digits}f}"
