"""A worker that is killed outright, as the kernel or a pod's eviction does it."""

import asyncio
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from mull.sampling.result import Decision, SelfConsistencyResult
from tests.chaos.rebuilt import assert_whole
from tests.chaos.working import working
from tests.conftest import begin, served
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel
from tests.scripted_endpoint import Scripted, ScriptedEndpoint

ANSWERS = ["7", "8", "7", "9", "7", "7", "8", "7", "7", "7"]
REQUEST = {"question": "What is it?", "seed": 0, "answers": "number", "max_responses": 10}


def said(seed: int) -> Scripted:
    text = json.dumps({"reasoning": "counted", "answer": ANSWERS[seed]})
    return Scripted(text=text, delay=0.2 + 0.3 * (seed % 5))


async def run_undisturbed(client: Client) -> SelfConsistencyResult:
    """The same run with a model that says the same, in a worker that nobody kills."""
    async with served(client, ScriptedModel(ANSWERS)):
        handle = await begin(client, REQUEST)
        return SelfConsistencyResult.model_validate(await handle.result())


def untimed(result: SelfConsistencyResult) -> list[Decision]:
    """Every decision, but for when it was taken."""
    return [each.model_copy(update={"at": None}) for each in result.decisions]


async def asked(endpoint: ScriptedEndpoint, calls: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(endpoint.requests) < calls:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("kill_after", [[3], [6], [2, 7]])
async def test_a_killed_worker_changes_nothing(
    client: Client, tmp_path: Path, kill_after: list[int]
) -> None:
    """The run ends alike, decision for decision, and no recorded call is made twice."""
    undisturbed = await run_undisturbed(client)
    traces = tmp_path / "spans"
    with ScriptedEndpoint(by_seed=said) as endpoint:
        async with working(endpoint, traces) as start:
            process = start()
            handle = await begin(client, REQUEST)
            for calls in kill_after:
                await asked(endpoint, calls)
                await asyncio.sleep(0.5)
                process.kill()
                process.join(PATIENCE)
                process = start()
            result = SelfConsistencyResult.model_validate(await handle.result())
        made = Counter(each["seed"] for each in endpoint.requests)

    assert untimed(result) == untimed(undisturbed)
    assert result.final_answer == undisturbed.final_answer == "7"
    assert result.answer_distribution == undisturbed.answer_distribution
    assert (result.waves, result.usage.calls) == (undisturbed.waves, undisturbed.usage.calls)
    attempts = {each.index: each.attempts for each in result.responses}
    assert all(made[index] <= attempts[index] for index in attempts)
    assert sum(attempts.values()) > len(attempts)
    assert_one_id_each(traces)
    [rebuilt] = await assert_whole(client, handle.id, traces)
    names = Counter(span.name for span in rebuilt.spans)
    assert names["mull.decision"] == len(result.decisions)
    assert names["chat openai/scripted"] == len(result.responses)


def assert_one_id_each(traces: Path) -> None:
    """No event of the run has two span ids, though several workers wrote spans of it."""
    ids: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for line in traces.read_text().splitlines():
        span = json.loads(line)
        known = span["attributes"]
        names = ("mull.wave", "mull.sample.index", "mull.attempt")
        ids[span["name"], *(known.get(name) for name in names)].add(span["context"]["span_id"])
    assert ids
    assert {event: found for event, found in ids.items() if len(found) > 1} == {}
