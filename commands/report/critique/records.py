"""The scores by criterion and the decisions as tables."""

from collections.abc import Sequence

from commands.report.parts import Html, html, table
from reflection.critique.criteria import Criterion
from reflection.critique.result import Decision, Draft
from reflection.critique.words.wording import (
    by_words,
    change_words,
    draft_words,
    outcome_words,
    score_words,
)


def criteria_table(given: Sequence[Draft], criteria: Sequence[Criterion]) -> Html:
    """Draw the score of each draft by each criterion, with what that means."""
    judged = [each for each in given if each.evaluation and each.evaluation.criteria]
    headers = ("criterion", "weight", *(draft_words(each.index) for each in judged), "meaning")
    rows = [
        (
            each.name,
            f"{each.weight:g}",
            *(_score(one, each.name) for one in judged),
            Html(f'<span class="reason">{html(each.meaning)}</span>'),
        )
        for each in criteria
    ]
    return table(headers, rows, "Scores by criterion, 0 to 1") if judged else Html("")


def decisions_table(decisions: Sequence[Decision]) -> Html:
    """Draw every decision with the numbers it rests on."""
    headers = (
        "after draft", "score", "judged", "change", "best", "revisions", "decision",
        "reason", "at",
    )  # fmt: skip
    rows = [_decision(each) for each in decisions]
    return table(headers, rows, "Decisions in their order") if rows else Html("")


def _decision(decision: Decision) -> tuple[str, ...]:
    best = "-" if decision.best is None else f"{decision.best + 1}"
    moment = decision.at
    return (
        "-" if decision.draft is None else str(decision.draft + 1),
        score_words(decision.score),
        score_words(decision.judged),
        change_words(decision.change),
        best if decision.best_score is None else f"{best} ({decision.best_score:.2f})",
        str(decision.revisions),
        _outcome(decision),
        Html(f'<span class="reason">{html(decision.reason)}</span>'),
        f"{moment:%Y-%m-%d %H:%M:%S %Z}" if moment else "-",
    )


def _outcome(decision: Decision) -> Html:
    why = f": {decision.stop_reason}" if decision.stop_reason else ""
    words = html(f"{outcome_words(decision)}{why} {by_words(decision)}".rstrip())
    return Html(f"<strong>{words}</strong>") if decision.stop else words


def _score(draft: Draft, criterion: str) -> str:
    return score_words(draft.evaluation.criteria.get(criterion) if draft.evaluation else None)
