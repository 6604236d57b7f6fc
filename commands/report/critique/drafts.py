"""The drafts: a table of all, and each with what was said of it."""

from collections.abc import Sequence

from commands.report.parts import Html, facts, html, joined, table
from reflection.critique.evaluation import Cap, Evaluation, Feedback, Judgement
from reflection.critique.result import Draft
from reflection.critique.words.wording import (
    change_words,
    draft_words,
    judged_words,
    origin_words,
    score_words,
)
from reflection.text import spent_words


def drafts_table(given: Sequence[Draft], best: int | None) -> Html:
    """Draw every draft on one line: where it is from, its score, its change, its length."""
    headers = ("#", "origin", "score", "how it came to be", "change", "characters", "model")
    rows = [_row(each, best) for each in given]
    return table(headers, rows, "The drafts in their order") if rows else Html("")


def drafts(given: Sequence[Draft], best: int | None) -> Html:
    """Draw each draft, folded up: its text, its evaluation, where it came from."""
    return joined(_draft(each, best) for each in given)


def _row(draft: Draft, best: int | None) -> tuple[str, ...]:
    chosen = Html(" <strong>best</strong>") if draft.index == best else ""
    judged = judged_words(draft.evaluation)
    return (
        Html(f"{draft.index + 1}{chosen}"),
        _own(origin_words(draft)),
        score_words(draft.score),
        judged,
        change_words(draft.change),
        f"{len(draft.text):,}",
        _own(draft.model or "-"),
    )


def _draft(draft: Draft, best: int | None) -> Html:
    chosen = ", best" if draft.index == best else ""
    head = html(f"{draft_words(draft.index)}, {origin_words(draft)}{chosen}")
    score = f"score {score_words(draft.score)}" if draft.score is not None else "no score"
    parts = [
        Html(f'<div class="draft"><bdi>{html(draft.text)}</bdi></div>'),
        _evaluation(draft.evaluation) if draft.evaluation else Html("<p>Not evaluated.</p>"),
        facts(_origin(draft)),
    ]
    summary = f'<summary>{head} <span class="by">{score}</span></summary>'
    return Html(f"<details>{summary}{joined(parts)}</details>")


def _evaluation(evaluation: Evaluation) -> Html:
    failed = evaluation.error and f'<p class="error">{html(evaluation.error)}</p>'
    judged = judged_words(evaluation)
    parts = [
        Html(failed or ""),
        Html(f"<p>{html(judged)}</p>" if judged else ""),
        _guardrails(evaluation.guardrails),
        _feedback(evaluation.feedback),
        _judgements(evaluation),
    ]
    return joined(each for each in parts if each)


def _feedback(given: Sequence[Feedback]) -> Html:
    rows = [
        (
            each.criterion or "-",
            _own(each.place or "-"),
            _own(each.advice),
            _own(each.judge or "-"),
        )
        for each in given
    ]
    return table(("criterion", "place", "advice", "by"), rows, "Feedback") if rows else Html("")


def _guardrails(caps: Sequence[Cap]) -> Html:
    rows = [
        (each.guardrail, f"{each.cap:g}", f"{each.above:g}", _own(each.reason)) for each in caps
    ]
    headers = ("guardrail", "caps at", "scores above", "because")
    return table(headers, rows, "Guardrails that found something") if rows else Html("")


def _judgements(evaluation: Evaluation) -> Html:
    names = list(dict.fromkeys(name for one in evaluation.judgements for name in one.scores or {}))
    headers = ("judge", "score", *names, "confidence", "replies", "left out because")
    rows = [_judgement(each, names) for each in evaluation.judgements]
    spread = "" if evaluation.spread is None else f", spread {evaluation.spread:.2f}"
    return table(headers, rows, f"The panel{spread}") if rows else Html("")


def _judgement(each: Judgement, names: Sequence[str]) -> tuple[str, ...]:
    scores = each.scores or {}
    return (
        _own(each.judge or each.model or "the worker's own"),
        score_words(each.score),
        *(score_words(scores.get(name)) for name in names),
        each.confidence or "-",
        str(each.replies),
        _own(each.error or ""),
    )


def _origin(draft: Draft) -> list[tuple[str, str]]:
    moment = draft.timestamp
    found = [
        ("revises", None if draft.revises is None else draft_words(draft.revises)),
        ("author", draft.author),
        ("model", draft.model),
        ("seed", None if draft.seed is None else str(draft.seed)),
        ("finish reason", draft.finish_reason),
        ("cut", "to what a result can hold" if draft.cut else None),
        ("at", f"{moment:%Y-%m-%d %H:%M:%S %Z}" if moment else None),
        ("attempts", str(draft.attempts)),
        ("spent", spent_words(draft.spending) if draft.spending else None),
    ]
    return [(name, value) for name, value in found if value is not None]


def _own(words: str) -> Html:
    """Keep words of outside apart in reading order, and let them wrap."""
    return Html(f"<bdi>{html(words)}</bdi>")
