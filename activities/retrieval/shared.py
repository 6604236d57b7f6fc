"""A folder that many searches share, of which one thread at a time keeps the index fresh."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from activities.documents import Progress
from activities.retrieval.folder import Folder, Indexed
from activities.retrieval.threads import Going, Threads

Result = TypeVar("Result")


class SharedFolder:
    """A folder and its turn. A thread that does not end keeps the folder, and others get a new one.

    The index itself is safe meanwhile: such a thread still holds its lock.
    """

    def __init__(self, real: str, place: Path, lock_seconds: float, threads: Threads) -> None:
        self.place = place
        self._real = real
        self._lock_seconds = lock_seconds
        self._threads = threads
        self._turn = asyncio.Lock()
        self._begin()

    async def refresh(self, progress: Progress) -> Indexed:
        """Bring the index to the state of the files. Raises what `Folder.refresh` does."""
        return await self._alone(lambda folder, going: folder.refresh(progress, going))

    async def rebuild(self) -> None:
        """Take a damaged index away, unless another process did so already."""
        await self._alone(Folder.rebuild)

    async def _alone(self, work: Callable[[Folder, Going], Result]) -> Result:
        async with self._turn:
            folder = self._folder
            return await self._threads.long(lambda going: work(folder, going), self._begin)

    def _begin(self) -> None:
        self._folder = Folder(self._real, self.place, self._lock_seconds)
