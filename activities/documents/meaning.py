"""Search by meaning: passages' vectors are stored, and compared with the query's."""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from activities.documents.index import Hit, Snapshot, distinct, ordered
from activities.documents.retrieval import EMBEDDING_BATCH, Embedder, RetrievalTask
from activities.documents.threads import Threads
from activities.language_model.port import ModelError, TransientModelError
from reflection.run import Spending, total
from reflection.text import tally_words
from telemetry import KIND, SPAN_EMBEDDINGS, TRACER

EMBEDDED_PASSAGES = 20_000
EMBEDDED_CHARACTERS = 4_000
EMBEDDING_SECONDS = 60.0
NEAREST = 200
FUSION_CONSTANT = 60
CREATE = "CREATE TABLE IF NOT EXISTS vectors (model, copy, vector, PRIMARY KEY (model, copy))"
PRUNE = "DELETE FROM vectors WHERE copy NOT IN (SELECT value FROM json_each(?))"

Vector = npt.NDArray[np.float32]


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
    """One search of an index by a model. Vectors are kept in a file, for the next search.

    Up to 20,000 passages are embedded, for at most a minute; the next search goes on from there.
    """

    def __init__(self, embedder: Embedder, model: str, seconds: float, path: Path) -> None:
        self._embedder = embedder
        self._model = model
        self._seconds = seconds
        self._path = path
        self._spent: list[Spending] = []

    async def found(self, task: RetrievalTask, snapshot: Snapshot, threads: Threads) -> Meant:
        """Rank passages by the cosine of their vectors with the query's; a failure is a warning."""
        passages = await threads.short(snapshot.every_passage)
        if not passages:
            return Meant()
        try:
            [query] = await self._embed([task.prompt])
            kept = await threads.short(partial(self._load, passages))
            vectors = {copy: vector for copy, vector in kept.items() if len(vector) == len(query)}
            missing = [hit for hit in passages[:EMBEDDED_PASSAGES] if hit.copy not in vectors]
            end = monotonic() + EMBEDDING_SECONDS
            while missing and monotonic() < end:
                batch, missing = missing[:EMBEDDING_BATCH], missing[EMBEDDING_BATCH:]
                embedded = await self._embed([snapshot.passage(hit).text for hit in batch])
                new = {hit.copy: vector for hit, vector in zip(batch, embedded, strict=True)}
                await threads.short(partial(self._keep, new))
                vectors |= new
        except ModelError as error:
            warning = f"searched by words alone: {self._model} failed: {error}"
            busy = error if isinstance(error, TransientModelError) else None
            return Meant((), (warning,), total(self._spent), failed=1, busy=busy)
        seen = [hit for hit in passages if hit.copy in vectors]
        hits = await threads.short(partial(nearest, seen, vectors, query))
        unseen = len(passages) - len(seen)
        warning = f"{tally_words(unseen, 'passage')} not searched by meaning yet"
        return Meant(hits, (warning,) if unseen else (), total(self._spent))

    def _load(self, passages: Sequence[Hit]) -> dict[int, Vector]:
        """Read the vectors by the numbers of their texts; a damaged file is replaced."""
        try:
            with closing(sqlite3.connect(self._path)) as database, database:
                database.execute(CREATE)
                if database.execute("SELECT count(*) FROM vectors").fetchone()[0] > 3 * len(
                    passages
                ):
                    database.execute(PRUNE, [str([hit.copy for hit in passages])])
                chosen = "SELECT copy, vector FROM vectors WHERE model = ?"
                rows = database.execute(chosen, [self._model])
                return {copy: np.frombuffer(vector, np.float32) for copy, vector in rows}
        except sqlite3.OperationalError:
            return {}
        except sqlite3.DatabaseError:
            self._path.unlink(missing_ok=True)
            return {}

    def _keep(self, new: Mapping[int, Vector]) -> None:
        rows = [(self._model, copy, vector.tobytes()) for copy, vector in new.items()]
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(self._path)) as database,
            database,
        ):
            database.execute(CREATE)
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

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
            known = {
                "gen_ai.provider.name": found.provider,
                "gen_ai.embeddings.dimension.count": len(found.vectors[0]),
                "gen_ai.usage.input_tokens": found.spending.input_tokens,
                "mull.cost.usd": found.spending.cost_usd,
            }
            span.set_attributes({name: value for name, value in known.items() if value is not None})
        if found.spending.input_tokens is not None:
            tokens = meter.create_histogram("gen_ai.client.token.usage", unit="{token}")
            tokens.record(found.spending.input_tokens, {**labels, "gen_ai.token.type": "input"})
        self._spent.append(found.spending)
        vectors = np.asarray(found.vectors, np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        # At length 1 a product is the cosine. A vector of zeros stays one.
        return list(vectors / np.where(lengths, lengths, 1))


def nearest(hits: Sequence[Hit], vectors: Mapping[int, Vector], query: Vector) -> list[Hit]:
    """Rank at most 200 passages by the cosine with a query; equals in a fixed order."""
    cosines = [round(float(vectors[hit.copy] @ query), 6) for hit in hits]
    scored = [hit._replace(score=cosine) for hit, cosine in zip(hits, cosines, strict=True)]
    return ordered(scored)[:NEAREST]


def fuse(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Fuse rankings by the sum of 1 / (60 + rank) over the lists that hold a passage.

    Source: Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods", SIGIR 2009.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    hits: dict[int, Hit] = {}
    for ranking in rankings:
        for rank, hit in enumerate(distinct(ranking), 1):
            scores[hit.copy] += 1 / (FUSION_CONSTANT + rank)
            hits.setdefault(hit.copy, hit)
    return ordered([hit._replace(score=round(scores[copy], 9)) for copy, hit in hits.items()])
