"""A run on the server, by its id: it is waited for, followed, looked at, steered and read."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import Any, Generic, Self, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from mull.batch.request import PAGE_ID
from mull.batch.result import BatchResult
from mull.connection import DATA_CONVERTER, TASK_QUEUE, cancellable, translated, unserved
from mull.drafts import Result
from mull.errors import (
    DoubtfulError,
    MullError,
    NoWorkerError,
    RequestError,
    RunCancelledError,
    RunFailedError,
    checked,
    no_worker,
    stuck_words,
)
from mull.loops import BATCH, BY_WORKFLOW, SAMPLING, Loop, loop_of
from mull.news import LOOK, News
from mull.notebook import html_of
from mull.request import Finish, Request, Review
from mull.sampling.result import PersonsAnswer
from mull.text import FITTED_DECISIONS
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
        handle: WorkflowHandle[Any, Any],
        description: Any = None,
    ) -> None:
        self.temporal, self.loop, self.handle = temporal, loop, handle
        self.description = description

    def __repr__(self) -> str:
        return f"<mull.Run {self.command} {self.id}>"

    @classmethod
    def of(
        cls,
        temporal: Client,
        loop: Loop,
        identity: str,
        described: Any = None,
        run_id: str | None = None,
    ) -> Self:
        """Return the run with this id, the newest one by default, without asking the server."""
        handle = temporal.get_workflow_handle(identity, run_id=run_id, result_type=loop.result)
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
                raise ended(self.id, error) from None
        self._named(found)
        if check and (doubt := found.doubt):
            raise DoubtfulError(found, doubt)
        return found

    async def look(self) -> ResultT:
        """Return the record of the run as it stands, open or closed. Raises NoWorkerError."""
        with translated(self.id):
            seen = await self.glance()
            if seen is None:
                described = await self.handle.describe()
                if described.status is WorkflowExecutionStatus.COMPLETED:
                    return await self.result()
                if stuck := stuck_words(described.raw_description.pending_workflow_task.attempt):
                    raise NoWorkerError(stuck)
                said = "the run is open, but no worker answers queries for it now"
                raise NoWorkerError(said, "Start one with `mull-worker` or `mull dev`.")
        return seen

    async def glance(self, patience: timedelta = LOOK) -> ResultT | None:
        """Query the record of the run, open or closed; None if no worker answers.

        If earlier decisions may have been left out, they are queried too.
        """
        loop = self.loop
        try:
            seen: Any = await self.handle.query(
                "progress", result_type=loop.result, rpc_timeout=patience
            )
            if loop is BATCH and seen.under_way:
                # A batch itself hears only of pages that have ended.
                names = [self.id + PAGE_ID.format(number) for number in seen.under_way]
                runs = [Run[BatchResult].of(self.temporal, BATCH, name) for name in names]
                pages = [await run.glance(patience) for run in runs]
                seen = None if None in pages else seen.with_pages(pages)
            elif loop is not BATCH and len(seen.decisions) == FITTED_DECISIONS:
                kind: Any = loop.result.model_fields["decisions"].annotation
                every = await self.handle.query("decisions", result_type=kind, rpc_timeout=patience)
                seen = seen.model_copy(update={"decisions": every})
        except (RPCError, WorkflowQueryFailedError):
            return None
        return self._named(seen) if seen else None

    async def __aiter__(self) -> AsyncIterator[ResultT]:
        """Yield the record a second after each change, every two seconds at most.

        The last one is the result. Raises what `result` raises.
        """
        last = None
        async with aclosing(aiter(News(self))) as news:
            async for new in news:
                if new.ended or (new.record is not None and new.record != last):
                    last = new.record
                    yield self._named(last.model_copy())

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

    async def was_asked(self, request: Request, *, besides: Iterable[str] = ()) -> bool:
        """Tell whether this request started the run, whatever was carried on or `besides`."""
        asked, left = await self.request(), {"stream", "carried", *besides}
        same = self.loop is loop_of(request) and asked is not None
        return same and bool(asked.model_dump(exclude=left) == request.model_dump(exclude=left))

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
        """End the run with what it has; calls in flight are cancelled. Raises RequestError.

        A training that collects goes on, and trains on what is collected.
        """
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
    loop = BY_WORKFLOW.get(described.workflow_type)
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
