"""The ports to documents and to embedding models, and the activity that retrieves passages.

RetrievalError                   the documents can't be searched, and a retry would not help
└── TransientRetrievalError      it may work the next time: Temporal tries it again
WordsAloneError                  the embedding model is busy; holds what words alone find
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.heartbeat import heartbeating
from activities.language_model.port import TransientModelError
from reflection.multipath.state import Passage
from reflection.run import Record, Spending

# How many texts an embedding model gets in one call: every provider takes as many.
EMBEDDING_BATCH = 64

# Called from any thread with how many files were read, and how many there are.
Progress = Callable[[int, int], None]


def unwatched(done: int, total: int) -> None:
    """Tell nobody."""


class RetrievalTask(Record):
    """What to look for in which folder of the worker, and how many passages to return.

    `timeout_seconds` bounds one call of the embedding model.
    """

    prompt: str
    docs: str
    passages: int
    embedding_model: str | None = None
    timeout_seconds: float = 120.0


class Retrieval(Record):
    """The passages that fit best, the best first; and what was searched.

    `files` counts what was found, and `searched` those of them that could be read. `left_out` says
    which could not and why, at most a few of them by name. `spending` is what an embedding model
    cost, None where none was asked, and `failed` counts its calls that brought no reply.
    """

    passages: tuple[Passage, ...]
    files: int
    searched: int
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    spending: Spending | None = None
    failed: int = 0
    attempts: int = 1


class RetrievalError(Exception):
    """The documents can't be searched: no such folder, or none that the operator allows.

    A missing folder is permanent too, though another worker may have it: a mistyped name is by far
    the likelier reason, and nothing leads the next attempt to that worker.
    """


class TransientRetrievalError(RetrievalError):
    """The machine can't search now: its disk, its memory or its files are used up."""


class WordsAloneError(Exception):
    """The embedding model may work the next time, as `cause` says. `found` is without it."""

    def __init__(self, cause: TransientModelError, found: "Retrieval") -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.found = found


class Retriever(Protocol):
    """Whatever finds the passages of documents that fit a prompt."""

    async def retrieve(self, task: RetrievalTask, progress: Progress = unwatched) -> Retrieval:
        """Find passages. Raises RetrievalError, in one of its two kinds, and WordsAloneError."""
        ...


class Embedded(NamedTuple):
    """One vector for each text, all of one length, what they cost, and whose model made them."""

    vectors: list[list[float]]
    spending: Spending
    provider: str | None = None


class Embedder(Protocol):
    """Whatever turns texts into vectors, near each other where the texts mean alike."""

    async def embed(self, texts: Sequence[str], model: str, timeout_seconds: float) -> Embedded:
        """Embed texts; the seconds bound each call. Raises ModelError, and nothing else."""
        ...


class DocumentActivities:
    """What a run asks of documents."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    @activity.defn
    async def retrieve(self, task: RetrievalTask) -> Retrieval:
        """Find the passages that fit a prompt.

        While an embedding model is busy the search is tried again; the last attempt returns what
        words find. The heartbeat's details are two counts: the files that were read, and all
        files. Raises ApplicationError, non-retryable where a retry would not help.
        """
        info = activity.info()
        async with heartbeating() as progress:
            try:
                found = await self._retriever.retrieve(task, progress)
            except WordsAloneError as error:
                # Without a known maximum this attempt is taken for the last.
                most = info.retry_policy.maximum_attempts if info.retry_policy else 0
                if info.attempt < most:
                    wait = error.cause.retry_after
                    raise ApplicationError(
                        str(error),
                        type=error.cause.kind,
                        next_retry_delay=None if wait is None else timedelta(seconds=wait),
                    ) from None
                found = error.found
            except RetrievalError as error:
                raise ApplicationError(
                    str(error),
                    type=type(error).__name__,
                    non_retryable=not isinstance(error, TransientRetrievalError),
                ) from None
        return found.model_copy(update={"attempts": info.attempt})
