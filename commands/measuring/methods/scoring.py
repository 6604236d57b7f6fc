"""The scores of answers to which no right one is known: a second batch, of evaluations alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from temporalio.client import Client

from commands.measuring.batches.reading import read_runs
from commands.measuring.batches.running import Order, made
from commands.measuring.methods.outcomes import Answered
from commands.measuring.methods.plan import Plan
from reflection.batch.request import BatchRequest
from reflection.batch.result import BatchResult, Run
from reflection.critique.result import ReflectOnResultResult
from reflection.run import encoded_size

# A batch takes 1 MB of items and 2,000 runs; what is more is scored in several, one after another.
CHUNK_BYTES = 900_000
CHUNK_RUNS = 2_000


class Scores(NamedTuple):
    """Scores by question and method, None where one failed, and the batches they come from."""

    scores: Mapping[tuple[int, str], float | None]
    batches: Sequence[BatchResult]


async def score(
    client: Client,
    order: Order,
    plan: Plan,
    answers: Sequence[Answered],
    bounds: Mapping[str, Any],
    spent: BatchResult,
) -> Scores:
    """Score every answer by the same judge, with what is left of the budgets."""
    texts = [each for each in answers if each.text and each.text.strip() and not plan.has_gold]
    found: dict[tuple[int, str], float | None] = {}
    batches = [spent]
    for chunk in _chunks(plan, texts):
        listed = [(each.read.run.item, each.text or "") for each in chunk]
        request = plan.scoring(listed, remaining(bounds, batches))
        batch = await made(client, _second(order, request, len(batches)))
        batches.append(batch)
        keys = [(each.read.run.item, each.read.run.variant) for each in chunk]
        reads = await read_runs(client, batch.runs, ReflectOnResultResult)
        found |= {keys[each.run.item]: each.result.score for each in reads if each.result}
    return Scores(found, batches[1:])


def _second(order: Order, request: BatchRequest, number: int) -> Order:
    return order._replace(
        identity=f"{order.identity}-scores" + (f"-{number}" if number > 1 else ""),
        request=request,
        summary=f"{order.summary}, scored",
        agreed=lambda: True,
    )


def _chunks(plan: Plan, answers: Sequence[Answered]) -> Iterator[list[Answered]]:
    chunk: list[Answered] = []
    size = 0
    for each in answers:
        item = plan.scored(each.read.run.item, each.text or "")
        more = sum(map(encoded_size, item.values())) + 50
        if chunk and (size + more > CHUNK_BYTES or len(chunk) == CHUNK_RUNS):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += more
    if chunk:
        yield chunk


def remaining(bounds: Mapping[str, Any], batches: Sequence[BatchResult]) -> dict[str, Any]:
    """Return what batches leave of budgets; what is unknown counts as the largest that is known."""
    left = dict(bounds)
    if left["budget_tokens"] is not None:
        spent = sum(_spent([run.tokens for each in batches for run in _made(each)]))
        left["budget_tokens"] = max(1, left["budget_tokens"] - int(spent))
    if left["budget_usd"] is not None:
        cost = sum(_spent([run.cost_usd for each in batches for run in _made(each)]))
        left["budget_usd"] = max(1e-9, left["budget_usd"] - cost)
    return left


def _made(batch: BatchResult) -> list[Run]:
    return [each for each in batch.runs if each.status != "not_started"]


def _spent(known: Sequence[float | None]) -> list[float]:
    """Take what is unknown to be as large as the largest that is known."""
    largest = max((each for each in known if each is not None), default=0.0)
    return [largest if each is None else each for each in known]
