"""A run on the server, by its id: it is waited for, looked at, steered and read."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, Self, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from mull.connection import DATA_CONVERTER, TASK_QUEUE, unserved
from mull.errors import (
    ConfigurationError,
    DoubtfulError,
    MullError,
    NoServerError,
    NoWorkerError,
    RequestError,
    RunCancelledError,
    RunFailedError,
    checked,
    no_worker,
)
from mull.loops import LOOPS, SAMPLING, Loop
from mull.notebook import html_of
from mull.progress import LOOK_SECONDS, Handle, News, look, stuck_words
from mull.request import Finish, Result, Review
from mull.sampling.result import PersonsAnswer
from mull.turn.approval import Permission, Question

ResultT = TypeVar("ResultT", bound=Result)

PATIENCE_SECONDS = 20
# The kind of a failure that somebody asked for.
TERMINATED = "Terminated"
# Eight messages of 2 MB in one workflow task are more than a gRPC message holds, and end the run.
UPDATE_BYTES = 400_000


# Records know no sheets, since sheets know them.
Result.drawn_by = html_of


class Run(Generic[ResultT]):
    """A run of a loop: wait for its result, look at it, steer it.

    `id` is the workflow's, and `command` names the loop: ask, reflect, agent, turn, reflexion,
    retroformer, train, batch or session. `description` is what the server said of it when it was
    found, None where it was started just now. Whatever ends the wait for it, it goes on.
    """

    def __init__(
        self,
        temporal: Client,
        loop: Loop,
        handle: Handle,
        description: Any = None,
    ) -> None:
        self.temporal, self.loop, self.handle = temporal, loop, handle
        self.description = description

    def __repr__(self) -> str:
        return f"<mull.Run {self.command} {self.id}>"

    @classmethod
    def of(cls, temporal: Client, loop: Loop, identity: str, described: Any = None) -> Self:
        """Return the newest run with this id, without asking the server."""
        handle = temporal.get_workflow_handle(identity, result_type=loop.result)
        return cls(temporal, loop, handle, described)

    @property
    def id(self) -> str:
        """The workflow's id."""
        return self.handle.id

    @property
    def command(self) -> str:
        """The loop's name, which is that of its command."""
        return self.loop.command

    @property
    def goes_on(self) -> bool:
        """True if the run had not ended when it was found."""
        described = self.description
        return described is None or described.status is WorkflowExecutionStatus.RUNNING

    async def result(self, *, check: bool = False) -> ResultT:
        """Wait for the result, however long it takes.

        With `check`, a result that is not to be built on is an error. Raises RunFailedError,
        RunCancelledError, DoubtfulError and NoServerError.
        """
        with translated(self.id):
            try:
                found: ResultT = await self.handle.result()
            except WorkflowFailureError as error:
                raise ended(self.id, error) from error
        self._named(found)
        if check and (doubt := found.doubt):
            raise DoubtfulError(found, doubt)
        return found

    async def look(self) -> ResultT:
        """Return the record of the run as it stands, open or closed. Raises NoWorkerError."""
        with translated(self.id):
            seen = await look(self.handle, self.loop)
            if seen is None:
                described = await self.handle.describe()
                if described.status is WorkflowExecutionStatus.COMPLETED:
                    return await self.result()
                said = "the run is open, but no worker answers queries for it now"
                raise NoWorkerError(stuck_words(described) or said)
        found: ResultT = seen
        return self._named(found)

    async def __aiter__(self) -> AsyncIterator[ResultT]:
        """Yield the record at each change that is seen, every two seconds at most.

        The last one is the result. Raises what `result` raises.
        """
        news, last = News(self.handle, self.loop), None
        ending, reading = asyncio.create_task(self.result()), asyncio.create_task(news.read())
        try:
            while not ending.done():
                await asyncio.wait({ending}, timeout=LOOK_SECONDS)
                if ending.done() or not news.due():
                    continue
                seen = await news.look()
                if seen is not None and seen != last and not ending.done():
                    last = seen
                    yield self._named(seen.model_copy())
            yield await ending
        finally:
            reading.cancel()
            ending.cancel()
            await asyncio.gather(reading, ending, return_exceptions=True)

    async def request(self) -> Any:
        """Read the run's request from its history; None if its input is not a valid request."""
        kind = self.loop.request
        with translated(self.id):
            async for event in self.handle.fetch_history_events(page_size=1):
                payloads = event.workflow_execution_started_event_attributes.input.payloads
                with suppress(ApplicationError):
                    found = await self.temporal.data_converter.decode(list(payloads), [kind])
                    # Bytes are decoded as they are, whatever type is asked for.
                    return next((each for each in found if isinstance(each, kind)), None)
                return None
        return None

    async def review(
        self,
        *,
        accept: bool = False,
        revise: str | None = None,
        replace: str | None = None,
        score: float | None = None,
        draft: int | None = None,
        author: str | None = None,
    ) -> None:
        """Decide on a result that waits for a person: one of accept, revise, replace and score.

        `draft` is the index, from 0, of the one that was looked at: the review is refused if
        another waits meanwhile. `author` is recorded as given. Raises RequestError.
        """
        if not self.loop.answers or not self.loop.actions:
            raise RequestError(f"{self.id} is a run of `{self.command}`, which takes no review")
        known = {"accept": accept, "revise": revise, "replace": replace, "score": score}
        given = checked(Review, {**known, "draft": draft, "author": author})
        if self.loop is SAMPLING and given.replace is not None:
            # Leave out the newline at the end of a file.
            given = given.model_copy(update={"replace": given.replace.strip()})
        await self.update("review", given)

    async def permit(
        self, question: Question, *, allow: bool, why: str = "", author: str | None = None
    ) -> None:
        """Allow or deny a tool call of a turn: a question of `look().questions`.

        Raises RequestError if the call does not wait, or is no longer the one that was shown.
        """
        known = {"call": question.call, "run_id": question.run_id, "digest": question.digest}
        given = checked(Permission, {**known, "allow": allow, "why": why, "author": author})
        await self.update("permit", given)

    async def finish(self, *, author: str | None = None) -> None:
        """End the run with what it has; calls in flight are cancelled. Raises RequestError."""
        await self.update("finish_now", checked(Finish, {"author": author}))

    async def cancel(self) -> None:
        """Cancel the run and its calls in flight; it ends without a result."""
        with translated(self.id):
            await self.handle.cancel()

    async def add(self, answer: str, *, author: str | None = None) -> int:
        """Add a person's answer to a run of `ask`, and return its index from 0 among the answers.

        It votes like any other, after the wave in flight. Raises RequestError.
        """
        if self.loop is not SAMPLING:
            raise RequestError(f"only runs of `ask` take answers, and this is `{self.command}`")
        given = checked(PersonsAnswer, {"answer": answer, "author": author})
        number: int = await self.update("add_answer", given)
        return number

    async def update(self, name: str, argument: object = None) -> Any:
        """Send an update of the workflow and return its result.

        Raises RequestError if it is refused or too large, and NoWorkerError if none answers.
        """
        sized(argument)
        with translated(self.id):
            if missing := await unserved(self.temporal, [TASK_QUEUE]):
                raise no_worker(missing)
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    with cancellable():
                        try:
                            return await self.handle.execute_update(name, argument)
                        except RPCError as error:
                            # It came within a task that failed, as at a history's end: the run
                            # never saw it.
                            if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                                raise
                            return await self.handle.execute_update(name, argument)
            except WorkflowUpdateFailedError as error:
                said = getattr(error.cause, "message", str(error.cause))
                raise RequestError(f"refused: {said}") from error
            except TimeoutError as error:
                later = "The update was accepted and applies as soon as a worker is back."
                raise NoWorkerError(f"no worker answered within {PATIENCE_SECONDS} s", later) from (
                    error
                )

    def _named(self, record: ResultT) -> ResultT:
        record._id = self.id
        return record


def sized(given: Any) -> Any:
    """Return what an update gives a run. Raises RequestError if it is too large."""
    size = len(DATA_CONVERTER.payload_converter.to_payload(given).data)
    if size > UPDATE_BYTES:
        raise RequestError(f"this is {size:,} bytes; a run takes at most {UPDATE_BYTES:,} at once")
    return given


async def described(temporal: Client, identity: str) -> WorkflowExecutionDescription | None:
    """Describe a run; None if there is none. A missing namespace is still an error."""
    try:
        return await temporal.get_workflow_handle(identity).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message:
            return None
        raise


async def find(temporal: Client, identity: str) -> Run[Any]:
    """Find a run of any loop by its id. Raises RequestError."""
    with translated(identity):
        described = await temporal.get_workflow_handle(identity).describe()
    loop = next((loop for loop in LOOPS if loop.workflow == described.workflow_type), None)
    if loop is None:
        raise RequestError(f"the workflow {identity} was not started by Mull", field="id")
    return Run.of(temporal, loop, identity, described)


def ended(identity: str, error: WorkflowFailureError) -> MullError:
    """Say how a run ended that has no result."""
    cause = error.cause
    if isinstance(cause, CancelledError):
        return RunCancelledError(identity)
    if isinstance(cause, ApplicationError):
        return RunFailedError(identity, cause.type or "ApplicationError", cause.message)
    kind = TERMINATED if isinstance(cause, TerminatedError) else type(cause).__name__
    return RunFailedError(identity, kind, str(cause))


@contextmanager
def cancellable() -> Iterator[None]:
    """Raise CancelledError where a task is cancelled that sends an update.

    The SDK raises an error of its own, which neither asyncio.timeout nor asyncio.run knows.
    """
    try:
        yield
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise asyncio.CancelledError from error


@contextmanager
def translated(identity: str | None = None) -> Iterator[None]:
    """Raise what the server refuses as an error of Mull's; `identity` is the run that it is about.

    Raises NoServerError, ConfigurationError, RequestError and MullError.
    """
    try:
        yield
    except RPCError as error:
        raise refused(error, identity) from error


def refused(error: RPCError, identity: str | None = None) -> MullError:
    """Say in Mull's terms what the server refused."""
    said, status = error.message.rstrip("."), error.status
    if status is RPCStatusCode.NOT_FOUND and "amespace" in said:
        do = "Set TEMPORAL_NAMESPACE to another, or make it: temporal operator namespace create"
        return ConfigurationError(said, do)
    if status is RPCStatusCode.NOT_FOUND and "already completed" in said:
        return RequestError(f"the run {identity} has already ended".replace(" None", ""))
    if status is RPCStatusCode.NOT_FOUND:
        which = f"no run has the id {identity}" if identity else "no run has this id"
        return RequestError(which, "List the runs with `mull list`.", "id")
    if status is RPCStatusCode.INVALID_ARGUMENT:
        return RequestError(f"the Temporal server refused: {said}")
    if status is RPCStatusCode.UNAVAILABLE:
        said = "the connection to the Temporal server was lost"
        return NoServerError(said, "Runs continue once it is back.")
    return MullError(f"the Temporal server refused: {said}")
