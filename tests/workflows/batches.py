"""Batches for tests: a judge that scores by what stands in the draft, and a way to start them."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from temporalio.client import Client, WorkflowHandle

import worker
from activities.language_model.port import LanguageModel, ModelCall, ModelReply, PermanentModelError
from adapters import QUEUES
from mull.batch.result import BatchResult
from mull.connection import TASK_QUEUE
from mull.run import Spending
from tests.conftest import ONE_BY_ONE
from tests.patience import PATIENCE
from tests.scripted import judgement, reply

JUDGED = Spending(calls=1, input_tokens=80, output_tokens=20, cached_tokens=0, cost_usd=0.01)


class DraftReader:
    """Judge a draft "score 0.4" with 0.4; and "slow" in a minute; write nothing.

    `most` is how many calls were under way at once.
    """

    def __init__(self, delay: float = 0) -> None:
        self.calls: list[ModelCall] = []
        self.most = 0
        self._delay = delay
        self.under_way = 0

    async def complete(self, call: ModelCall) -> ModelReply:
        """Judge by the draft's words. Raises PermanentModelError where a draft is wanted."""
        self.calls.append(call)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await self._judge(call)
        finally:
            self.under_way -= 1

    async def _judge(self, call: ModelCall) -> ModelReply:
        draft = call.prompt.partition('Draft: "')[2].partition('"')[0]
        if call.reply_schema is None:
            raise PermanentModelError("nothing is written here", "NotFoundError")
        await asyncio.sleep(60 if draft == "slow" else self._delay)
        score = float(draft.removeprefix("score "))
        return reply(judgement(call.prompt, score), call.model or "scripted/judge", JUDGED)


@asynccontextmanager
async def served(client: Client, model: LanguageModel) -> AsyncIterator[None]:
    """Serve every queue without a workflow cache, one workflow task after the other."""
    async with AsyncExitStack() as stack:
        for each in worker.build(client, QUEUES, model, **ONE_BY_ONE):
            await stack.enter_async_context(each)
        yield


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


async def begin_batch(client: Client, request: dict[str, Any]) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        "BatchWorkflow", request, id=f"batch-{uuid.uuid4().hex}", task_queue=TASK_QUEUE
    )


async def run_batch(client: Client, model: LanguageModel, request: dict[str, Any]) -> BatchResult:
    async with served(client, model):
        handle = await begin_batch(client, request)
        return BatchResult.model_validate(await asyncio.wait_for(handle.result(), PATIENCE))
