"""The vectors of passages on disk, by model and by the text that they are of."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from activities.retrieval.bounds import VECTORS_BUSY_SECONDS

Vector = npt.NDArray[np.float32]

CREATE = (
    "CREATE TABLE IF NOT EXISTS vectors "
    "(model TEXT, copy INTEGER, vector BLOB, PRIMARY KEY (model, copy)) WITHOUT ROWID"
)


class Vectors:
    """A file of vectors of length 1. One that is damaged is begun anew, and can be done without."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, model: str) -> dict[int, Vector]:
        """Read all vectors of a model, by the number of their text."""
        try:
            with self._open() as database:
                rows = database.execute("SELECT copy, vector FROM vectors WHERE model = ?", [model])
                return {copy: np.frombuffer(vector, np.float32) for copy, vector in rows}
        except sqlite3.OperationalError:
            return {}
        except sqlite3.DatabaseError:
            self._path.unlink(missing_ok=True)
            return {}

    def add(self, model: str, vectors: Mapping[int, Vector]) -> None:
        """Keep further vectors of a model."""
        rows = [(model, copy, vector.tobytes()) for copy, vector in vectors.items()]
        with suppress(sqlite3.Error), self._open() as database:
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def keep(self, model: str, copies: Sequence[int]) -> None:
        """Drop a model's vectors of texts that are no more."""
        with suppress(sqlite3.Error), self._open() as database:
            database.execute("CREATE TEMP TABLE kept (copy INTEGER PRIMARY KEY)")
            database.executemany("INSERT OR IGNORE INTO kept VALUES (?)", [(c,) for c in copies])
            database.execute(
                "DELETE FROM vectors WHERE model = ? AND copy NOT IN (SELECT copy FROM kept)",
                [model],
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with (
            closing(sqlite3.connect(self._path, timeout=VECTORS_BUSY_SECONDS)) as database,
            database,
        ):
            database.execute(CREATE)
            yield database


def unit(numbers: Sequence[float]) -> Vector:
    """Scale to length 1, so that a product is the cosine; a vector of zeros stays one."""
    vector = np.asarray(numbers, np.float32)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector
