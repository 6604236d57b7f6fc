"""What a run cost, as a table."""

from commands.report.parts import Html, table
from reflection.run import Spending, Usage
from reflection.text import usd


def spending_table(usage: Usage) -> Html:
    """Draw what each part of the run cost; what nobody knows is called unknown."""
    rows = [_spending(name, part) for name, part in usage.parts.items()]
    headers = ("part", "calls", "tokens in", "of them cached", "tokens out", "cost")
    return table(headers, [*rows, _spending("total", usage)], "Calls, tokens and US dollars")


def _spending(name: str, spent: Usage | Spending) -> tuple[str, ...]:
    counts = (spent.input_tokens, spent.cached_tokens, spent.output_tokens)
    shown = ("unknown" if each is None else f"{each:,}" for each in counts)
    return (name, f"{spent.calls:,}", *shown, usd(spent.cost_usd))
