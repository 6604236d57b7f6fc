"""The record of a reflection run: its drafts, its decisions, and its result."""

from typing import Annotated, ClassVar, Literal

from mull.critique.criteria import Criterion, passes
from mull.critique.evaluation import Evaluation
from mull.drafts import NO_ANSWER, PlainDraft, RunRecord
from mull.run import Decided
from mull.text import Shown, place, with_sign

StopReason = Literal[
    "passed",
    "max_revisions",
    "plateau",
    "budget",
    "deadline",
    "disabled",
    "skipped",
    "accepted_by_person",
    "replaced_by_person",
    "scored_by_person",
    "review_timeout",
    "evaluation_failed",
    "revision_failed",
    "finished_by_person",
]
NEEDS_NO_SCORE = frozenset({"disabled", "skipped", "accepted_by_person", "replaced_by_person"})
Origin = Literal["given", "generated", "revised", "replaced"]


class Draft(PlainDraft):
    """One draft and its evaluation.

    `revises` is the index of the draft that it is a revision of. `change` is its score less that
    of the draft evaluated before it.
    """

    origin: Origin
    revises: int | None = None
    evaluation: Evaluation | None = None
    change: Annotated[float | None, Shown("change", with_sign)] = None

    @property
    def score(self) -> float | None:
        """The score of its evaluation, or None."""
        return self.evaluation.score if self.evaluation else None

    @property
    def doubt(self) -> str:
        """Say why not to build on it: it was cut off, or no judge was sure and no person scored it.

        The confidence is the judges' own: a guardrail lowers that of a right answer of one line.
        """
        judged = self.evaluation if self.evaluation and self.evaluation.author is None else None
        panel = judged.judgements if judged else ()
        unsure = {one.confidence for one in panel if one.score is not None} == {"low"}
        return super().doubt or ("no judge was sure of its score" if unsure else "")


class Decision(Decided):
    """A decision after an evaluation, or by a bound, a failure or a person, with its numbers.

    `draft` is the index of the draft decided on. `score` is compared with `threshold`. `best` is
    the index of the best draft so far. `waits_for_review` is true if a person is asked next, so the
    run goes on. `asked` is the change that a person requested, in their words.
    """

    next: ClassVar[str] = "revise"

    draft: Annotated[int | None, Shown("after draft|number", place)]
    score: Annotated[float | None, Shown("score|number")]
    judged: Annotated[float | None, Shown("judged|number|extra")]
    change: Annotated[float | None, Shown("change|extra", with_sign)]
    threshold: float
    best: Annotated[int | None, Shown("best|number|extra", place)]
    best_score: Annotated[float | None, Shown("best score|number|extra")]
    revisions: Annotated[int, Shown("revisions|number|extra")]
    stop_reason: StopReason | None
    waits_for_review: bool = False
    asked: str | None = None


class ReflectOnResultResult(RunRecord):
    """The best draft, why reflection stopped, and what it cost.

    `draft` is the text of the best-scored draft (`best` is its index), the earlier of equals; the
    first one if none was scored; a person's text if they replaced it; None if the run ended before
    the first draft. `score` is 0 to 1, None if there is none. `complexity` is the query's, 0 to 1,
    if it was estimated or given. `max_revisions` counts those that people asked for, too.
    """

    answer_field = "draft"

    draft: str | None
    score: float | None
    best: int | None
    stop_reason: StopReason | None = None
    drafts: tuple[Draft, ...]
    decisions: tuple[Decision, ...]
    revisions: int
    query: str
    judges: Annotated[tuple[str, ...], Shown("judged by", ", ".join)]
    criteria: tuple[Criterion, ...]
    score_threshold: Annotated[float, Shown("threshold", "{:g}".format)]
    complexity: float | None = None
    max_revisions: int | None = None

    @property
    def doubt(self) -> str:
        """Say why not to build on the draft; empty if a person accepted it.

        It needs a score where the run gives one, all of its text, and a judge who is sure.
        """
        if self.best is None:
            return self.because(NO_ANSWER)
        if self.score is None and self.stop_reason not in NEEDS_NO_SCORE:
            return self.because("no judge has scored the draft")
        accepted = self.stop_reason == "accepted_by_person"
        return "" if accepted else self.drafts[self.best].doubt

    def below(self, bar: float) -> str | None:
        """Explain how the score misses a required bar, as no score does; None if it meets it."""
        if self.score is None:
            return f"no score shows that the draft reaches {bar:g}"
        if not passes(self.score, bar):
            return f"score {self.score:.2f} is below {bar:g}"
        return None
