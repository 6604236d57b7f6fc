"""Documents in folders of the worker, searched by their words, and by their meaning if asked."""

import asyncio
import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from activities.documents import Progress, Retrieval, RetrievalError, RetrievalTask, unwatched
from activities.retrieval.bounds import LOCK_SECONDS
from activities.retrieval.folder import Folder
from activities.retrieval.index.damage import DamagedError, unwritable
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
from activities.retrieval.stopping import in_thread

# Other code splits or stores differently: its indexes are other ones.
VERSION = "1"
OPEN_FOLDERS = 16
HITS = 100
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
        self._folders: dict[str, Folder] = {}

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], embedder: Embedder | None = None
    ) -> Self:
        """Read MULL_DOCUMENTS, and where the cache is."""
        return cls(Roots.from_environment(environment), cache_folder(environment), embedder)

    async def retrieve(self, task: RetrievalTask, progress: Progress = unwatched) -> Retrieval:
        """Find passages; `progress` is called from a thread. Raises RetrievalError."""
        real = await asyncio.to_thread(self._roots.resolve, task.docs)
        folder = self._open(real)
        try:
            try:
                return await self._search(folder, task, progress)
            except DamagedError as error:
                if unwritable(error, folder.place):
                    raise
                logger.warning("an index of documents is damaged and built anew: %s", error)
                async with folder.lock:
                    await in_thread(folder.rebuild)
                return await self._search(folder, task, progress)
        except UnreadableError as error:
            line = f"the folder {shown(task.docs)} can't be read: {error}"
            raise RetrievalError(line) from None
        except (OSError, DamagedError) as error:
            raise RetrievalError(_unkept(error, folder.place)) from None

    async def _search(self, folder: Folder, task: RetrievalTask, progress: Progress) -> Retrieval:
        async with folder.lock:
            found = await in_thread(lambda going: folder.refresh(progress, going))
        snapshot = found.snapshot
        hits = await asyncio.to_thread(search_words, snapshot, task.prompt, HITS)
        meant = await self._meant(folder, snapshot, task)
        chosen = choose(fuse([hits, meant.hits]) if meant.hits else hits, task.passages)
        return Retrieval(
            passages=tuple(passage(snapshot, hit) for hit in chosen),
            files=len(found.walked.files) + sum(map(len, found.walked.left_out.values())),
            searched=sum(not each.reason for each in snapshot.manifest.values()),
            left_out=left_out(found.walked, snapshot.manifest),
            warnings=(*warnings(found, task.docs), *meant.warnings),
            spending=meant.spending,
            failed=meant.failed,
        )

    async def _meant(self, folder: Folder, snapshot: Snapshot, task: RetrievalTask) -> Meant:
        """What can't be searched by meaning is searched by words alone, and says so."""
        if task.embedding_model is None:
            return Meant()
        if self._embedder is None:
            return Meant(warnings=("searched by words alone: no embedding models are served",))
        vectors = Vectors(folder.place / VECTORS)
        return await MeaningSearch(self._embedder, snapshot, vectors).found(task)

    def _open(self, real: str) -> Folder:
        """A folder that was not used for long is opened again: it costs milliseconds."""
        folder = self._folders.pop(real, None)
        if folder is None:
            name = hashlib.sha256(os.fsencode(real)).hexdigest()[:32]
            place = self._cache / "documents" / VERSION / name
            folder = Folder(real, place, self._lock_seconds)
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
    reason = unwritable(error, place) or "it is damaged, though built anew"
    return (
        f"the worker can't keep an index of the documents ({reason}): set MULL_CACHE, where it "
        "runs, to a folder that it may write and that has room"
    )
