"""Embedding calls keep the pace that their model bears; a 429 uses up none of their attempts."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from temporalio.testing import ActivityEnvironment

from activities.documents.retrieval import DocumentActivities, Embedded, RetrievalTask
from activities.language_model.layers import PacedModel
from activities.language_model.port import TransientModelError
from reflection.run import Spending
from tests.activities.documents.documents import MODEL, Documents, ScriptedEmbedder
from tests.activities.scripted_calls import call
from tests.activities.test_pace import Endpoint, virtually

BUSY = TransientModelError("busy", "RateLimitError", 429, 0.0)


class Embeddings(Endpoint):
    """An embedding model that takes so many calls in any second, and refuses others with 429."""

    async def embed(self, texts: Sequence[str], _: str, __: float) -> Embedded:
        await self.complete(call())
        return Embedded([[1.0]] * len(texts), Spending(calls=1))


def test_a_storm_of_embeddings_wastes_little() -> None:
    """Of 100 calls at once, to a model that takes 5 a second, at most a tenth is refused."""
    endpoint = Embeddings(5)
    model = PacedModel(endpoint, embedder=endpoint)

    async def embed() -> None:
        while True:
            try:
                await model.embed(["a"], "m", 5.0)
            except TransientModelError as error:
                await asyncio.sleep(1.0 if error.retry_after is None else error.retry_after)
            else:
                return

    async def storm() -> None:
        await asyncio.gather(*(embed() for _ in range(100)))

    virtually(storm())

    assert len(endpoint.taken) == 100
    assert len(endpoint.refused) <= 0.1 * (100 + len(endpoint.refused))


def test_embeddings_are_within_the_operators_rate() -> None:
    """Chat and embedding calls together are apart by the rate's interval."""
    endpoint = Embeddings(float("inf"))
    model = PacedModel(endpoint, None, 4, endpoint)

    async def both() -> None:
        chats = [model.complete(call(model="a")) for _ in range(5)]
        await asyncio.gather(*chats, *(model.embed(["a"], "b", 5.0) for _ in range(5)))

    virtually(both())

    assert endpoint.taken[-1] - endpoint.taken[0] >= 9 * 0.25 - 1e-6


async def test_a_429_uses_up_no_attempt_of_a_search(tmp_path: Path) -> None:
    """The only attempt of a search outlasts twenty of them, and counts each among the calls."""
    documents = Documents(tmp_path, ScriptedEmbedder(None, *[BUSY] * 20))
    documents.write("tides.md", "Burntcoat Head has the highest tide.")
    task = RetrievalTask(prompt="apple", docs="docs", passages=8, embedding_model=MODEL)
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, start_to_close_timeout=timedelta(seconds=900))

    found = await environment.run(DocumentActivities(documents.retriever).retrieve, task)

    assert (found.warnings, found.failed, found.attempts) == ((), 20, 1)
    assert found.spending is not None
    assert found.spending.calls == 3
