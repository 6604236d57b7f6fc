"""One run of reflection, folded draft by draft: the state that queries return."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reflection.budget import Budget, refusal
from reflection.critique.criteria import Criterion, rounded
from reflection.critique.evaluation import Evaluation, Feedback
from reflection.critique.request import ReflectOnResultRequest
from reflection.critique.result import Decision, Draft, StopReason
from reflection.critique.rule import TOLERANCE, decide, passes
from reflection.usage import Part, Spending

UNREVIEWED: frozenset[StopReason] = frozenset({"disabled", "skipped", "finished_by_person"})


@dataclass
class Reflection:
    """The drafts, evaluations, decisions and spending of a run so far.

    `criteria` are what the drafts are judged by. `allowed` is the number of revisions that may be
    made, and `granted` how many of them people asked for. `chosen` is the draft that a person
    scored, or put in the place of the best one.
    """

    request: ReflectOnResultRequest
    drafts: list[Draft] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    spent: dict[Part, list[Spending]] = field(
        default_factory=lambda: {"generating": [], "evaluating": [], "revising": []}
    )
    retried: int = 0
    cancelled: int = 0
    granted: int = 0
    criteria: tuple[Criterion, ...] = ()
    allowed: int = 0
    warnings: list[str] = field(default_factory=list)
    complexity: float | None = None
    chosen: int | None = None

    def __post_init__(self) -> None:
        self.criteria = self.request.judged_by
        self.allowed = self.request.max_revisions

    @property
    def last(self) -> Decision | None:
        """The newest decision."""
        return self.decisions[-1] if self.decisions else None

    @property
    def stopped(self) -> bool:
        """Whether the newest decision ends the run."""
        return self.last is not None and self.last.stop

    @property
    def revisions(self) -> int:
        """The revisions that were made."""
        return sum(each.origin == "revised" for each in self.drafts)

    @property
    def best(self) -> Draft | None:
        """The best-scored draft, the latest among equals; the first where none was scored."""
        if self.chosen is not None:
            return self.drafts[self.chosen]
        best = self.drafts[0] if self.drafts else None
        for each in self.drafts:
            top = best.score if best else None
            if each.score is not None and (top is None or each.score >= top - TOLERANCE):
                best = each
        return best

    def no_room(self, part: Part) -> str | None:
        """Say why the budget has no room for the next call of a part; None where it has."""
        everything = [each for spendings in self.spent.values() for each in spendings]
        budget = Budget(self.request.budget_tokens, self.request.budget_usd)
        return refusal(budget, everything, self.spent[part])

    def warn(self, warning: str) -> None:
        """Keep a warning for the result, once."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def pay(self, part: Part, spending: Spending | None, attempts: int) -> None:
        """Count a reply, and the attempts before it that brought none."""
        self.retried += attempts - (spending is not None)
        if spending is not None:
            self.spent[part].append(spending)

    def lose(self, calls: int) -> None:
        """Count calls that were cancelled before their reply came."""
        self.cancelled += calls

    def left_out(self, names: Sequence[str]) -> None:
        """Warn of parameters that a provider does not take."""
        for name in names:
            self.warn(f"the provider does not take {name}, which was left out")

    def evaluated(self, index: int, evaluation: Evaluation) -> None:
        """Keep a draft's evaluation, with its change in score from the one evaluated before it."""
        before = [each.score for each in self.drafts[:index] if each.score is not None]
        score = evaluation.score
        change = rounded(score - before[-1]) if before and score is not None else None
        kept = {"evaluation": evaluation, "change": change}
        self.drafts[index] = self.drafts[index].model_copy(update=kept)
        for each in evaluation.judgements:
            if each.error and score is not None:
                self.warn(f"{each.judge or 'the judge'} was left out: {each.error}")
            judged = each.score is not None and each.model is not None
            if judged and each.model == self.drafts[index].model:
                self.warn(
                    f"{each.model} judges what it wrote: models tend to score their own texts high"
                )

    def decide(self, at: datetime) -> Decision:
        """Decide by the rule after the newest evaluation: the run ends, or the draft is revised."""
        newest = self.drafts[-1]
        scores = [each.score for each in self.drafts if each.score is not None]
        if newest.score is None:
            why = newest.evaluation.error if newest.evaluation else "nobody judged it"
            return self.stop("evaluation_failed", f"the draft could not be judged: {why}", at)
        verdict = decide(
            scores,
            self.request.score_threshold,
            self.revisions,
            self.allowed,
            self.request.min_gain,
        )
        if verdict.stop_reason is not None:
            return self.stop(verdict.stop_reason, verdict.reason, at)
        return self.go_on(verdict.reason, at)

    def go_on(
        self,
        explanation: str,
        at: datetime,
        author: str | None = None,
        asked: str | None = None,
    ) -> Decision:
        """Go on with a revision, by the rule or as a person asked, in their words."""
        return self._record(None, explanation, at, author, asked=asked)

    def stop(
        self, reason: StopReason, explanation: str, at: datetime, author: str | None = None
    ) -> Decision:
        """End the run, unless a person shall first say what becomes of its result."""
        why = self._waits(reason)
        said = f"{explanation}; {why}" if why else explanation
        return self._record(reason, said, at, author, waits=why is not None)

    def settle(
        self, reason: StopReason, explanation: str, at: datetime, author: str | None = None
    ) -> Decision:
        """End the run by what a person said, or by the end of the wait for one."""
        return self._record(reason, explanation, at, author)

    def advice(self, draft: Draft) -> tuple[Feedback, ...]:
        """What is to be changed in a draft, by its evaluation."""
        return draft.evaluation.feedback if draft.evaluation else ()

    def _waits(self, reason: StopReason) -> str | None:
        """Say why a person shall look at the result; None where nobody need."""
        bar, best = self.request.review_below, self.best
        if bar is None or best is None or reason in UNREVIEWED:
            return None
        if best.score is None:
            return "a draft without a score waits for a review"
        return None if passes(best.score, bar) else f"a score below {bar:g} waits for a review"

    def _record(
        self,
        reason: StopReason | None,
        explanation: str,
        at: datetime,
        author: str | None = None,
        *,
        waits: bool = False,
        asked: str | None = None,
    ) -> Decision:
        newest, best = self.drafts[-1] if self.drafts else None, self.best
        judged = newest.evaluation.judged if newest and newest.evaluation else None
        decision = Decision(
            draft=newest.index if newest else None,
            score=newest.score if newest else None,
            judged=judged,
            change=newest.change if newest else None,
            threshold=self.request.score_threshold,
            best=best.index if best else None,
            best_score=best.score if best else None,
            revisions=self.revisions,
            stop=reason is not None and not waits,
            stop_reason=reason,
            reason=explanation,
            author=author,
            at=at,
            waits_for_review=waits,
            asked=asked,
        )
        self.decisions.append(decision)
        return decision
