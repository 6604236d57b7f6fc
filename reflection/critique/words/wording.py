"""The words by which a run of reflection is shown, the same everywhere."""

from collections.abc import Mapping, Sequence

from reflection.critique.evaluation import Cap, Evaluation, Feedback
from reflection.critique.result import Decision, Draft, Progress, Step, StopReason
from reflection.text import terminal_safe

STOP_WORDS: Mapping[StopReason, str] = {
    "passed": "the threshold is reached",
    "max_revisions": "no revision is left",
    "plateau": "revisions gain too little",
    "budget": "the budget is spent",
    "deadline": "the time is up",
    "disabled": "reflection is switched off",
    "skipped": "the query does not call for reflection",
    "accepted_by_person": "a person accepted the draft",
    "replaced_by_person": "a person put another text in its place",
    "scored_by_person": "a person scored the draft",
    "review_timeout": "nobody reviewed the draft in time",
    "evaluation_failed": "the evaluation failed",
    "revision_failed": "the revision failed",
    "finished_by_person": "a person ended the run",
}
STEP_WORDS: Mapping[Step, str] = {
    "starting": "Starting",
    "writing": "Writing the first draft",
    "evaluating": "Evaluating",
    "revising": "Revising",
    "waiting_for_review": "Waiting for a person's review",
    "finished": "Finished",
}


def score_words(score: float | None) -> str:
    """Write a score from 0 to 1; a dash where there is none."""
    return "-" if score is None else f"{score:.2f}"


def change_words(change: float | None) -> str:
    """Write a change in score with its sign; nothing where there is none."""
    return "" if change is None else f"{change:+.2f}"


def draft_words(index: int | None) -> str:
    """Name a draft, counted from 1."""
    return "no draft" if index is None else f"draft {index + 1}"


def origin_words(draft: Draft) -> str:
    """Say where a draft is from, and which person is behind it."""
    return f"{draft.origin} by {terminal_safe(draft.author, 24)}" if draft.author else draft.origin


def model_words(draft: Draft) -> str:
    """Name the model that wrote a draft; a dash where none did."""
    return terminal_safe(draft.model or "-", 60)


def caps_that_held(evaluation: Evaluation) -> list[Cap]:
    """List the guardrails by which a score is lower than the judges' was."""
    score, judged = evaluation.score, evaluation.judged
    if score is None or judged is None or evaluation.author or score >= judged:
        return []
    return [each for each in evaluation.guardrails if judged > each.above]


def judged_words(evaluation: Evaluation | None) -> str:
    """Say that the judges' score was another one, and who made it so; nothing where it was not."""
    if evaluation is None or evaluation.score is None:
        return ""
    judged = "" if evaluation.judged is None else f"judged {evaluation.judged:.2f}"
    if evaluation.author:
        by = f"scored by {terminal_safe(evaluation.author, 24)}"
        return f"{by}, {judged}" if judged else by
    names = ", ".join(terminal_safe(each.guardrail, 40) for each in caps_that_held(evaluation))
    return f"{judged}, capped by {names}" if names else ""


def criteria_words(evaluation: Evaluation | None) -> str:
    """Write the scores by criterion on one line."""
    if evaluation is None:
        return ""
    return " ".join(
        f"{terminal_safe(name, 40)} {value:.2f}" for name, value in evaluation.criteria.items()
    )


def outcome_words(decision: Decision) -> str:
    """Say in a word what was decided."""
    if decision.stop:
        return "stop"
    return "review" if decision.waits_for_review else "revise"


def by_words(decision: Decision) -> str:
    """Name the person who decided; nothing where that was no person."""
    return f"by {terminal_safe(decision.author, 24)}" if decision.author else ""


def decision_words(decision: Decision, most: int) -> str:
    """Say what was decided, why, and by whom, on one line; the reason has `most` columns."""
    reason = f"{decision.reason}: {decision.asked}" if decision.asked else decision.reason
    said = f"{outcome_words(decision)}: {terminal_safe(reason, most)}"
    named = decision.author and decision.author in decision.reason
    return said if named or not decision.author else f"{said} ({by_words(decision)})"


def feedback_words(feedback: Feedback, most: int) -> str:
    """Write a piece of feedback on one line: its criterion, its place in the draft, the advice.

    What a guardrail or a person says has no criterion, and their name in its place.
    """
    place = f'at "{terminal_safe(feedback.place, most // 3)}"' if feedback.place else ""
    about = ", ".join(
        each
        for each in (terminal_safe(feedback.criterion or feedback.judge or "", 40), place)
        if each
    )
    return terminal_safe(f"{about}: {feedback.advice}" if about else feedback.advice, most)


def draft_of(drafts: Sequence[Draft], index: int | None) -> Draft | None:
    """Find a draft by its index."""
    return next((each for each in drafts if each.index == index), None)


def best_of(progress: Progress) -> Draft | None:
    """Find the best draft so far; the first one where none was scored."""
    found = draft_of(progress.drafts, progress.best)
    return found or next(iter(progress.drafts), None)


def newest_decisions(decisions: Sequence[Decision]) -> dict[int, Decision]:
    """Map the index of each draft to the newest decision after it."""
    return {each.draft: each for each in decisions if each.draft is not None}


def waits(decisions: Sequence[Decision]) -> bool:
    """Tell whether a run waits for a person."""
    return bool(decisions) and decisions[-1].waits_for_review
