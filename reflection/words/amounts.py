"""Counts, tokens and US dollars in words; what nobody knows is called unknown."""

from math import floor, log10

from reflection.usage import Spending, Usage


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
