"""What calls will cost, as far as that can be told before they are made."""

import json
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import NamedTuple

import typer

from reflection.text import tally_words, usd

CHARACTERS_A_TOKEN = 4
WORKERS = "the worker's own model"
PRICES = "model_prices_and_context_window_backup.json"


class Price(NamedTuple):
    """US dollars for one token."""

    token_in: float
    token_out: float


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


class Forecast(NamedTuple):
    """All calls that may be made; `assumed` says what the numbers of tokens rest on."""

    parts: list[Calls]
    assumed: str

    @property
    def cost_usd(self) -> float | None:
        """US dollars of all; one unknown makes the sum unknown."""
        costs = [part.cost_usd for part in self.parts]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    def document(self) -> dict[str, object]:
        """Put it together for a machine."""
        rows = [{**part._asdict(), "cost_usd": part.cost_usd} for part in self.parts]
        calls = sum(part.calls for part in self.parts)
        return {"calls": calls, "parts": rows, "cost_usd": self.cost_usd}

    def say(self) -> None:
        """Write it to standard error, with what it rests on."""
        for part in self.parts:
            said = f"{part.what}: {tally_words(part.calls, 'call')} of {part.model or WORKERS}"
            tokens = f"about {part.tokens_in:,} tokens in and {part.tokens_out:,} out"
            sys.stderr.write(f"estimate: {said}, {tokens}, cost {usd(part.cost_usd)}\n")
        if len(self.parts) > 1:
            sys.stderr.write(f"estimate: cost {usd(self.cost_usd)} in all\n")
        sys.stderr.write(f"It takes {CHARACTERS_A_TOKEN} characters for a token, {self.assumed}.\n")

    def agreed(self, yes: bool) -> bool:
        """Say what it will cost, and ask a person in a terminal whether to start."""
        self.say()
        if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return True
        return typer.confirm("Start?", err=True)


def tokens_of(texts: Iterable[str]) -> int:
    """Estimate the tokens of texts, at four characters each."""
    return sum(ceil(len(text) / CHARACTERS_A_TOKEN) for text in texts)


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
