"""What a comparison found: the numbers, what is to be said with them, and the document."""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from commands.measuring.methods.outcomes import Answered
from commands.measuring.methods.plan import Plan
from commands.rendering.panel import EMBEDDED
from reflection.batch.result import BatchResult
from reflection.critique.worth.comparison import compare
from reflection.critique.worth.cost import EVALUATION, SOURCE_COSTS
from reflection.critique.worth.records import Comparison, Outcome
from reflection.run import Spending, total
from reflection.text import tally_words, terminal_safe, usd

RESAMPLES = 1_000
FEW = 50


class Findings(NamedTuple):
    """A comparison with all that it rests on; `scoring` are the batches that scored the answers."""

    identity: str
    plan: Plan
    answers: Sequence[Answered]
    outcomes: Sequence[Outcome]
    batch: BatchResult
    scoring: Sequence[BatchResult]
    comparison: Comparison

    @property
    def all_failed(self) -> bool:
        """Whether no method gave any answer."""
        return all(each.failed for each in self.answers)

    @property
    def tokens_change(self) -> float | None:
        """The tokens of `reflect` against `single`, in percent."""
        paired = (each for each in self.comparison.paired if each.method == "reflect")
        found = next(paired, None)
        return found.tokens_change if found and found.baseline == "single" else None

    def warnings(self) -> list[str]:
        """Say what a reader of the numbers has to know."""
        return list(_warnings(self))

    def costs(self) -> list[str]:
        """Hold what reflection cost here beside the source's table."""
        return list(_cost(self))

    def document(self) -> dict[str, Any]:
        """Put all of it together for a machine; the numbers can be computed again from it."""
        return {
            "id": self.identity,
            "questions": len(self.plan.questions),
            "seed": self.plan.seed,
            "comparison": self.comparison.model_dump(mode="json"),
            "outcomes": [
                _row(answer, outcome)
                for answer, outcome in zip(self.answers, self.outcomes, strict=True)
            ],
            "batch": self.batch.model_dump(mode="json", exclude={"runs"}),
            "scoring": [each.model_dump(mode="json", exclude={"runs"}) for each in self.scoring],
            "chapter": [each.model_dump(mode="json") for each in SOURCE_COSTS],
            "warnings": self.warnings(),
        }


def find(
    identity: str,
    plan: Plan,
    answers: Sequence[Answered],
    outcomes: Sequence[Outcome],
    batch: BatchResult,
    scoring: Sequence[BatchResult],
) -> Findings:
    """Compare the methods; the same outcomes give the same intervals."""
    chance, size = Random(0), len(plan.questions)  # noqa: S311 - no secret
    resamples = (chance.choices(range(size), k=size) for _ in range(RESAMPLES))
    order = {method: place for place, method in enumerate(plan.methods)}
    ordered = sorted(outcomes, key=lambda each: (order[each.method], each.question))
    comparison = compare(size, ordered, resamples)
    return Findings(identity, plan, answers, outcomes, batch, scoring, comparison)


def _row(answer: Answered, outcome: Outcome) -> dict[str, Any]:
    run = answer.read.run
    return {
        **outcome.model_dump(mode="json"),
        "answer": answer.answer,
        "revisions": answer.revisions,
        "status": run.status,
        "error": run.error,
        "workflow_id": run.workflow_id,
    }


def _warnings(found: Findings) -> Iterator[str]:
    plan = found.plan
    for each in sorted(_models(found)):
        if each.startswith(EMBEDDED):
            yield f"{each} is the embedded toy model: what it writes and judges is noise."
    size = len(plan.questions)
    if size < FEW:
        yield f"{tally_words(size, 'question')} are few: mind the intervals and p."
    unknown = sum(each.gold is None for each in plan.questions)
    if plan.has_gold and unknown:
        yield f"{tally_words(unknown, 'question')} without gold count for the cost alone."
    if _judges(found) & {each.read.result.model for each in found.answers if each.read.result}:
        yield "The judge wrote what it judges: models tend to score their own texts high."
    unjudged = Counter(
        each.read.result.stop_explanation
        for each in found.answers
        if getattr(each.read.result, "stop_reason", None) == "evaluation_failed"
    )
    for said, count in unjudged.most_common(3):
        yield f"{tally_words(count, 'run')} by reflect stopped unjudged: {terminal_safe(said, 200)}."
    if not plan.has_gold and "reflect" in plan.methods:
        yield "No gold: the judge that scores is the one that reflect's drafts were revised for."
    yield from _unmade(found)
    yield from found.batch.warnings


def _judges(found: Findings) -> set[str]:
    return {name for each in found.answers for name in getattr(each.read.result, "judges", ())}


def _models(found: Findings) -> set[str]:
    """Name all that wrote or judged, also where the worker chose them."""
    results = [each.read.result for each in found.answers if each.read.result is not None]
    named = {name for each in results for name in (each.model, *getattr(each, "judges", ()))}
    return {name for name in (found.plan.model, *found.plan.judges, *named) if name}


def _unmade(found: Findings) -> Iterator[str]:
    for batch in (found.batch, *found.scoring):
        if batch.stop_reason != "completed":
            left = batch.not_started + batch.cancelled
            yield f"{tally_words(left, 'run')} not made: {batch.stop_explanation}."
    kept = sum(each.read.run.status == "completed" for each in found.answers)
    if found.batch.completed > kept:
        gone = tally_words(found.batch.completed - kept, "result")
        yield f"{gone} not kept any more by the server, and left out."
    failed = [each.read.run for each in found.answers if each.failed]
    said = Counter((each.variant, each.error or "no answer") for each in failed)
    for (method, error), count in said.most_common(3):
        yield (
            f"{tally_words(count, 'run')} by {method} failed, and count as wrong, or 0: "
            + terminal_safe(error, 200)
        )


def _counted(batch: BatchResult) -> dict[str, int]:
    return {} if batch.tokens is None else {"input_tokens": batch.tokens, "output_tokens": 0}


def _cost(found: Findings) -> Iterator[str]:
    if found.scoring:
        spent = total(Spending(cost_usd=each.cost_usd, **_counted(each)) for each in found.scoring)
        said = "tokens unknown" if spent.tokens is None else f"{spent.tokens:,} tokens"
        yield f"Measuring took another {said}, cost {usd(spent.cost_usd)}, not in the table."
    if found.tokens_change is None:
        return
    revised = [each.revisions for each in found.answers if each.read.run.variant == "reflect"]
    known = [each for each in revised if each is not None]
    many = f", with {fmean(known):.2f} revisions a question" if known else ""
    yield f"Tokens of reflect against single: {found.tokens_change:+,.0f} %{many}."
    single, reflect = SOURCE_COSTS
    scored = reflect.total + EVALUATION
    change = 100 * (scored - single.total) / single.total
    yield (
        f"The chapter's table: {single.total:,} to {reflect.total:,}, +{int(reflect.change)} %, for"
        " one revision. Mull also scores the revision, which for the table's numbers makes"
        f" {scored:,}, +{change:.0f} %."
    )
