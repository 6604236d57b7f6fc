"""A worker that is killed outright at each step of a run of reflection."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from mull.critique.result import ReflectOnResultResult
from tests.chaos.rebuilt import assert_whole
from tests.chaos.working import working
from tests.conftest import begin_reflecting
from tests.patience import PATIENCE
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint

DRAFTS = ["draft one", "draft two", "draft three"]
SCORES = {"draft one": 0.3, "draft two": 0.5, "draft three": 0.4}
NAMES = ["completeness", "correctness", "clarity"]
ACCEPT = {"accept": True, "author": "ann"}
FIELDS: dict[str, Any] = {
    "max_revisions": 2,
    "judges": ["openai/a", "openai/b"],
    "guardrails": ["default"],
    "review_below": 0.6,
}


def said(request: Body) -> Scripted:
    """Write the next draft, or judge the one in the prompt: the request alone says which."""
    prompt = request["messages"][0]["content"]
    if "You judge a draft" in prompt:
        draft = next(each for each in DRAFTS if f'Draft: "{each}"' in prompt)
        scores = dict.fromkeys(NAMES, SCORES[draft])
        text = json.dumps({"criteria_scores": scores, "feedback": f"mend {draft}"})
        return Scripted(text, delay=0.6 if request["model"] == "a" else 0.3)
    previous = [index for index, each in enumerate(DRAFTS) if each in prompt]
    return Scripted(DRAFTS[previous[-1] + 1 if previous else 0], delay=0.5)


def key(request: Body) -> tuple[str, str]:
    return request["model"], request["messages"][0]["content"]


async def until_waiting(handle: WorkflowHandle[Any, Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await handle.query("progress"))["step"] != "waiting_for_review":
            await asyncio.sleep(0.2)


async def run(
    client: Client, traces: Path, kills: list[int]
) -> tuple[ReflectOnResultResult, Counter[tuple[str, str]]]:
    """Run while the worker is killed after so many calls each, and then once more as it waits."""
    with ScriptedEndpoint([said] * 30) as endpoint:
        async with working(endpoint, traces) as start:
            process = start()
            handle = await begin_reflecting(client, **FIELDS)
            for calls in kills:
                async with asyncio.timeout(PATIENCE):
                    while len(endpoint.requests) < calls:
                        await asyncio.sleep(0.02)
                await asyncio.sleep(0.25)
                process.kill()
                process.join(PATIENCE)
                process = start()
            await until_waiting(handle)
            if kills:
                process.kill()
                process.join(PATIENCE)
                start()
            await handle.execute_update("review", ACCEPT)
            result = ReflectOnResultResult.model_validate(await handle.result())
        [rebuilt] = await assert_whole(client, handle.id, traces)
        decided = [span for span in rebuilt.spans if span.name == "mull.decision"]
        assert len(decided) == len(result.decisions)
        return result, Counter(map(key, endpoint.requests))


def lasting(result: ReflectOnResultResult) -> dict[str, Any]:
    """What must be the same whether a worker was killed or not: all but times and attempts."""
    whole = result.model_dump(mode="json", exclude={"usage"})
    whole["parts"] = {
        name: each.model_dump()
        for name, each in result.usage.parts.items()
        if name not in {"retried", "cancelled"}
    }
    for each in [*whole["drafts"], *whole["decisions"]]:
        for name in ("timestamp", "at", "attempts"):
            each.pop(name, None)
    return whole


@pytest.mark.parametrize("kills", [[2, 8], [4]])
async def test_a_worker_killed_at_each_step_changes_nothing(
    client: Client, tmp_path: Path, kills: list[int]
) -> None:
    """The same drafts, scores, decisions and spending, and no call more than the ones lost."""
    expected, _ = await run(client, tmp_path / "undisturbed", [])

    result, made = await run(client, tmp_path / "traces", kills)

    assert lasting(result) == lasting(expected)
    assert (result.draft, result.stop_reason) == ("draft two", "accepted_by_person")
    lost = made.total() - len(made)
    assert 0 <= lost <= 2 * len(kills)
    assert result.usage.parts["retried"].calls >= lost
