"""Batches for tests: a judge that scores by what stands in the draft, and a way to start them."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

from temporalio.client import Client

from activities.language_model.port import LanguageModel, ModelCall, PermanentModelError
from adapters import QUEUES
from mull.batch.result import BatchResult
from mull.run import Spending
from tests import conftest
from tests.conftest import ONE_BY_ONE, Handle, begin
from tests.scripted import ScriptedModel

JUDGED = Spending(calls=1, input_tokens=80, output_tokens=20, cached_tokens=0, cost_usd=0.01)


def draft_reader(delay: float = 0) -> ScriptedModel:
    """Judge a draft "score 0.4" with 0.4; and "slow" in a minute; write nothing."""

    async def judge(call: ModelCall) -> float:
        draft = call.prompt.partition('Draft: "')[2].partition('"')[0]
        await asyncio.sleep(60 if draft == "slow" else delay)
        return float(draft.removeprefix("score "))

    nothing = PermanentModelError("nothing is written here", "NotFoundError")
    return ScriptedModel(judge=judge, write=lambda _: nothing, spending={"judge": JUDGED})


def served(client: Client, model: LanguageModel, *queues: str) -> AbstractAsyncContextManager[None]:
    """Serve these queues, or all, without a workflow cache, one workflow task after the other."""
    return conftest.served(client, model, queues or QUEUES, **ONE_BY_ONE)


def drafts(*texts: str) -> list[dict[str, str]]:
    return [{"query": f"query {place}", "draft": text} for place, text in enumerate(texts)]


def judging(name: str = "judge", repeats: int = 1, **request: Any) -> dict[str, Any]:
    """A variant that judges each item's draft."""
    return {
        "name": name,
        "workflow": "ReflectOnResultWorkflow",
        "request": {"max_revisions": 0, "complexity": 1, "guardrails": [], **request},
        "takes": {"query": "query", "draft": "draft"},
        "repeats": repeats,
    }


def batch_of(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"items": drafts(*texts), "variants": [judging()], **fields}


async def begin_batch(client: Client, request: dict[str, Any]) -> Handle:
    return await begin(client, request, "BatchWorkflow")


async def ended(handle: Handle) -> BatchResult:
    return BatchResult.model_validate(await conftest.ended(handle))


async def standing(handle: Handle, **seen: Any) -> BatchResult:
    found = await conftest.until(
        lambda: handle.query("progress"), lambda progress: seen.items() <= progress.items()
    )
    return BatchResult.model_validate(found)


async def run_batch(client: Client, model: LanguageModel, request: dict[str, Any]) -> BatchResult:
    async with served(client, model):
        return await ended(await begin_batch(client, request))
