"""The state and decisions of a reflection run: when to reflect, revise and stop."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from mull.critique.criteria import Criterion, passes, rounded
from mull.critique.evaluation import Evaluation, Feedback
from mull.critique.request import ReflectOnResultRequest
from mull.critique.result import Decision, Draft, ReflectOnResultResult, StopReason
from mull.drafts import DraftState
from mull.run import Part, Ruling, Spending, above, at_least

STRICT_THRESHOLD = 0.95


def should_reflect(request: ReflectOnResultRequest, estimated: float | None) -> Ruling[StopReason]:
    """Decide whether a run reflects at all.

    It does not if reflection is switched off, if a synthesis step follows, or if the query's
    complexity, 0 to 1, as given or else as `estimated`, is not above `min_complexity`. With an
    unknown complexity it does.
    Source: Shannon's reflection chapter, section 11.5; 0.5 is from Shannon's code.
    """
    if not request.reflect:
        return Ruling("disabled", "reflection is switched off")
    if request.synthesis_follows:
        return Ruling("skipped", "a later synthesis step rewrites the result")
    given = request.complexity is not None
    found = request.complexity if given else estimated
    if found is None or found > request.min_complexity:
        return Ruling()
    least = f"complexity {found:.2f} is not above {request.min_complexity:g} (min_complexity)"
    return Ruling("skipped", f"the {'given' if given else 'estimated'} {least}")


def warnings(request: ReflectOnResultRequest) -> list[str]:
    """Warn about settings that cost much and gain little.

    Source: Shannon's reflection chapter, section 11.6, pitfall 1.
    """
    if request.score_threshold < STRICT_THRESHOLD:
        return []
    said = f"a score_threshold of {request.score_threshold:g} is hardly ever reached"
    return [f"{said}, so nearly every draft is revised for nothing; the default is 0.7"]


ROWS_WITHOUT_GAIN = 2


def decide(
    scores: Sequence[float], threshold: float, revisions: int, allowed: int, min_gain: float
) -> Ruling[StopReason]:
    """Decide after the newest of the scores, of which there is at least one.

    The rules, in this order: a score at the threshold passes; at most `allowed` revisions are
    made; two evaluations in a row that gain less than `min_gain` are a plateau.
    Source: Shannon's reflection chapter, sections 11.3 and 11.6; the plateau is Mull's.
    """
    score = scores[-1]
    if passes(score, threshold):
        return Ruling("passed", f"score {score:.4g} reaches {threshold:g}")
    below = f"score {score:.4g} is below {threshold:g}"
    if revisions >= allowed:
        made = f"all {allowed} revisions are used" if allowed else "no revision is allowed"
        made = "the one revision is used" if allowed == 1 else made
        return Ruling("max_revisions", f"{below}, and {made}")
    gains = [after - before for before, after in pairwise(scores)][-ROWS_WITHOUT_GAIN:]
    if len(gains) == ROWS_WITHOUT_GAIN and not any(at_least(gain, min_gain) for gain in gains):
        shown = " and ".join(f"{gain:+.3f}" for gain in gains)
        return Ruling(
            "plateau",
            f"{below}, and the last two evaluations gained {shown}, less than {min_gain:g}",
        )
    left = allowed - revisions
    return Ruling(None, f"{below}, with {left} revision{'s' if left > 1 else ''} left")


UNREVIEWED: frozenset[StopReason] = frozenset({"disabled", "skipped", "finished_by_person"})


@dataclass
class Reflection(DraftState[Decision, Draft]):
    """The drafts, evaluations, decisions and spending of a run so far.

    `criteria` are those that drafts are judged by. `allowed` is the number of revisions that may
    be made.
    """

    draft_type, decision_type, record_type = Draft, Decision, ReflectOnResultResult
    actions = ("accept", "revise", "replace", "score")

    request: ReflectOnResultRequest
    spent: dict[Part, list[Spending]] = field(
        default_factory=lambda: {"generating": [], "evaluating": [], "revising": []}
    )
    criteria: tuple[Criterion, ...] = ()
    allowed: int = 0
    complexity: float | None = None

    def __post_init__(self) -> None:
        self.criteria = self.request.judged_by
        self.allowed = self.request.max_revisions

    @property
    def judges(self) -> int:
        """The calls that judge a draft."""
        return len(self.request.panel_judges)

    def prompt(self, part: Part) -> tuple[list[str], int | None]:
        """List the texts in the prompt of a part's next call, and give its output limit, if set."""
        request, best = self.request, self.best
        if part == "evaluating":
            texts = [request.query, *request.sources, *request.material, self.drafts[-1].text]
            texts += [criterion.meaning for criterion in self.criteria]
            return texts, request.judge_max_output_tokens
        texts = request.shown
        if best is not None:
            texts += [best.text, *(point.advice for point in self.advice(best))]
        return texts, request.max_output_tokens

    @property
    def revisions(self) -> int:
        """The number of revisions made so far."""
        return sum(draft.origin == "revised" for draft in self.drafts)

    def _best(self) -> Draft | None:
        """Return the best-scored draft, the earlier of equals; the first if none was scored."""
        best = self.drafts[0] if self.drafts else None
        for draft in self.drafts:
            top = best.score if best else None
            if draft.score is not None and (top is None or above(draft.score, top)):
                best = draft
        return best

    def evaluated(self, index: int, evaluation: Evaluation) -> None:
        """Keep a draft's evaluation, with the change in score since the last evaluated one."""
        before = [draft.score for draft in self.drafts[:index] if draft.score is not None]
        score = evaluation.score
        change = rounded(score - before[-1]) if before and score is not None else None
        kept = {"evaluation": evaluation, "change": change}
        self.drafts[index] = self.drafts[index].model_copy(update=kept)
        for judgement in evaluation.judgements:
            judge, model = judgement.judge or "the judge", judgement.model
            if judgement.error and score is not None:
                self.warn(f"{judge} was left out: {judgement.error}")
            judged = judgement.score is not None and model is not None
            if judged and model == self.drafts[index].model:
                self.warn(f"{model} judged its own draft: models tend to overrate their own texts")

    def decide(self, at: datetime) -> Decision:
        """Apply the revision rule to the newest evaluation: end the run, or revise the draft."""
        newest = self.drafts[-1]
        scores = [draft.score for draft in self.drafts if draft.score is not None]
        if newest.score is None:
            why = newest.evaluation.error if newest.evaluation else "it was not judged"
            return self.stop("evaluation_failed", f"the draft could not be judged: {why}", at)
        asked = self.request
        ruling = decide(scores, asked.score_threshold, self.revisions, self.allowed, asked.min_gain)
        if ruling.stop_reason is not None:
            return self.stop(ruling.stop_reason, ruling.reason, at)
        return self.settle(None, ruling.reason, at)

    def advice(self, draft: Draft) -> tuple[Feedback, ...]:
        """Return the feedback of a draft's evaluation."""
        return draft.evaluation.feedback if draft.evaluation else ()

    def _waits(self, reason: StopReason) -> str | None:
        """Explain why a person has to review the result; None if no review is needed."""
        bar, best = self.request.review_below, self.best
        if bar is None or best is None or reason in UNREVIEWED:
            return None
        if best.score is None:
            return "a draft without a score waits for a review"
        return None if passes(best.score, bar) else f"a score below {bar:g} waits for a review"

    def _compared(self) -> dict[str, Any]:
        newest, best = self.drafts[-1] if self.drafts else None, self.best
        return {
            "draft": newest.index if newest else None,
            "score": newest.score if newest else None,
            "judged": newest.evaluation.judged if newest and newest.evaluation else None,
            "change": newest.change if newest else None,
            "threshold": self.request.score_threshold,
            "best": best.index if best else None,
            "best_score": best.score if best else None,
            "revisions": self.revisions,
        }

    def _shown(self) -> dict[str, Any]:
        best = self.best
        evaluations = [draft.evaluation for draft in self.drafts if draft.evaluation]
        judgements = [one for evaluation in evaluations for one in evaluation.judgements]
        models = (judgement.model for judgement in judgements if judgement.score is not None)
        return {
            **super()._shown(),
            "query": self.request.query,
            "draft": best.text if best else None,
            "score": best.score if best else None,
            "score_threshold": self.request.score_threshold,
            "revisions": self.revisions,
            "max_revisions": self.allowed,
            "criteria": self.criteria,
            # In the order of the panel.
            "judges": tuple(dict.fromkeys(model for model in models if model)),
            "complexity": self.complexity,
        }


def grant(state: Reflection, asked: str, author: str, at: datetime) -> Decision:
    """Grant a person exactly one more revision."""
    state.granted += 1
    state.allowed = state.revisions + 1
    return state.settle(None, "a person asked for a revision", at, author, asked=asked)


def score(state: Reflection, given: float, author: str) -> None:
    """Set the best draft's score, 0 to 1, to a person's."""
    best = state.best
    if best is None:
        return
    known = best.evaluation or Evaluation()
    own = known.model_copy(update={"score": given, "author": author, "error": None})
    state.drafts[best.index] = best.model_copy(update={"evaluation": own, "change": None})
    state.chosen = best.index
