"""What calls will cost, as far as that can be told before they are made."""

import json
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import NamedTuple

from reflection.text import tally_words, usd

CHARACTERS_A_TOKEN = 4
WORKERS = "the worker's own model"
PRICES = "model_prices_and_context_window_backup.json"


class Calls(NamedTuple):
    """Calls of one model, None for the worker's own: how many, and tokens in and out of all."""

    what: str
    model: str | None
    calls: int
    tokens_in: int
    tokens_out: int

    @property
    def cost_usd(self) -> float | None:
        """US dollars, or None where the model's price is not known."""
        price = price_of(self.model)
        return price and self.tokens_in * price.token_in + self.tokens_out * price.token_out


class Price(NamedTuple):
    """US dollars for one token."""

    token_in: float
    token_out: float


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text, at four characters each."""
    return ceil(len(text) / CHARACTERS_A_TOKEN)


def price_of(model: str | None) -> Price | None:
    """Look a model's price up in LiteLLM's packaged list, which needs no import of LiteLLM.

    A name that the list lacks is looked for without its provider's prefix. The embedded model is
    free; None where nobody knows.
    """
    if model is None:
        return None
    if model.startswith("embedded/"):
        return Price(0.0, 0.0)
    known = _prices()
    entry = known.get(model) or known.get(model.partition("/")[2]) or {}
    token_in, token_out = (entry.get(f"{way}_cost_per_token") for way in ("input", "output"))
    return None if token_in is None or token_out is None else Price(token_in, token_out)


def document(parts: Sequence[Calls]) -> dict[str, object]:
    """Put an estimate together for a machine."""
    rows = [{**each._asdict(), "cost_usd": each.cost_usd} for each in parts]
    return {"calls": sum(each.calls for each in parts), "parts": rows, "cost_usd": total(parts)}


def total(parts: Iterable[Calls]) -> float | None:
    """Add up US dollars; one unknown makes the sum unknown."""
    costs = [each.cost_usd for each in parts]
    return None if None in costs else sum(each or 0.0 for each in costs)


def say(parts: Sequence[Calls], assumed: str) -> None:
    """Write an estimate to standard error, with what it rests on."""
    for each in parts:
        said = f"{each.what}: {tally_words(each.calls, 'call')} of {each.model or WORKERS}"
        tokens = f"about {each.tokens_in:,} tokens in and {each.tokens_out:,} out"
        sys.stderr.write(f"estimate: {said}, {tokens}, cost {usd(each.cost_usd)}\n")
    if len(parts) > 1:
        sys.stderr.write(f"estimate: cost {usd(total(parts))} in all\n")
    sys.stderr.write(f"It takes {CHARACTERS_A_TOKEN} characters for a token, {assumed}.\n")


@cache
def _prices() -> dict[str, dict[str, float]]:
    found = find_spec("litellm")
    if found is None or found.origin is None:
        return {}
    try:
        text = Path(found.origin).with_name(PRICES).read_text(encoding="utf-8")
        known: dict[str, dict[str, float]] = json.loads(text)
    except (OSError, ValueError):
        return {}
    return known
