"""What each method made of each question: an answer, right or wrong, and what it cost."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from commands.measuring.batches.reading import Read
from commands.measuring.methods.plan import Plan
from reflection.convergence.result import SelfConsistencyResult
from reflection.critique.result import ReflectOnResultResult
from reflection.critique.worth.records import Outcome
from reflection.sampling.answers import read_answer
from reflection.sampling.marks import find_marked

Given = SelfConsistencyResult | ReflectOnResultResult


class Answered(NamedTuple):
    """One method's answer to one question; `text` is whole, `answer` the form that is compared."""

    read: Read
    text: str | None
    answer: str | None
    revisions: int | None

    @property
    def failed(self) -> bool:
        """Whether there is no answer at all."""
        return self.text is None


def answered(plan: Plan, reads: Sequence[Read]) -> list[Answered]:
    """List the answers of all runs that were made.

    Those not started, or cancelled, have none, and those whose result is not kept any more are not
    known to have had one.
    """
    made = [each for each in reads if each.result is not None or each.run.status == "failed"]
    return [_answered(plan, each) for each in made]


def outcomes(
    plan: Plan, answers: Sequence[Answered], scores: Mapping[tuple[int, str], float | None]
) -> list[Outcome]:
    """Hold answers against the right ones, or give them their scores.

    A run without an answer is wrong, or worth 0, as it is for whoever asked.
    """
    return [_outcome(plan, each, scores) for each in answers]


def _answered(plan: Plan, read: Read) -> Answered:
    result: Given | None = read.result
    if result is None:
        return Answered(read, None, None, None)
    if isinstance(result, SelfConsistencyResult):
        final = result.final_answer
        return Answered(read, final, read_answer(plan.answers, final), None)
    marked = find_marked(result.draft or "") if plan.has_gold else None
    form = read_answer(plan.answers, marked.answer) if marked else None
    return Answered(read, result.draft, form, result.revisions)


def _outcome(plan: Plan, each: Answered, scores: Mapping[tuple[int, str], float | None]) -> Outcome:
    run, gold = each.read.run, plan.questions[each.read.run.item].gold
    return Outcome(
        question=run.item,
        method=run.variant,
        right=None if gold is None else each.answer == gold,
        score=0.0 if each.failed else scores.get((run.item, run.variant)),
        tokens=run.tokens,
        cost_usd=run.cost_usd,
        seconds=each.read.seconds,
    )
