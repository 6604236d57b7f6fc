"""The words by which a run of self-consistency is shown, the same everywhere."""

from collections.abc import Mapping

from reflection.sampling.result import Decision
from reflection.sampling.rules import StopReason
from reflection.text import terminal_safe

STOP_WORDS: Mapping[StopReason, str] = {
    "rule": "the stopping rule is met",
    "decided": "the leader can no longer be caught up",
    "max_responses": "the maximum number of answers is reached",
    "no_consensus": "the answers do not agree",
    "budget": "the budget is spent",
    "deadline": "the time is up",
    "finished_by_person": "a person ended the sampling",
    "accepted_by_person": "a person accepted the answer",
    "replaced_by_person": "a person gave another answer",
    "review_timeout": "nobody reviewed it in time",
}


def answer_words(answer: str | None, most: int) -> str:
    """Name an answer on one line of at most `most` columns; none and nothing have words too."""
    if answer is None:
        return terminal_safe("(unreadable)", most)
    return terminal_safe(answer, most) or terminal_safe("(empty)", most)


def number_words(decision: Decision) -> str:
    """Number the response that was decided on, from 1; nothing where none was."""
    return "" if decision.index is None else str(decision.index + 1)


def vote_words(decision: Decision, most: int) -> str:
    """Name the vote that was counted; a dash where a bound or a person ended the run."""
    return "-" if decision.index is None else answer_words(decision.vote, most)


def lead_words(decision: Decision) -> str:
    """Write the votes of the two leading answers."""
    return f"{decision.leader_votes}-{decision.runner_up_votes}"


def by_words(decision: Decision) -> str:
    """Name the person whose answer or wish it was; nothing where it was no person's."""
    return f"by {terminal_safe(decision.author, 24)}" if decision.author else ""


def ranked(distribution: Mapping[str, float], votes: int) -> list[tuple[str, int, float]]:
    """List (answer, votes, share), most votes first, and among equals in the order first seen."""
    order = sorted(distribution.items(), key=lambda item: -item[1])
    return [(answer, round(share * votes), share) for answer, share in order]


def outcome_words(decision: Decision) -> str:
    """Say in a word or two what was decided."""
    return f"stop: {decision.stop_reason}" if decision.stop else "go on"


def comparison(decision: Decision, digits: int = 4) -> str:
    """Write the number that the rule looked at beside its bound, or nothing where there is none."""
    if decision.value is None or decision.bound is None:
        return ""
    return f"{decision.value:.{digits}g} vs {decision.bound:.{digits}g}"
