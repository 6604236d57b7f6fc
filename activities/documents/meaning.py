"""Search by meaning: passages' vectors are kept in the index, and compared with the prompt's."""

import asyncio
import sqlite3
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, perf_counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from activities.documents.index import opened, read_passages
from activities.documents.retrieval import EMBEDDING_BATCH, Embedder
from activities.documents.threads import Threads
from activities.language_model.port import ModelError, TransientModelError
from reflection.multipath.state import Passage
from reflection.run import Spending, total
from reflection.text import tally_words
from telemetry import KIND, SPAN_EMBEDDINGS, TRACER

EMBEDDED_PASSAGES = 20_000
EMBEDDED_CHARACTERS = 4_000
EMBEDDING_SECONDS = 60.0
NEAREST = 200
FUSION_CONSTANT = 60
# A vector of another length is of another model that had the same name.
KNOWN = """
SELECT passages.copy, passages.rowid, vector, iif(vector IS NULL, text, NULL)
FROM passages JOIN files ON files.id = passages.rowid / 1048576
LEFT JOIN vectors ON vectors.copy = passages.copy AND model = ? AND length(vector) = ?
ORDER BY path, passages.rowid
"""

Vector = npt.NDArray[np.float32]


class Meant(NamedTuple):
    """What a search by meaning found, what it could not do, and what it cost.

    `failed` counts calls without a reply, whose cost nobody knows. `busy` is why the same may work
    the next time.
    """

    passages: Sequence[Passage] = ()
    warnings: tuple[str, ...] = ()
    spending: Spending | None = None
    failed: int = 0
    busy: TransientModelError | None = None


class MeaningSearch:
    """One search of an index by a model. Vectors are kept, for the next search.

    Up to 20,000 passages are embedded, for at most a minute; the next search goes on from there.
    """

    def __init__(
        self, embedder: Embedder, model: str, seconds: float, place: Path, threads: Threads
    ) -> None:
        self._embedder = embedder
        self._model = model
        self._seconds = seconds
        self._place = place
        self._threads = threads
        self._spent: list[Spending] = []

    async def search(self, prompt: str) -> Meant:
        """Rank passages by their cosine with the prompt; a failure is a warning."""
        try:
            [query] = await self._embed([prompt])
            rows, vectors, missing = await self._threads.run(lambda _: self._load(query.nbytes))
            end = monotonic() + EMBEDDING_SECONDS
            while missing and monotonic() < end:
                batch = [missing.popleft() for _ in range(min(EMBEDDING_BATCH, len(missing)))]
                vectors |= await self._add(batch)
        except ModelError as error:
            warning = f"searched by words alone: {self._model} failed: {error}"
            busy = error if isinstance(error, TransientModelError) else None
            return Meant((), (warning,), total(self._spent), failed=1, busy=busy)
        passages = await self._threads.run(lambda _: self._nearest(rows, vectors, query))
        unseen = len(rows) - len(vectors)
        warning = f"{tally_words(unseen, 'passage')} not searched by meaning yet"
        return Meant(passages, (warning,) if unseen else (), total(self._spent))

    def _load(self, size: int) -> tuple[dict[int, int], dict[int, Vector], deque[tuple[int, str]]]:
        """Read the rows of different texts, their vectors, and the texts that have none yet."""
        rows, vectors = dict[int, int](), dict[int, Vector]()
        missing = deque[tuple[int, str]]()
        with opened(self._place) as database:
            for copy, row, vector, text in database.execute(KNOWN, [self._model, size]):
                if copy in rows:
                    continue
                rows[copy] = row
                if vector is not None:
                    vectors[copy] = np.frombuffer(vector, np.float32)
                elif len(rows) <= EMBEDDED_PASSAGES:
                    missing.append((copy, text))
        return rows, vectors, missing

    async def _add(self, batch: Sequence[tuple[int, str]]) -> dict[int, Vector]:
        embedded = await self._embed([text for _, text in batch])
        new = {copy: vector for (copy, _), vector in zip(batch, embedded, strict=True)}
        kept = [(self._model, copy, vector.tobytes()) for copy, vector in new.items()]

        def keep(_: object) -> None:
            with suppress(sqlite3.Error), opened(self._place) as database, database:
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", kept)

        await self._threads.run(keep)
        return new

    def _nearest(
        self, rows: Mapping[int, int], vectors: Mapping[int, Vector], query: Vector
    ) -> list[Passage]:
        copies = [copy for copy in rows if copy in vectors]
        if not copies:
            return []
        cosines = np.round(np.stack([vectors[copy] for copy in copies]) @ query, 6)
        best = np.argsort(-cosines, kind="stable")[:NEAREST]
        with opened(self._place) as database:
            scores = {rows[copies[at]]: float(cosines[at]) for at in best}
            return list(read_passages(database, scores).values())

    async def _embed(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts in a span and two metrics, in which neither texts nor vectors stand."""
        meter, started = metrics.get_meter(TRACER), perf_counter()
        labels = {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": self._model}
        kind = {}
        with trace.get_tracer(TRACER).start_as_current_span(
            SPAN_EMBEDDINGS.format(model=self._model), kind=SpanKind.CLIENT, record_exception=False
        ) as span:
            span.set_attributes({KIND: "EMBEDDING", **labels, "mull.texts": len(texts)})
            try:
                cut = [text[:EMBEDDED_CHARACTERS] for text in texts]
                found = await self._embedder.embed(cut, self._model, self._seconds)
            except (ModelError, asyncio.CancelledError) as error:
                kind = {"error.type": error.kind if isinstance(error, ModelError) else "cancelled"}
                span.set_attributes(kind)
                span.set_status(Status(StatusCode.ERROR, str(error)))
                raise
            finally:
                duration = meter.create_histogram("gen_ai.client.operation.duration", unit="s")
                duration.record(perf_counter() - started, {**labels, **kind})
            tokens = found.spending.input_tokens
            known = {
                "gen_ai.provider.name": found.provider,
                "gen_ai.embeddings.dimension.count": len(found.vectors[0]),
                "gen_ai.usage.input_tokens": tokens,
                "mull.cost.usd": found.spending.cost_usd,
            }
            span.set_attributes({name: value for name, value in known.items() if value is not None})
        if tokens is not None:
            used = meter.create_histogram("gen_ai.client.token.usage", unit="{token}")
            used.record(tokens, {**labels, "gen_ai.token.type": "input"})
        self._spent.append(found.spending)
        vectors = np.asarray(found.vectors, np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        # At length 1 a product is the cosine. A vector of zeros stays one.
        return list(vectors / np.where(lengths, lengths, 1))


def fuse(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Fuse rankings by the sum of 1 / (60 + rank) over the lists that hold a passage's text.

    Source: Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods", SIGIR 2009.
    """
    scores: defaultdict[str, float] = defaultdict(float)
    passages: dict[str, Passage] = {}
    for ranking in rankings:
        for rank, passage in enumerate(ranking, 1):
            scores[passage.text] += 1 / (FUSION_CONSTANT + rank)
            passages.setdefault(passage.text, passage)
    fused = [
        passage.model_copy(update={"score": round(scores[text], 9)})
        for text, passage in passages.items()
    ]
    return sorted(fused, key=lambda passage: -passage.score)
