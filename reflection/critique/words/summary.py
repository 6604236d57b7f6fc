"""Where a run of reflection stands, as the Markdown that Temporal's Web UI shows.

The numbers stand in aligned fenced blocks, since tables of the Web UI have no cell padding. It
shows about 60 columns, so reasons come last.
"""

from collections.abc import Sequence

from reflection.critique.result import Decision, Draft, Progress
from reflection.critique.words.wording import (
    STEP_WORDS,
    STOP_WORDS,
    best_of,
    change_words,
    decision_words,
    draft_words,
    feedback_words,
    judged_words,
    newest_decisions,
    origin_words,
    score_words,
    waits,
)
from reflection.text import spent_words, tally_words, terminal_safe
from reflection.words.markdown import aligned, code, escaped, fenced, review_note, unticked

NEWEST_DRAFTS = 10
MOST_SCORES = 6
MOST_FEEDBACK = 5
MOST_WARNINGS = 5
HEADER = ("#", "origin", "score", "judged", "change", "decision")


def current_details(
    progress: Progress,
    decisions: Sequence[Decision],
    trace_id: str | None = None,
    workflow_id: str | None = None,
) -> str:
    """Write the run so far in Markdown, of at most 20,000 bytes whatever the texts are.

    The newest ten drafts, five pieces of the best one's feedback and the first five warnings are
    shown, and how many were left out. `workflow_id` is for the command by which a person reviews.
    """
    blocks = [f"**{_headline(progress, decisions)}**"]
    if waits(decisions):
        blocks.append(review_note(progress.review_until, workflow_id))
    if progress.drafts:
        blocks.append(fenced(_draft_rows(progress.drafts, decisions)))
    if any(each.evaluation and each.evaluation.criteria for each in progress.drafts):
        blocks.append(fenced(_criteria_rows(progress)))
    blocks += _feedback(best_of(progress))
    blocks.append(f"Spent: {escaped(spent_words(progress.usage), 200)}")
    blocks += _listed([escaped(each, 120) for each in progress.warnings], MOST_WARNINGS, "warning")
    if trace_id:
        blocks.append(f"Trace: {code(trace_id, 64)}")
    return "\n\n".join(blocks)


def _headline(progress: Progress, decisions: Sequence[Decision]) -> str:
    revised = f"{progress.revisions} of at most {tally_words(progress.max_revisions, 'revision')}"
    about = f"{revised} · {_best(progress)}"
    if progress.stop_reason is None:
        flight = f", {tally_words(progress.in_flight, 'call')} in flight"
        return f"{STEP_WORDS[progress.step]}{flight if progress.in_flight else ''} · {about}"
    why = STOP_WORDS[progress.stop_reason]
    if decisions:
        why = f"{why}: {escaped(decisions[-1].reason, 120)}"
    return f"Stopped ({code(progress.stop_reason, 20)}): {why} · {about}"


def _best(progress: Progress) -> str:
    best = best_of(progress)
    if best is None:
        return "no draft" + ("" if progress.stop_reason else " yet")
    if best.score is None:
        return f"{draft_words(best.index)} without a score"
    threshold = f"threshold {progress.score_threshold:g}"
    return f"best is {draft_words(best.index)} with score {best.score:.2f}, {threshold}"


def _draft_rows(drafts: Sequence[Draft], decisions: Sequence[Decision]) -> list[str]:
    newest, decided = drafts[-NEWEST_DRAFTS:], newest_decisions(decisions)
    left_out = len(drafts) - len(newest)
    above = [f"({tally_words(left_out, 'earlier draft')} left out)"] if left_out else []
    rows = [_draft_row(each, decided.get(each.index)) for each in newest]
    return above + aligned([HEADER, *rows], right={0, 2, 3, 4})


def _draft_row(draft: Draft, decision: Decision | None) -> tuple[str, ...]:
    judged = draft.evaluation.judged if draft.evaluation else None
    return (
        str(draft.index + 1),
        unticked(terminal_safe(origin_words(draft), 20)),
        score_words(draft.score),
        score_words(judged) if judged_words(draft.evaluation) else "",
        change_words(draft.change),
        unticked(decision_words(decision, 48)) if decision else "",
    )


def _criteria_rows(progress: Progress) -> list[str]:
    judged = [each for each in progress.drafts if each.evaluation and each.evaluation.criteria]
    shown = judged[-MOST_SCORES:]
    header = ("criterion", "weight", *(f"#{each.index + 1}" for each in shown))
    rows = [
        (each.name, f"{each.weight:g}", *(_score_of(one, each.name) for one in shown))
        for each in progress.criteria
    ]
    return aligned([header, *rows], right=set(range(1, len(header))))


def _score_of(draft: Draft, criterion: str) -> str:
    return score_words(draft.evaluation.criteria.get(criterion) if draft.evaluation else None)


def _feedback(best: Draft | None) -> list[str]:
    if best is None or best.evaluation is None:
        return []
    caps = [f"{each.guardrail}: {each.reason}" for each in best.evaluation.guardrails]
    said = [*caps, *(feedback_words(each, 140) for each in best.evaluation.feedback)]
    lines = [escaped(each, 140) for each in said]
    listed = _listed(lines, MOST_FEEDBACK, "piece of feedback", "pieces of feedback")
    return [f"Feedback on {draft_words(best.index)}:", *listed] if said else []


def _listed(lines: Sequence[str], most: int, one: str, many: str | None = None) -> list[str]:
    if not lines:
        return []
    more = len(lines) - most
    rest = [f"({tally_words(more, f'more {one}', many and f'more {many}')} left out)"]
    return ["\n".join(f"- {each}" for each in [*lines[:most], *(rest if more > 0 else [])])]
