"""Searching by meaning: every passage's vector is kept, and compared with the query's."""

from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic
from typing import NamedTuple

import numpy as np

from activities.documents import RetrievalTask
from activities.language_model.port import ModelError, TransientModelError
from activities.retrieval.bounds import (
    EMBEDDED_CHARACTERS,
    EMBEDDED_PASSAGES,
    EMBEDDING_BATCH,
    EMBEDDING_SECONDS,
    NEAREST,
)
from activities.retrieval.index.searching import Hit, every_passage
from activities.retrieval.index.store import Snapshot
from activities.retrieval.meaning.embedding import Embedder
from activities.retrieval.meaning.vectors import Vector, Vectors, unit
from activities.retrieval.threads import Threads
from reflection.run import Spending, total
from reflection.text import tally_words


class Meant(NamedTuple):
    """What a search by meaning found, what it could not do, and what it cost.

    `failed` counts calls without a reply, whose cost nobody knows. `busy` is why the same may work
    the next time.
    """

    hits: Sequence[Hit] = ()
    warnings: tuple[str, ...] = ()
    spending: Spending | None = None
    failed: int = 0
    busy: TransientModelError | None = None


class MeaningSearch:
    """One search of an index with one model. What is embedded once is kept.

    Up to 20,000 passages are embedded, for at most a minute; the next search goes on from there.
    """

    def __init__(
        self, embedder: Embedder, snapshot: Snapshot, vectors: Vectors, threads: Threads
    ) -> None:
        self._embedder = embedder
        self._snapshot = snapshot
        self._vectors = vectors
        self._threads = threads
        self._spent: list[Spending] = []
        self._unseen = 0

    async def found(self, task: RetrievalTask) -> Meant:
        """Rank passages by the cosine of their vectors with the query's; a failure is a warning."""
        model = task.embedding_model or ""
        try:
            hits = await self._search(task, model)
        except ModelError as error:
            warning = f"searched by words alone: {model} failed: {error}"
            busy = error if isinstance(error, TransientModelError) else None
            return Meant((), (warning,), total(self._spent), failed=1, busy=busy)
        unseen = f"{tally_words(self._unseen, 'passage')} not searched by meaning yet"
        return Meant(hits, (unseen,) if self._unseen else (), total(self._spent))

    async def _search(self, task: RetrievalTask, model: str) -> list[Hit]:
        passages = await self._threads.short(partial(every_passage, self._snapshot))
        if not passages:
            return []
        [query] = await self._embed([task.prompt], model, task.timeout_seconds)
        known = await self._known(passages[:EMBEDDED_PASSAGES], model, len(query), task)
        seen = [hit for hit in passages if hit.copy in known]
        self._unseen = len(passages) - len(seen)
        return await self._threads.short(partial(nearest, seen, known, query))

    async def _known(
        self, passages: Sequence[Hit], model: str, size: int, task: RetrievalTask
    ) -> dict[int, Vector]:
        kept = await self._threads.short(partial(self._vectors.load, model))
        known = {copy: vector for copy, vector in kept.items() if len(vector) == size}
        missing = [hit for hit in passages if hit.copy not in known]
        end = monotonic() + EMBEDDING_SECONDS
        for start in range(0, len(missing), EMBEDDING_BATCH):
            if monotonic() > end:
                break
            batch = missing[start : start + EMBEDDING_BATCH]
            known |= await self._embed_passages(batch, model, task.timeout_seconds)
        if len(kept) > 2 * len(passages):
            copies = [hit.copy for hit in passages]
            await self._threads.short(partial(self._vectors.keep, model, copies))
        return known

    async def _embed_passages(
        self, hits: Sequence[Hit], model: str, seconds: float
    ) -> dict[int, Vector]:
        texts = [self._snapshot.passage(hit.address).part.text for hit in hits]
        found = await self._embed(texts, model, seconds)
        vectors = {hit.copy: vector for hit, vector in zip(hits, found, strict=True)}
        await self._threads.short(partial(self._vectors.add, model, vectors))
        return vectors

    async def _embed(self, texts: Sequence[str], model: str, seconds: float) -> list[Vector]:
        cut = [text[:EMBEDDED_CHARACTERS] for text in texts]
        embedded = await self._embedder.embed(cut, model, seconds)
        self._spent.append(embedded.spending)
        return [unit(each) for each in embedded.vectors]


def nearest(hits: Sequence[Hit], vectors: Mapping[int, Vector], query: Vector) -> list[Hit]:
    """Rank at most 200 passages by the cosine with a query; equals in a fixed order."""
    if not hits:
        return []
    cosines = np.stack([vectors[hit.copy] for hit in hits]) @ query
    scored = [
        hit._replace(score=round(float(cosine), 6))
        for hit, cosine in zip(hits, cosines, strict=True)
    ]
    return sorted(scored, key=lambda hit: (-hit.score, hit.file, hit.ordinal))[:NEAREST]
