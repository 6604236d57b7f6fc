"""The words, numbers and block characters by which a run is shown, the same everywhere."""

from collections.abc import Iterable, Mapping
from math import floor, log10

from reflection.convergence.result import Decision
from reflection.convergence.rules.settings import StopReason
from reflection.plain import plain
from reflection.usage import Spending, Usage

LEVELS = "▁▂▃▄▅▆▇█"

STOP_WORDS: Mapping[StopReason, str] = {
    "rule": "the stopping rule is met",
    "decided": "the leader can no longer be caught up",
    "max_responses": "the maximum number of answers is reached",
    "no_consensus": "the answers do not agree",
    "budget": "the budget is spent",
    "deadline": "the time is up",
    "finished_by_person": "a person ended the sampling",
}


def answer_words(answer: str | None, most: int) -> str:
    """Name an answer on one line of at most `most` columns; none and nothing have words too."""
    if answer is None:
        return plain("(unreadable)", most)
    return plain(answer, most) or plain("(empty)", most)


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
    return f"by {plain(decision.author, 24)}" if decision.author else ""


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


def usd(amount: float | None) -> str:
    """Write US dollars with at least two digits that count; None is unknown."""
    if amount is None:
        return "unknown"
    digits = max(2, 1 - floor(log10(amount))) if amount > 0 else 2
    return f"${amount:,.{digits}f}"


def tally_words(count: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun: "1 call", "1,204 calls"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def spent_words(spent: Usage | Spending) -> str:
    """Say in one line what was spent: calls, tokens and cost."""
    parts = [tally_words(spent.calls, "call"), _tokens(spent), f"cost {usd(spent.cost_usd)}"]
    lost = _unanswered(spent) if isinstance(spent, Usage) else 0
    if lost:
        parts.append(f"and {tally_words(lost, 'call')} without a reply, whose charge is not known")
    return ", ".join(parts)


def _unanswered(spent: Usage) -> int:
    lost = [spent.parts.get("retried"), spent.parts.get("cancelled")]
    return sum(each.calls for each in lost if each is not None)


def _tokens(spent: Usage | Spending) -> str:
    if spent.input_tokens is None and spent.output_tokens is None:
        return "tokens unknown"
    read, written = _known(spent.input_tokens), _known(spent.output_tokens)
    cached = f" ({spent.cached_tokens:,} of them cached)" if spent.cached_tokens else ""
    return f"{read} tokens in{cached} and {written} out"


def _known(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def level(share: float) -> str:
    """Draw a share, 0 to 1, as one block character."""
    return LEVELS[max(0, min(7, int(share * 8)))]


def sparkline(shares: Iterable[float]) -> str:
    """Draw shares, each 0 to 1, as one block character each."""
    return "".join(level(share) for share in shares)


def bar(share: float, columns: int) -> str:
    """Draw a share, 0 to 1, as a bar; what is above 0 gets one column at least."""
    full = max(round(share * columns), int(share > 0))
    return "▇" * full + "▁" * (columns - full)
