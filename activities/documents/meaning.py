"""Searching by meaning: every passage's vector is kept, and compared with the query's."""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from activities.documents.index import Hit, Snapshot, distinct
from activities.documents.retrieval import EMBEDDING_BATCH, Embedded, Embedder, RetrievalTask
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
VECTORS_BUSY_SECONDS = 10.0
CREATE = (
    "CREATE TABLE IF NOT EXISTS vectors "
    "(model TEXT, copy INTEGER, vector BLOB, PRIMARY KEY (model, copy)) WITHOUT ROWID"
)

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
    """One search of an index. Vectors are kept in a file by model and text, for the next one.

    Up to 20,000 passages are embedded, for at most a minute; the next search goes on from there.
    """

    def __init__(
        self, embedder: Embedder, snapshot: Snapshot, path: Path, threads: Threads
    ) -> None:
        self._embedder = embedder
        self._snapshot = snapshot
        self._path = path
        self._threads = threads
        self._spent: list[Spending] = []

    async def found(self, task: RetrievalTask, model: str) -> Meant:
        """Rank passages by the cosine of their vectors with the query's; a failure is a warning."""
        passages = await self._threads.short(self._snapshot.every_passage)
        if not passages:
            return Meant()
        try:
            [query] = await self._embed([task.prompt], model, task.timeout_seconds)
            vectors = await self._vectors(passages, model, len(query), task.timeout_seconds)
        except ModelError as error:
            warning = f"searched by words alone: {model} failed: {error}"
            busy = error if isinstance(error, TransientModelError) else None
            return Meant((), (warning,), total(self._spent), failed=1, busy=busy)
        seen = [hit for hit in passages if hit.copy in vectors]
        hits = await self._threads.short(partial(nearest, seen, vectors, query))
        unseen = len(passages) - len(seen)
        warning = f"{tally_words(unseen, 'passage')} not searched by meaning yet"
        return Meant(hits, (warning,) if unseen else (), total(self._spent))

    async def _vectors(
        self, passages: Sequence[Hit], model: str, size: int, seconds: float
    ) -> dict[int, Vector]:
        kept = await self._threads.short(partial(load_vectors, self._path, model))
        vectors = {copy: vector for copy, vector in kept.items() if len(vector) == size}
        missing = [hit for hit in passages[:EMBEDDED_PASSAGES] if hit.copy not in vectors]
        end = monotonic() + EMBEDDING_SECONDS
        for start in range(0, len(missing), EMBEDDING_BATCH):
            if monotonic() > end:
                break
            batch = missing[start : start + EMBEDDING_BATCH]
            texts = [self._snapshot.passage(hit).text for hit in batch]
            found = await self._embed(texts, model, seconds)
            new = {hit.copy: vector for hit, vector in zip(batch, found, strict=True)}
            await self._threads.short(partial(change_vectors, self._path, model, new))
            vectors |= new
        if len(kept) > 2 * len(passages):
            gone = kept.keys() - {hit.copy for hit in passages}
            await self._threads.short(partial(change_vectors, self._path, model, {}, gone))
        return vectors

    async def _embed(self, texts: Sequence[str], model: str, seconds: float) -> list[Vector]:
        cut = [text[:EMBEDDED_CHARACTERS] for text in texts]
        embedded = await observed(self._embedder, cut, model, seconds)
        self._spent.append(embedded.spending)
        return [unit(vector) for vector in embedded.vectors]


def nearest(hits: Sequence[Hit], vectors: Mapping[int, Vector], query: Vector) -> list[Hit]:
    """Rank at most 200 passages by the cosine with a query; equals in a fixed order."""
    if not hits:
        return []
    cosines = np.stack([vectors[hit.copy] for hit in hits]) @ query
    scored = [hit._replace(score=round(float(c), 6)) for hit, c in zip(hits, cosines, strict=True)]
    return sorted(scored, key=lambda hit: (-hit.score, hit.file, hit.ordinal))[:NEAREST]


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
    fused = [hit._replace(score=round(scores[copy], 9)) for copy, hit in hits.items()]
    return sorted(fused, key=lambda hit: (-hit.score, hit.file, hit.ordinal))


def unit(numbers: Sequence[float]) -> Vector:
    """Scale to length 1, so that a product is the cosine; a vector of zeros stays one."""
    vector = np.asarray(numbers, np.float32)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector


def load_vectors(path: Path, model: str) -> dict[int, Vector]:
    """Read all vectors of a model, by the number of their text; a damaged file is begun anew."""
    try:
        with _opened(path) as database:
            rows = database.execute("SELECT copy, vector FROM vectors WHERE model = ?", [model])
            return {copy: np.frombuffer(vector, np.float32) for copy, vector in rows}
    except sqlite3.OperationalError:
        return {}
    except sqlite3.DatabaseError:
        path.unlink(missing_ok=True)
        return {}


def change_vectors(
    path: Path, model: str, new: Mapping[int, Vector], gone: Iterable[int] = ()
) -> None:
    """Keep new vectors of a model, and drop those of texts that are gone, if that can be done."""
    rows = [(model, copy, vector.tobytes()) for copy, vector in new.items()]
    with suppress(sqlite3.Error), _opened(path) as database:
        database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        database.executemany(
            "DELETE FROM vectors WHERE model = ? AND copy = ?", [(model, copy) for copy in gone]
        )


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=VECTORS_BUSY_SECONDS)) as database, database:
        database.execute(CREATE)
        yield database


async def observed(
    embedder: Embedder, texts: Sequence[str], model: str, timeout_seconds: float
) -> Embedded:
    """Call an embedding model in an `embeddings {model}` span, and count it in two metrics.

    Texts and vectors never stand in a span. Raises what the model raises.
    """
    meter, started = metrics.get_meter(TRACER), perf_counter()
    duration = meter.create_histogram("gen_ai.client.operation.duration", unit="s")
    tokens = meter.create_histogram("gen_ai.client.token.usage", unit="{token}")
    labels = {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": model}
    failed = {}
    with trace.get_tracer(TRACER).start_as_current_span(
        SPAN_EMBEDDINGS.format(model=model), kind=SpanKind.CLIENT, record_exception=False
    ) as span:
        span.set_attributes({KIND: "EMBEDDING", **labels, "mull.texts": len(texts)})
        try:
            found = await embedder.embed(texts, model, timeout_seconds)
        except (ModelError, asyncio.CancelledError) as error:
            failed = {"error.type": error.kind if isinstance(error, ModelError) else "cancelled"}
            span.set_attributes(failed)
            span.set_status(Status(StatusCode.ERROR, str(error)))
            raise
        finally:
            duration.record(perf_counter() - started, {**labels, **failed})
        described = {
            "gen_ai.provider.name": found.provider,
            "gen_ai.embeddings.dimension.count": len(found.vectors[0]) if found.vectors else None,
            "gen_ai.usage.input_tokens": found.spending.input_tokens,
            "mull.cost.usd": found.spending.cost_usd,
        }
        span.set_attributes({name: value for name, value in described.items() if value is not None})
    if found.spending.input_tokens is not None:
        tokens.record(found.spending.input_tokens, {**labels, "gen_ai.token.type": "input"})
    return found
