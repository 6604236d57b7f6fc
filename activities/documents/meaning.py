"""Search by meaning: passages' vectors are kept in the index, and compared with the prompt's."""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from activities.documents.index import opened, read_passages
from activities.documents.retrieval import EMBEDDING_BATCH, Embedder, Threads
from activities.language_model.port import ModelError, TransientModelError
from reflection.multipath.state import Passage
from reflection.run import Spending, total
from reflection.text import tally_words

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


@dataclass
class MeaningSearch:
    """One search of the index at `place` by a model, each call of which is bounded by `seconds`.

    Up to 20,000 passages are embedded, for at most a minute. Vectors are kept, and the next search
    goes on from there.
    """

    embedder: Embedder
    model: str
    seconds: float
    place: Path
    threads: Threads
    spent: list[Spending] = field(default_factory=list)

    async def search(self, prompt: str) -> Meant:
        """Rank passages by their cosine with the prompt; a failure is a warning."""
        try:
            [query] = await self._embed([prompt])
            rows, vectors, missing = await self.threads.run(lambda _: self._load(query.nbytes))
            end = monotonic() + EMBEDDING_SECONDS
            for start in range(0, len(missing), EMBEDDING_BATCH):
                if monotonic() > end:
                    break
                vectors |= await self._add(missing[start : start + EMBEDDING_BATCH])
        except ModelError as error:
            warning = f"searched by words alone: {self.model} failed: {error}"
            busy = error if isinstance(error, TransientModelError) else None
            return Meant((), (warning,), total(self.spent), failed=error.spending.calls, busy=busy)
        passages = await self.threads.run(lambda _: self._nearest(rows, vectors, query))
        unseen = len(rows) - len(vectors)
        warning = f"{tally_words(unseen, 'passage')} not searched by meaning yet"
        return Meant(passages, (warning,) if unseen else (), total(self.spent))

    def _load(self, size: int) -> tuple[dict[int, int], dict[int, Vector], list[tuple[int, str]]]:
        """Read the rows of different texts, their vectors, and the texts that have none yet."""
        rows, vectors = dict[int, int](), dict[int, Vector]()
        missing = list[tuple[int, str]]()
        with opened(self.place) as database:
            for copy, row, vector, text in database.execute(KNOWN, [self.model, size]):
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
        kept = [(self.model, copy, vector.tobytes()) for copy, vector in new.items()]

        def keep(_: object) -> None:
            with suppress(sqlite3.Error), opened(self.place) as database, database:
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", kept)

        await self.threads.run(keep)
        return new

    def _nearest(
        self, rows: Mapping[int, int], vectors: Mapping[int, Vector], query: Vector
    ) -> list[Passage]:
        copies = [copy for copy in rows if copy in vectors]
        if not copies:
            return []
        cosines = np.round(np.stack([vectors[copy] for copy in copies]) @ query, 6)
        best = np.argsort(-cosines, kind="stable")[:NEAREST]
        with opened(self.place) as database:
            scores = {rows[copies[at]]: float(cosines[at]) for at in best}
            return list(read_passages(database, scores).values())

    async def _embed(self, texts: Sequence[str]) -> list[Vector]:
        cut = [text[:EMBEDDED_CHARACTERS] for text in texts]
        found = await self.embedder.embed(cut, self.model, self.seconds)
        self.spent.append(found.spending)
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
