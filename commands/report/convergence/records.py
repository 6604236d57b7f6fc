"""The records of a run as tables: votes, decisions, and each response."""

from collections.abc import Sequence

from commands.report.parts import Html, facts, html, joined, table
from reflection.convergence.words.wording import (
    answer_words,
    by_words,
    lead_words,
    number_words,
    outcome_words,
    ranked,
)
from reflection.sampling.result import Decision, Response, SelfConsistencyResult
from reflection.text import spent_words, tally_words

ANSWER_COLUMNS = 200


def votes_table(result: SelfConsistencyResult) -> Html:
    """Draw the votes of each answer as bars, most votes first."""
    rows = [
        (_answer(answer), str(count), f"{share:.2f}", _bar(share))
        for answer, count, share in ranked(result.answer_distribution, result.valid_responses)
    ]
    unread = result.total_responses - result.valid_responses
    if unread:
        rows.append((_answer(None), "0", "0.00", html(tally_words(unread, "answer"))))
    return (
        table(("answer", "votes", "share", ""), rows, "Answers and their votes")
        if rows
        else Html("")
    )


def decisions_table(decisions: Sequence[Decision]) -> Html:
    """Draw every decision with the numbers it rests on."""
    headers = (
        "#", "wave", "vote", "leader", "leading votes", "confidence", "entropy",
        "normalized entropy", "decision", "reason",
    )  # fmt: skip
    rows = [_decision(each) for each in decisions]
    return table(headers, rows, "One decision after each answer") if rows else Html("")


def responses(given: Sequence[Response]) -> Html:
    """Draw each response, folded up: its answer, its reasoning or error, where it came from."""
    return joined(_response(each) for each in given)


def _decision(decision: Decision) -> tuple[str, ...]:
    return (
        number_words(decision),
        str(decision.wave),
        _answer(decision.vote) if decision.index is not None else "-",
        _answer(decision.leader) if decision.leader is not None else "none",
        lead_words(decision),
        f"{decision.confidence:.2f}",
        f"{decision.entropy:.2f}",
        f"{decision.normalized_entropy:.2f}",
        _outcome(decision),
        Html(f'<span class="reason">{html(decision.reason)}</span>'),
    )


def _outcome(decision: Decision) -> Html:
    words = html(f"{outcome_words(decision)} {by_words(decision)}".rstrip())
    return Html(f"<strong>{words}</strong>") if decision.stop else words


def _response(response: Response) -> Html:
    by = Html(f' <span class="by">by {html(response.author)}</span>') if response.author else ""
    failed = Html(' <span class="by">failed</span>') if response.error else ""
    head = f"{response.index + 1}. {_answer(response.answer)}{by}{failed}"
    error = Html(f'<p class="error">{html(response.error)}</p>') if response.error else ""
    reasoning = (
        Html(f'<p class="reasoning">{html(response.reasoning)}</p>') if response.reasoning else ""
    )
    inside = joined(each for each in (error, reasoning, facts(_origin(response))) if each)
    return Html(f"<details><summary>{head}</summary>{inside}</details>")


def _origin(response: Response) -> list[tuple[str, str]]:
    moment = response.timestamp
    found = [
        ("voted", _answer(response.vote)),
        ("author", response.author),
        ("model", response.model),
        ("seed", None if response.seed is None else str(response.seed)),
        ("finish reason", response.finish_reason),
        ("at", f"{moment:%Y-%m-%d %H:%M:%S %Z}" if moment else None),
        ("attempts", str(response.attempts)),
        ("spent", spent_words(response.spending) if response.spending else None),
    ]
    return [(name, value) for name, value in found if value is not None]


def _answer(answer: str | None) -> Html:
    words = html(answer_words(answer, ANSWER_COLUMNS))
    return Html(f'<em class="none">{words}</em>' if answer is None else f"<bdi>{words}</bdi>")


def _bar(share: float) -> Html:
    return Html(f'<span class="bar"><span style="width:{share:.1%}"></span></span>')
