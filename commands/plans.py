"""What measuring commands share: a file's lines, the estimated cost, and how findings are built."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar

import typer
from pydantic_core import to_json

from commands.command import (
    BatchId,
    Detach,
    Exit,
    Json,
    Yes,
    checked,
    fail,
    flag,
    options_of,
    print_json,
)
from commands.help import COMMON
from commands.options import Profile
from mull.batch.request import PAGE_BYTES, PAGE_ITEMS, RUNS, BatchRequest, Item
from mull.batch.result import BatchResult, BatchRun
from mull.critique.prompts import build_judge_prompt
from mull.critique.request import ReflectOnResultRequest
from mull.request import explain
from mull.sheet import EMBEDDED, Fact, Sheet
from mull.text import EXTRA, tally_words, usd

# Tokens of one evaluation: scores, and three or four pieces of feedback.
EVALUATION_OUT = 350
CHARACTERS_A_TOKEN = 4
WORKERS = "the worker's own model"
PRICES = "model_prices_and_context_window_backup.json"

Value = TypeVar("Value")
Fields = dict[str, Any]


class How(NamedTuple):
    """How a measurement is started and printed: the options of its command for that."""

    estimate: Annotated[
        bool, flag("--estimate", help="Print the estimated cost and exit."), COMMON
    ] = False
    yes: Yes = False
    workflow_id: BatchId = None
    detach: Detach = False
    as_json: Json = False
    profile: Profile = None


class Read(NamedTuple):
    """A run, its result (None if it has none), and its duration in seconds."""

    run: BatchRun
    result: Any
    seconds: float | None = None


class Findings(NamedTuple):
    """What a command found: a JSON document, a sheet, and whether every run failed."""

    document: dict[str, Any]
    sheet: Sheet
    all_failed: bool


def found(
    identity: str,
    batch: BatchResult,
    document: dict[str, Any],
    said: Iterable[str],
    draw: Callable[[Any], Sheet],
    *,
    failed: bool,
) -> Findings:
    """Build findings: with what every document of a measurement has, and its sheet drawn of it."""
    counts = batch.model_dump(mode="json", exclude={"runs"})
    whole = {"id": identity, **document, "batch": counts, "warnings": list(said)}
    return Findings(whole, draw(whole), failed)


def unmade(batch: BatchResult, what: str) -> Iterator[str]:
    """Say how many runs a batch did not make, and why."""
    if batch.stop_reason != "completed":
        left = tally_words(batch.not_started + batch.cancelled, what)
        yield f"{left} not made: {batch.stop_explanation}."


def facts_of(known: Mapping[str, str]) -> tuple[Fact, ...]:
    """Build facts of labels and values."""
    return tuple(Fact(label=label, value=value) for label, value in known.items())


def require_scipy(command: str) -> None:
    """Exit with code 2 and the name of the extra if scipy is not installed."""
    if find_spec("scipy") is None:
        fail(f"{command} needs scipy: {EXTRA.format('measure')}.")


def read_lines(
    file: Path, read: Callable[[Fields], Value], form: str, *, exact: bool = False
) -> list[Value]:
    """Read every JSON line of a file, or exit with code 2 and the number of the invalid line.

    `read` raises ValueError for an invalid line. `form` is an example of a line, shown if the file
    is empty. If `exact`, numbers are read as text with the digits as written.
    """
    try:
        lines = file.read_bytes().split(b"\n")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "not a valid file name"
        fail(f"{file} can't be read: {said}.")
    digits: dict[str, Any] = {"parse_int": str, "parse_float": str} if exact else {}
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                found.append(read(_fields(line, digits)))
            except ValueError as error:
                fail(f"{file}, line {number}: {explain(error)}.")
    if not found:
        fail(f"{file} is empty: expected lines like {form}")
    return found


def _fields(line: bytes, digits: dict[str, Any]) -> Fields:
    try:
        data = json.loads(line, **digits)
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, dict):
        return data
    raise ValueError("not JSON; each line must be one JSON object")


def pages_of(items: Sequence[Item], lines: int) -> list[list[Item]]:
    """Divide items into pages of at most so many, and of the bytes that a page takes."""
    pages, size = list[list[Item]](), 0
    for item in items:
        more = len(to_json(item)) + 1
        if not pages or len(pages[-1]) == lines or size + more > PAGE_BYTES:
            pages.append([])
            # One bracket more than there are commas.
            size = 1
        pages[-1].append(item)
        size += more
    return pages


def batch_of(
    items: Sequence[Item], variants: Sequence[Fields], fields: Fields
) -> tuple[BatchRequest, list[list[Item]]]:
    """Build the request of a batch, and its pages, none where the request has all items itself.

    Its bounds are among the `fields`.
    """
    each = sum(variant.get("repeats", 1) for variant in variants)
    pages = pages_of(items, min(PAGE_ITEMS, max(1, RUNS // each)))
    digest = sha256(to_json(items)).hexdigest()
    bounds = {name: fields.get(name) for name in options_of(BatchRequest)}
    known = {"variants": variants, "digest": digest, **bounds}
    alone, *more = [checked(BatchRequest, {**known, "items": page}) for page in pages]
    if not more:
        return alone, []
    return checked(BatchRequest, {**known, "pages": len(pages)}), pages


def judge_tokens(judging: ReflectOnResultRequest, query: str, draft: str) -> int:
    """Estimate the tokens of a judge's prompt."""
    return tokens_of([build_judge_prompt(query, draft, judging.judged_by, judging.score_threshold)])


def tokens_of(texts: Iterable[str]) -> int:
    """Estimate the tokens of texts, at four characters each."""
    return sum(ceil(len(text) / CHARACTERS_A_TOKEN) for text in texts)


class PlannedCalls(NamedTuple):
    """Calls of one model (None: the worker's own), with their total tokens in and out."""

    what: str
    model: str | None
    calls: int
    tokens_in: int
    tokens_out: int

    @property
    def cost_usd(self) -> float | None:
        """US dollars, or None if the model's price is not known."""
        price = price_of(self.model)
        return price and self.tokens_in * price[0] + self.tokens_out * price[1]


class Forecast(NamedTuple):
    """All calls that may be made; `assumed` says what the token counts are based on."""

    parts: list[PlannedCalls]
    assumed: str

    @property
    def cost_usd(self) -> float | None:
        """Total US dollars; None if the cost of any part is unknown."""
        costs = [part.cost_usd for part in self.parts]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    def tell(self, *, as_json: bool) -> NoReturn:
        """Print the estimate, as a JSON document if asked, and exit."""
        if as_json:
            rows = [{**part._asdict(), "cost_usd": part.cost_usd} for part in self.parts]
            calls = sum(part.calls for part in self.parts)
            document = {"calls": calls, "parts": rows, "cost_usd": self.cost_usd}
            print_json(document)
        else:
            self.say()
        raise typer.Exit(Exit.DONE)

    def say(self) -> None:
        """Print the estimate to standard error, with its assumptions."""
        for part in self.parts:
            said = f"{part.what}: {tally_words(part.calls, 'call')} of {part.model or WORKERS}"
            tokens = f"about {part.tokens_in:,} tokens in and {part.tokens_out:,} out"
            sys.stderr.write(f"estimate: {said}, {tokens}, cost {usd(part.cost_usd)}\n")
        if len(self.parts) > 1:
            sys.stderr.write(f"estimate: cost {usd(self.cost_usd)} in all\n")
        sys.stderr.write(
            f"The estimate assumes {CHARACTERS_A_TOKEN} characters a token, {self.assumed}.\n"
        )

    def agreed(self, *, yes: bool) -> bool:
        """Print the estimate; in a terminal, ask whether to start."""
        self.say()
        if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return True
        return typer.confirm("Start?", err=True)


def price_of(model: str | None) -> tuple[float, float] | None:
    """Look up US dollars per token, in and out, in LiteLLM's price list without importing LiteLLM.

    A name that is not in the list is looked up again without its provider's prefix. The embedded
    model is free. None if the price is unknown.
    """
    if model is None:
        return None
    if model.startswith(EMBEDDED):
        return 0.0, 0.0
    known = _prices()
    entry = known.get(model) or known.get(model.partition("/")[2]) or {}
    token_in, token_out = (entry.get(f"{way}_cost_per_token") for way in ("input", "output"))
    return None if token_in is None or token_out is None else (token_in, token_out)


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
