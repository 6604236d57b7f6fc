"""Search documents in the worker's folders by words."""

import asyncio
import hashlib
import json
import logging
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Self

from filelock import FileLock, Timeout

from activities.documents import retrieval
from activities.documents.formats import read_document
from activities.documents.index import is_current, lacks_resources, opened, search, update
from activities.documents.roots import (
    Roots,
    UnreadableError,
    Walked,
    folder_words,
    misleading,
    read_bytes,
    walk,
)
from activities.language_model import toy_file
from mull.multipath.parts import Passage
from mull.text import terminal_safe

# Increase it when splitting or storing changes, so that older indexes are not used.
VERSION = "6"
HITS = 100
LOCK_SECONDS = 60.0
LOCK_POLL_SECONDS = 0.1
# A check of all files that takes longer than the first value runs in at most a tenth of the time.
FREE_CHECK_SECONDS = 0.005
CHECK_COSTS = 10
# How many files are named for one reason why they were left out, and in how many columns.
NAMED = 3
NAME_COLUMNS = 80
BUSY = "another worker is still reading this folder: only the files read so far were searched"
SEARCHED = "SELECT count(*) FROM files WHERE digest != ''"
LEFT_OUT = "SELECT path, left_out FROM files WHERE left_out != '[]'"

logger = logging.getLogger("mull.retrieval")


# The files of a folder as listed, and until when they count as unchanged.
Snapshot = tuple[Walked, float]


class FolderRetriever:
    """The retriever of folders under `roots`, with its indexes under `cache`.

    It waits `lock_seconds` for another process that writes the index that it needs.
    """

    def __init__(self, roots: Roots, cache: Path, lock_seconds: float = LOCK_SECONDS) -> None:
        self._roots = roots
        self._cache = cache
        self._lock_seconds = lock_seconds
        self._threads = retrieval.Threads()
        # By real path. Searches that wait for their turn hold no thread.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._checked: dict[str, Snapshot] = {}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read MULL_DOCUMENTS and the variables of the cache folder."""
        return cls(Roots.from_environment(environment), cache_folder(environment))

    def close(self) -> None:
        """Close the threads."""
        self._threads.close()

    async def retrieve(
        self, task: retrieval.RetrievalTask, progress: retrieval.Progress = retrieval.unwatched
    ) -> retrieval.Retrieval:
        """Find passages; a thread calls `progress`.

        Raises RetrievalError, in one of its two kinds.
        """
        folder = await self._threads.run(lambda _: self._roots.resolve(task.docs))
        try:
            async with self._turns[folder]:
                found, self._checked[folder] = await self._threads.run(
                    lambda check: self._find(folder, task, progress, check)
                )
        except UnreadableError as error:
            said = f"the folder {folder_words(task.docs)} can't be read: {error}"
            raise retrieval.RetrievalError(said) from None
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise retrieval.TransientRetrievalError(
                f"the worker can't keep an index of the documents ({reason}): set MULL_CACHE, "
                "where it runs, to a folder that it may write and that has room, or allow its "
                "process more open files"
            ) from None
        return found

    async def read(self, docs: str, path: str) -> str:
        """Read a document of a folder, with the place of each part. Raises RetrievalError."""
        folder = await self._threads.run(lambda _: self._roots.resolve(docs))
        try:
            return await self._threads.run(lambda check: document_text(folder, path, check))
        except (UnreadableError, OSError, ValueError) as error:
            said = f"{folder_words(path)} in {folder_words(docs)}: {error}"
            raise retrieval.RetrievalError(said) from None

    def _find(
        self,
        folder: str,
        task: retrieval.RetrievalTask,
        progress: retrieval.Progress,
        check_stopped: retrieval.CheckStopped,
    ) -> tuple[retrieval.Retrieval, Snapshot]:
        """Search a folder; empty a damaged index, and build it again.

        This does not change the retriever, so that a hanging thread does not disturb others.
        """
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        place = self._cache / "documents" / VERSION / name / "index.sqlite3"
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return self._search(place, folder, task, progress, check_stopped)
        except sqlite3.Error as error:
            if lacks_resources(error):
                raise
            logger.warning("an index of documents is damaged and built again: %s", error)
        with (
            locked(place.parent, self._lock_seconds, check_stopped) as held,
            suppress(FileNotFoundError),
        ):
            if held:
                place.with_name(f"{place.name}-journal").unlink(missing_ok=True)
                # Emptied, not deleted: SQLite would apply the old file's journal to a new file.
                os.truncate(place, 0)
        return self._search(place, folder, task, progress, check_stopped)

    def _search(
        self,
        place: Path,
        folder: str,
        task: retrieval.RetrievalTask,
        progress: retrieval.Progress,
        check_stopped: retrieval.CheckStopped,
    ) -> tuple[retrieval.Retrieval, Snapshot]:
        """Bring the index at `place` to the state of the files, and rank its passages by words."""
        (walked, until), warnings = self._checked.get(folder, (Walked(), 0.0)), []
        with opened(place) as database:
            # Another process may have begun it anew.
            empty = database.execute("SELECT 1 FROM files LIMIT 1").fetchone() is None
            if empty or monotonic() >= until:
                started = monotonic()
                walked = walk(folder, check_stopped)
                seconds = monotonic() - started
                pause = CHECK_COSTS * seconds if seconds > FREE_CHECK_SECONDS else 0
                if not is_current(database, walked):
                    pause = 0
                    with locked(place.parent, self._lock_seconds, check_stopped) as held:
                        if held:
                            # Another process may have indexed newer files since.
                            walked = walk(folder, check_stopped)
                            update(database, folder, walked, progress, check_stopped)
                        else:
                            warnings.append(BUSY)
                until = monotonic() + pause
            passages = search(database, task.prompt, HITS)
            [searched] = database.execute(SEARCHED).fetchone()
            left_out = database.execute(LEFT_OUT).fetchall()
        if not searched and not warnings:
            named = folder_words(task.docs)
            warnings.append(f"the folder {named} has no file that can be searched")
        found = retrieval.Retrieval(
            passages=tuple(pick_passages(passages, task.passages)),
            files=len(walked.files) + sum(map(len, walked.left_out.values())),
            searched=searched,
            left_out=left_out_lines(walked, left_out),
            warnings=tuple(warnings),
        )
        return found, (walked, until)


def document_text(folder: str, path: str, check_stopped: retrieval.CheckStopped) -> str:
    """Read a file by its path in a folder, if it may be searched.

    Raises UnreadableError, OSError and ValueError.
    """
    if reason := misleading(os.path.realpath(Path(folder, path)), folder):
        raise UnreadableError(reason)
    parts = read_document(path, read_bytes(path, folder), check_stopped)
    placed = (Passage(id="", source=path, score=0, **part._asdict()) for part in parts)
    return "\n\n".join(f"{passage.place}\n{passage.text}" for passage in placed)


@contextmanager
def locked(place: Path, seconds: float, check_stopped: retrieval.CheckStopped) -> Iterator[bool]:
    """Hold an index's lock among all processes, and yield True; False where another holds it.

    The system releases it when the process that holds it dies.
    """

    def check() -> bool:
        check_stopped()
        return False

    lock = FileLock(place / "lock", mode=0o600, poll_interval=LOCK_POLL_SECONDS)
    try:
        held = lock.acquire(seconds, cancel_check=check)
    except Timeout:
        yield False
    else:
        with held:
            yield True


def pick_passages(ranking: Sequence[Passage], most: int) -> list[Passage]:
    """Choose the best, at most half of them from one file while other files have some left."""
    share = (most + 1) // 2
    taken: Counter[str] = Counter()
    chosen: list[Passage] = []
    spare: list[Passage] = []
    for passage in ranking:
        taken[passage.source] += 1
        (chosen if taken[passage.source] <= share else spare).append(passage)
    picked = {passage.text for passage in (chosen + spare)[:most]}
    return [passage for passage in ranking if passage.text in picked]


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where indexes are kept: MULL_CACHE, else with what is downloaded."""
    chosen = environment.get("MULL_CACHE")
    return Path(chosen) if chosen else toy_file.cache(environment)


def left_out_lines(walked: Walked, read: Sequence[tuple[bytes, str]]) -> tuple[str, ...]:
    """Summarize by reason how many files or pages were left out, with three names.

    `read` pairs the path of a file with JSON: the parts that were left out of it, and why. A part
    without a name is the whole file.
    """
    reasons = {reason: list(paths) for reason, paths in walked.left_out.items()}
    for path, parts in read:
        shown = os.fsdecode(path)
        for reason, part in json.loads(parts):
            reasons.setdefault(reason, []).append(f"{part} of {shown}" if part else shown)
    lines = []
    for reason, paths in sorted(reasons.items()):
        names = ", ".join(terminal_safe(path, NAME_COLUMNS) for path in sorted(paths)[:NAMED])
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        lines.append(f"{reason} ({len(paths):,}): {names}{more}")
    return tuple(lines)
