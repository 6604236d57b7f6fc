"""Search documents in the worker's folders by words, and by meaning if asked."""

import asyncio
import hashlib
import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import NamedTuple, Self

from filelock import FileLock, Timeout

from activities.documents.index import (
    DamagedError,
    Hit,
    Index,
    Manifest,
    Snapshot,
    differs,
    distinct,
    generation,
)
from activities.documents.meaning import MeaningSearch, Meant, fuse
from activities.documents.retrieval import (
    Embedder,
    Progress,
    Retrieval,
    RetrievalError,
    RetrievalTask,
    TransientRetrievalError,
    WordsAloneError,
    unwatched,
)
from activities.documents.roots import EXHAUSTED, Roots, UnreadableError, Walked, quoted, walk
from activities.documents.threads import CheckStopped, Threads
from reflection.text import terminal_safe

# Increase when splitting or storing changes: older indexes are then not used.
VERSION = "4"
HITS = 100
OPEN_FOLDERS = 16
LOCK_SECONDS = 60.0
LOCK_POLL_SECONDS = 0.1
# A check of all files that takes longer than the first value runs in at most a tenth of the time.
FREE_CHECK_SECONDS = 0.005
CHECK_COSTS = 10
# How many files are named for one reason why they were left out, and in how many columns.
NAMED = 3
NAME_COLUMNS = 80
BUSY = "another worker is reading this folder: what it has read so far was searched"

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
        self._embedder = embedder
        self._threads = Threads()
        self._folders: dict[str, Folder] = {}

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
                logger.warning("an index of documents is damaged and built again: %s", error)
                await folder.remove_index()
                return await self._search(folder, task, progress)
        except UnreadableError as error:
            said = f"the folder {quoted(task.docs)} can't be read: {error}"
            raise RetrievalError(said) from None
        except (OSError, DamagedError) as error:
            raise TransientRetrievalError(_explained(error)) from None

    def close(self) -> None:
        """Close the threads; a later search starts new ones."""
        self._threads.close()

    async def _search(self, folder: "Folder", task: RetrievalTask, progress: Progress) -> Retrieval:
        found = await folder.refresh(progress)
        snapshot = found.snapshot
        hits = await self._threads.short(partial(snapshot.search, task.prompt, HITS))
        meant = await self._search_meaning(folder, snapshot, task)
        chosen = choose(fuse([hits, meant.hits]) if meant.hits else hits, task.passages)
        searched = sum(not entry.reason for entry in snapshot.manifest.values())
        warnings = [] if found.fresh else [BUSY]
        if found.fresh and not searched:
            warnings.append(f"the folder {quoted(task.docs)} has no file that can be searched")
        retrieval = Retrieval(
            passages=tuple(map(snapshot.passage, chosen)),
            files=len(found.walked.files) + sum(map(len, found.walked.left_out.values())),
            searched=searched,
            left_out=left_out(found.walked, snapshot.manifest),
            warnings=(*warnings, *meant.warnings),
            spending=meant.spending,
            failed=meant.failed,
        )
        if meant.busy is not None:
            raise WordsAloneError(meant.busy, retrieval)
        return retrieval

    async def _search_meaning(
        self, folder: "Folder", snapshot: Snapshot, task: RetrievalTask
    ) -> Meant:
        if task.embedding_model is None:
            return Meant()
        if self._embedder is None:
            return Meant(warnings=("searched by words alone: no embedding models are served",))
        vectors = folder.place / "vectors.sqlite3"
        model, seconds = task.embedding_model, task.timeout_seconds
        search = MeaningSearch(self._embedder, model, seconds, vectors)
        return await search.found(task, snapshot, self._threads)

    def _open(self, real: str) -> "Folder":
        """Return the folder, opened again if it was not used for long, which takes milliseconds."""
        folder = self._folders.pop(real, None)
        if folder is None:
            name = hashlib.sha256(os.fsencode(real)).hexdigest()[:32]
            place = self._cache / "documents" / VERSION / name
            folder = Folder(real, place, self._lock_seconds, self._threads)
        self._folders[real] = folder
        if len(self._folders) > OPEN_FOLDERS:
            del self._folders[next(iter(self._folders))]
        return folder


class Indexed(NamedTuple):
    """What may be searched. It is not `fresh` where another process holds the index."""

    store: Index
    snapshot: Snapshot
    walked: Walked
    fresh: bool = True
    next_check: float = 0.0


class Folder:
    """A folder by its real path, and its index, kept as fresh as its files.

    Work in a thread changes nothing here, so that a thread that hangs is in nobody's way; the
    index itself is safe, as such a thread still holds its lock.
    """

    def __init__(self, real: str, place: Path, lock_seconds: float, threads: Threads) -> None:
        self.place = place
        self._real = real
        self._lock_seconds = lock_seconds
        self._threads = threads
        self._turn = asyncio.Lock()
        self._indexed: Indexed | None = None

    async def refresh(self, progress: Progress) -> Indexed:
        """Bring the index to the state of the files.

        A check of many files is not made again at once: it may take a tenth of the time. Raises
        UnreadableError, DamagedError, and OSError where the index can't be kept.
        """
        async with self._turn:
            work = partial(self._refreshed, self._indexed, progress)
            self._indexed = await self._threads.long(work)
            return self._indexed

    async def remove_index(self) -> None:
        """Delete a damaged index, unless another process has written it meanwhile."""
        async with self._turn:
            damaged = generation(self.place / "index")
            self._indexed = None
            await self._threads.long(partial(self._remove, damaged))

    def _refreshed(
        self, old: Indexed | None, progress: Progress, check_stopped: CheckStopped
    ) -> Indexed:
        if old is not None and monotonic() < old.next_check:
            return old._replace(snapshot=old.store.newest())
        if old is None:
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        index = Index(self.place / "index") if old is None else old.store
        started = monotonic()
        walked = walk(self._real, check_stopped)
        cost = monotonic() - started
        snapshot = index.newest()
        if not differs(walked, snapshot.manifest):
            pause = CHECK_COSTS * cost if cost > FREE_CHECK_SECONDS else 0
            return Indexed(index, snapshot, walked, next_check=monotonic() + pause)
        with locked(self.place, self._lock_seconds, check_stopped) as held:
            if not held:
                return Indexed(index, index.newest(), walked, fresh=False)
            # Another process may have written since, of newer files than those seen here.
            walked = walk(self._real, check_stopped)
            return Indexed(index, index.update(self._real, walked, progress, check_stopped), walked)

    def _remove(self, damaged: object, check_stopped: CheckStopped) -> None:
        with locked(self.place, self._lock_seconds, check_stopped) as held:
            if held and generation(self.place / "index") == damaged:
                shutil.rmtree(self.place / "index", ignore_errors=True)


@contextmanager
def locked(place: Path, seconds: float, check_stopped: CheckStopped) -> Iterator[bool]:
    """Hold an index's lock among all processes, and yield True; False where another holds it.

    The system lets go of it when the process that holds it dies.
    """

    def check() -> bool:
        check_stopped()
        return False

    lock = FileLock(place / "lock", mode=0o600, poll_interval=LOCK_POLL_SECONDS)
    try:
        lock.acquire(seconds, cancel_check=check)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def choose(ranking: Sequence[Hit], most: int) -> list[Hit]:
    """Choose the best, at most half of them of one file while others have any left."""
    share = (most + 1) // 2
    ranking = distinct(ranking)
    taken: Counter[int] = Counter()
    chosen: list[Hit] = []
    spare: list[Hit] = []
    for hit in ranking:
        taken[hit.file] += 1
        (chosen if taken[hit.file] <= share else spare).append(hit)
    picked = {hit.copy for hit in (chosen + spare)[:most]}
    return [hit for hit in ranking if hit.copy in picked]


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where indexes are kept: MULL_CACHE, else `mull` in XDG_CACHE_HOME or ~/.cache."""
    if chosen := environment.get("MULL_CACHE"):
        return Path(chosen)
    home = environment.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "mull"


def left_out(walked: Walked, manifest: Manifest) -> tuple[str, ...]:
    """Summarize by reason how many files or pages were left out, with three names."""
    reasons = {reason: list(paths) for reason, paths in walked.left_out.items()}
    for path, entry in manifest.items():
        if entry.reason:
            reasons.setdefault(entry.reason, []).append(path)
        for reason, part in entry.parts:
            reasons.setdefault(reason, []).append(f"{part} of {path}")
    lines = []
    for reason, paths in sorted(reasons.items()):
        names = ", ".join(terminal_safe(path, NAME_COLUMNS) for path in sorted(paths)[:NAMED])
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        lines.append(f"{reason} ({len(paths):,}): {names}{more}")
    return tuple(lines)


def _explained(error: OSError | DamagedError) -> str:
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        return (
            f"the worker can't search the documents now ({error.strerror}): give its process more "
            "of that, or fewer activities at once"
        )
    reason = error.strerror if isinstance(error, OSError) else "it is damaged, though built again"
    return (
        f"the worker can't keep an index of the documents ({reason}): set MULL_CACHE, where it "
        "runs, to a folder that it may write and that has room"
    )
