"""Documents in folders of the worker, searched by their words, and by their meaning if asked."""

import hashlib
import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Self

from activities.documents import (
    Progress,
    Retrieval,
    RetrievalError,
    RetrievalTask,
    TransientRetrievalError,
    WordsAloneError,
    unwatched,
)
from activities.retrieval.bounds import HITS, LOCK_SECONDS, OPEN_FOLDERS
from activities.retrieval.index.damage import EXHAUSTED, DamagedError, unwritable
from activities.retrieval.index.searching import search_words
from activities.retrieval.index.store import Snapshot
from activities.retrieval.meaning.embedding import Embedder
from activities.retrieval.meaning.observed import ObservedEmbedder
from activities.retrieval.meaning.search import MeaningSearch, Meant
from activities.retrieval.meaning.vectors import Vectors
from activities.retrieval.ranking import choose, fuse
from activities.retrieval.reading.lines import UnreadableError
from activities.retrieval.retrievals import left_out, passage, warnings
from activities.retrieval.roots import Roots, shown
from activities.retrieval.shared import SharedFolder
from activities.retrieval.threads import Threads

# Other code splits or stores differently: its indexes are other ones.
VERSION = "2"
VECTORS = "vectors.sqlite3"

logger = logging.getLogger("mull.retrieval")


class FolderRetriever:
    """The retriever of folders under `roots`, with its indexes under `cache`.

    It waits `lock_seconds` for another process that writes the index that it needs.
    """

    def __init__(
        self,
        roots: Roots,
        cache: Path,
        embedder: Embedder | None = None,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        self._roots = roots
        self._lock_seconds = lock_seconds
        self._cache = cache
        self._embedder = None if embedder is None else ObservedEmbedder(embedder)
        self._threads = Threads()
        self._folders: dict[str, SharedFolder] = {}

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], embedder: Embedder | None = None
    ) -> Self:
        """Read MULL_DOCUMENTS, and where the cache is."""
        return cls(Roots.from_environment(environment), cache_folder(environment), embedder)

    async def retrieve(self, task: RetrievalTask, progress: Progress = unwatched) -> Retrieval:
        """Find passages; `progress` is called from a thread.

        Raises RetrievalError, in one of its two kinds, and WordsAloneError.
        """
        real = await self._threads.short(partial(self._roots.resolve, task.docs))
        folder = self._open(real)
        try:
            try:
                return await self._search(folder, task, progress)
            except DamagedError as error:
                if unwritable(error, folder.place):
                    raise
                logger.warning("an index of documents is damaged and built anew: %s", error)
                await folder.rebuild()
                return await self._search(folder, task, progress)
        except UnreadableError as error:
            line = f"the folder {shown(task.docs)} can't be read: {error}"
            raise RetrievalError(line) from None
        except (OSError, DamagedError) as error:
            raise TransientRetrievalError(_unkept(error, folder.place)) from None

    def close(self) -> None:
        """Let go of the threads; a search after that begins new ones."""
        self._threads.close()

    async def _search(
        self, folder: SharedFolder, task: RetrievalTask, progress: Progress
    ) -> Retrieval:
        found = await folder.refresh(progress)
        snapshot = found.snapshot
        hits = await self._threads.short(partial(search_words, snapshot, task.prompt, HITS))
        meant = await self._meant(folder, snapshot, task)
        chosen = choose(fuse([hits, meant.hits]) if meant.hits else hits, task.passages)
        retrieval = Retrieval(
            passages=tuple(passage(snapshot, hit) for hit in chosen),
            files=len(found.walked.files) + sum(map(len, found.walked.left_out.values())),
            searched=sum(not each.reason for each in snapshot.manifest.values()),
            left_out=left_out(found.walked, snapshot.manifest),
            warnings=(*warnings(found, task.docs), *meant.warnings),
            spending=meant.spending,
            failed=meant.failed,
        )
        if meant.busy is not None:
            raise WordsAloneError(meant.busy, retrieval)
        return retrieval

    async def _meant(self, folder: SharedFolder, snapshot: Snapshot, task: RetrievalTask) -> Meant:
        """What can't be searched by meaning is searched by words alone, and says so."""
        if task.embedding_model is None:
            return Meant()
        if self._embedder is None:
            return Meant(warnings=("searched by words alone: no embedding models are served",))
        vectors = Vectors(folder.place / VECTORS)
        return await MeaningSearch(self._embedder, snapshot, vectors, self._threads).found(task)

    def _open(self, real: str) -> SharedFolder:
        """A folder that was not used for long is opened again: it costs milliseconds."""
        folder = self._folders.pop(real, None)
        if folder is None:
            name = hashlib.sha256(os.fsencode(real)).hexdigest()[:32]
            place = self._cache / "documents" / VERSION / name
            folder = SharedFolder(real, place, self._lock_seconds, self._threads)
        self._folders[real] = folder
        if len(self._folders) > OPEN_FOLDERS:
            del self._folders[next(iter(self._folders))]
        return folder


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Say where indexes are kept: MULL_CACHE, else `mull` in XDG_CACHE_HOME or ~/.cache."""
    if chosen := environment.get("MULL_CACHE"):
        return Path(chosen)
    home = environment.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "mull"


def _unkept(error: OSError | DamagedError, place: Path) -> str:
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        return (
            f"the worker can't search the documents now ({error.strerror}): give its process more "
            "of that, or fewer activities at once"
        )
    reason = unwritable(error, place) or "it is damaged, though built anew"
    return (
        f"the worker can't keep an index of the documents ({reason}): set MULL_CACHE, where it "
        "runs, to a folder that it may write and that has room"
    )
