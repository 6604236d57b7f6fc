"""One folder: its index, kept as fresh as its files, by whichever process looks first."""

from pathlib import Path
from time import monotonic
from typing import NamedTuple

from activities.documents import Progress
from activities.retrieval.bounds import CHECK_COSTS, FREE_CHECK_SECONDS, LOCK_SECONDS
from activities.retrieval.index.damage import DamagedError
from activities.retrieval.index.lock import locked
from activities.retrieval.index.manifest import differs
from activities.retrieval.index.store import Snapshot, Store, remove_index
from activities.retrieval.index.updating import Update
from activities.retrieval.index.walk import Walked, walk
from activities.retrieval.threads import Going


class Indexed(NamedTuple):
    """What may be searched. It is not `fresh` where another process holds the index."""

    snapshot: Snapshot
    walked: Walked
    fresh: bool


class Folder:
    """A folder by its real path, and its index at a place of its own.

    One thread uses it: `activities.retrieval.shared` sees to that.
    """

    def __init__(self, real: str, place: Path, lock_seconds: float = LOCK_SECONDS) -> None:
        self.place = place
        self._real = real
        self._lock_seconds = lock_seconds
        self._walked = Walked()
        self._store: Store | None = None
        self._next_check = 0.0

    def refresh(self, progress: Progress, going: Going) -> Indexed:
        """Bring the index to the state of the files.

        A check of many files is not made again at once: it may take a tenth of the time.
        `going` is called often, and may raise. Raises UnreadableError, DamagedError, and OSError
        where the index can't be kept.
        """
        store = self._opened()
        store.refresh()
        fresh = monotonic() < self._next_check or self._check(store, progress, going)
        return Indexed(store.snapshot, self._walked, fresh)

    def rebuild(self, going: Going) -> None:
        """Take a damaged index away, unless another process did so already."""
        with locked(self.place / "lock", self._lock_seconds, going) as held:
            if held and not self._mended():
                remove_index(self.place / "index")
        self._store = None
        self._next_check = 0.0

    def _opened(self) -> Store:
        if self._store is None:
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._store = Store(self.place / "index")
        return self._store

    def _check(self, store: Store, progress: Progress, going: Going) -> bool:
        started = monotonic()
        self._walked = walk(self._real, going)
        cost = monotonic() - started
        if self._differs(store):
            return self._update(store, progress, going)
        if cost > FREE_CHECK_SECONDS:
            self._next_check = monotonic() + CHECK_COSTS * cost
        return True

    def _update(self, store: Store, progress: Progress, going: Going) -> bool:
        with locked(self.place / "lock", self._lock_seconds, going) as held:
            seen = store.snapshot.generation
            store.refresh()
            if not held:
                return False
            if store.snapshot.generation != seen:
                # Another process has written since, perhaps of newer files than those seen here.
                self._walked = walk(self._real, going)
            if self._differs(store):
                Update(store, self._real, progress, going).run(self._walked)
        return True

    def _differs(self, store: Store) -> bool:
        return store.snapshot.torn or differs(self._walked.files, store.snapshot.manifest)

    def _mended(self) -> bool:
        seen = self._store.snapshot.generation if self._store else None
        try:
            return Store(self.place / "index").snapshot.generation != seen
        except DamagedError:
            return False
