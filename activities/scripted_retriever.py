"""The retriever's fake: it finds what a test wrote down, and nothing else."""

import asyncio
from collections.abc import Sequence

from activities.documents.retrieval import (
    Progress,
    Retrieval,
    RetrievalError,
    RetrievalTask,
    unwatched,
)
from reflection.multipath.state import Passage

Turn = Sequence[Passage] | Retrieval | Exception


class ScriptedRetriever:
    """Answer the i-th retrieval with the i-th turn: passages, a whole retrieval, or an error.

    Each takes `delay` seconds. A retrieval that the script does not foresee fails, loudly.
    """

    def __init__(self, turns: Sequence[Turn] = (), *, delay: float = 0) -> None:
        self._turns = list(turns)
        self._delay = delay
        self.tasks: list[RetrievalTask] = []
        self.cancelled = 0

    async def retrieve(self, task: RetrievalTask, progress: Progress = unwatched) -> Retrieval:
        """Find what the script says. Raises the script's errors."""
        self.tasks.append(task)
        if len(self.tasks) > len(self._turns):
            raise RetrievalError(f"no retrieval is scripted for call {len(self.tasks)}")
        turn = self._turns[len(self.tasks) - 1]
        progress(0, 1)
        await self._wait()
        progress(1, 1)
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, Retrieval) else of_passages(turn)

    async def _wait(self) -> None:
        try:
            await asyncio.sleep(self._delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def of_passages(passages: Sequence[Passage]) -> Retrieval:
    """Make a retrieval of passages whose files are all that there is."""
    files = len({each.source for each in passages})
    return Retrieval(passages=tuple(passages), files=files, searched=files)


def passage(number: int, text: str, source: str | None = None) -> Passage:
    """Make the passage of a source, by its number from 1."""
    return Passage(
        id=f"{number:012x}-0",
        source=source or f"document-{number}.md",
        first_line=1,
        last_line=1 + text.count("\n"),
        score=1 / number,
        text=text,
    )
