"""The calls of a run: their time-outs, how they are made and awaited, and what a failure means.

A person, the deadline or a cancellation may end a wait before its time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Generic, NamedTuple, TypeVar

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    FailureError,
    is_cancelled_exception,
)
from temporalio.exceptions import TimeoutError as CallTimedOut

with workflow.unsafe.imports_passed_through():
    from activities.critique import Written
    from activities.language_model import port as models
    from mull.connection import silence
    from mull.request import (
        CALL_SECONDS,
        INVALID,
        NORMAL_PRIORITY,
        THINKING_TOKENS,
        Finish,
        Request,
        Review,
        call_seconds,
    )
    from mull.run import Part, RunState

Value = TypeVar("Value")

SOMEBODY = "a person"

# Giving up a worker too early loses a call that may be made only once. So a worker with such a call
# may be silent for this many times as long.
ONLY_CALL_SILENCE = 2
AFTER_A_LOSS = timedelta(seconds=0.1)
CLIENT_MARGIN = timedelta(seconds=15)
# The worker itself ends such a call; the margin is for a worker that was lost.
BOUNDED_MARGIN = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=60)
QUEUE = timedelta(hours=1)
LOCAL = timedelta(seconds=10)
# Starting MCP servers, and listing their tools: a worker waits 15 s for those of a server. A turn
# of a minute has time left for an answer, also where no worker lists any.
STARTING = timedelta(seconds=20)


def failure(kind: str, said: str) -> ApplicationError:
    """Make the failure of a run or an update, by its kind and its words."""
    return ApplicationError(said, type=kind, non_retryable=True)


def require(kind: type[Request], inputs: tuple[object, ...], example: str) -> None:
    """Fail the run of a start without one valid request."""
    if len(inputs) != 1 or not isinstance(inputs[0], kind):
        said = f"no request: start this workflow with one JSON object, such as {example}"
        raise failure(INVALID, said)


def permanent(error: ActivityError) -> ApplicationError | None:
    """Return the run's failure if every such call would fail the same way; else None.

    An error that counts its calls is the last of several, and says nothing about other calls.
    """
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.non_retryable and not cause.details:
        return failure(str(cause.type), cause.message)
    return None


def unreachable(error: object) -> ApplicationError | None:
    """Return the failure of a run without any reply, if nothing listened to this call."""
    cause = error.cause if isinstance(error, ActivityError) else None
    if isinstance(cause, ApplicationError) and cause.type == models.UNREACHABLE:
        return failure(cause.type, cause.message)
    return None


def explain(error: ActivityError) -> str:
    """Say in one line why a call failed for good after its retries, and how often it did."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        often = f" ({cause.details[0]} calls)" if cause.details and not unreachable(error) else ""
        return f"{cause.type}: {cause.message}{often}"
    return "no reply in time" if isinstance(cause, CallTimedOut) else str(cause or error)


class Lost(NamedTuple):
    """Why there is no reply that can be used: the error's kind, and its words."""

    kind: str
    said: str

    def __str__(self) -> str:
        """Say both on one line."""
        return f"{self.kind}: {self.said}"

    @property
    def failure(self) -> ApplicationError:
        """The failure of the run, where it can't do without the reply."""
        return failure(self.kind, self.said)


def lost(error: ActivityError | str | None) -> Lost:
    """Split an error, or its line, into its kind, before the colon, and its words."""
    line = explain(error) if isinstance(error, ActivityError) else error
    kind, _, said = (line or "no reply").partition(": ")
    return Lost(kind, said) if said and " " not in kind else Lost("NoReply", line or kind)


def attempts_of(error: ActivityError, most: int) -> int:
    """Count the calls of an activity that failed for good: 1 if no such call can work."""
    if isinstance(error.cause, ApplicationError) and error.cause.details:
        return int(error.cause.details[0])
    return 1 if permanent(error) is not None else most


def priority(*, first: bool = True) -> Priority:
    """Say which calls come before this one: those of runs with a lower key, and first calls.

    By its fairness key each run has its turn, where the server has `matching.enableFairness`. The
    key is that of the run's start, or a hash of the root run's id, which may hold words of its own.
    """
    info = workflow.info()
    key, root = info.priority.priority_key or NORMAL_PRIORITY, info.root or info
    own = info.priority.fairness_key or sha256(root.workflow_id.encode()).hexdigest()[:16]
    # All calls of a batch have the last priority already.
    later = not first and key <= NORMAL_PRIORITY
    return Priority(priority_key=key + later, fairness_key=own)


def call_times(
    client_seconds: float | None,
    max_attempts: int,
    *limits: int | None,
    usual: float = CALL_SECONDS,
) -> dict[str, Any]:
    """Nest the time-outs of a model's call. The activity counts its attempts, without the 429s.

    Without `client_seconds` they follow from its limits of tokens. If a limit is None, the worker
    sets it, and that of a model that thinks is assumed here.
    """
    if client_seconds is None:
        longest = (call_seconds(limit or THINKING_TOKENS, usual) for limit in limits or (None,))
        client_seconds = max(longest)
    times = work_times(client_seconds, max_attempts)
    times["retry_policy"].maximum_attempts = 0
    # An error brings its own wait (activities/language_model/port.py), but for a lost worker's.
    times["retry_policy"].initial_interval = AFTER_A_LOSS
    return times


def work_times(client_seconds: float, max_attempts: int) -> dict[str, Any]:
    """Nest the time-outs around a client's, in seconds, as the SDK's options of an activity.

    The attempt outlasts the client by a margin, in which the call waits for its turn. The whole
    has room for every attempt, with the longest wait before it (a server's Retry-After is cut to
    that) and an hour in the queue.
    """
    attempt = timedelta(seconds=client_seconds) + CLIENT_MARGIN
    return {
        "start_to_close_timeout": attempt,
        "schedule_to_close_timeout": (attempt + LONGEST_WAIT) * max_attempts + QUEUE,
        # A worker that hangs for longer loses its calls too: they are made, and paid for, again.
        "heartbeat_timeout": timedelta(seconds=silence())
        * (1 if max_attempts > 1 else ONLY_CALL_SILENCE),
        "retry_policy": RetryPolicy(
            initial_interval=timedelta(seconds=1),
            backoff_coefficient=2.0,
            maximum_interval=timedelta(seconds=30),
            maximum_attempts=max_attempts,
            non_retryable_error_types=["PayloadsTooLarge"],
        ),
    }


def bounded_times(seconds: float, max_attempts: int) -> dict[str, Any]:
    """Nest the time-outs of a call that holds up a turn: all its attempts share these seconds."""
    whole = timedelta(seconds=seconds) + BOUNDED_MARGIN
    times = work_times(seconds, max_attempts)
    return {**times, "start_to_close_timeout": whole, "schedule_to_close_timeout": whole}


async def run_locally(activity: Callable[..., Any], *inputs: object) -> Any:
    """Run a quick activity in this worker, once; return None where it fails.

    Use it only where nothing else is waited for: a query meanwhile ends the workflow task, and then
    a replay has the result before the events of the next task, which the run saw first.
    """
    return await call_once(workflow.execute_local_activity, activity, inputs)


async def call_once(execute: Callable[..., Any], activity: Any, inputs: Sequence[object]) -> Any:
    """Run a quick activity by the SDK's function, once; return None where it fails."""
    try:
        return await execute(
            activity,
            args=inputs,
            start_to_close_timeout=LOCAL,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
    except FailureError as error:
        if is_cancelled_exception(error):
            # The run itself was cancelled, and what clears up after it expects CancelledError.
            raise asyncio.CancelledError from error
        workflow.logger.warning("a quick activity failed: %s", error)
        return None


class People:
    """A person's input to a run: the review that it waits for, and a request to end it.

    `budget_seconds` is the time until the deadline, None for no deadline. The time that people take
    does not count.
    """

    def __init__(self, budget_seconds: float | None = None) -> None:
        self._budget_seconds = budget_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._given: Review | None = None
        self._since: datetime | None = None
        self._waited = timedelta()
        self.finish: Finish | None = None
        self.until: datetime | None = None

    @property
    def waiting(self) -> bool:
        """True while a review is waited for, and none has come."""
        return self._since is not None and self._given is None

    @property
    def over(self) -> bool:
        """True once the run must not wait for anything more."""
        return self.finish is not None or self.late

    @property
    def late(self) -> bool:
        """True once the deadline has passed, or less than a timer's resolution is left."""
        left = self.seconds_left()
        return left is not None and left < 0.001

    def why_over(self, seconds: float | None) -> tuple[str, str, str | None]:
        """Return the stop reason of a run that is over, its words, and the person who ended it.

        `seconds` is the run's time budget.
        """
        if self.finish is None:
            return "deadline", f"the time budget of {seconds:g} s is used up", None
        who = self.finish.author or SOMEBODY
        return "finished_by_person", f"finished by {who}", who

    def seconds_left(self) -> float | None:
        """Return the seconds until the deadline, None without one."""
        if self._budget_seconds is None:
            return None
        used = workflow.now() - workflow.info().start_time - self._waited_in_all()
        return self._budget_seconds - used.total_seconds()

    def wake_at_deadline(self) -> None:
        """Set the one timer for the deadline, unless it is set: each is two events of history."""
        left = self.seconds_left()
        if self._timer is None and left is not None and left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self._wake)

    def _wake(self) -> None:
        # The time a person took does not count: calls under way have as much more.
        self._timer = None
        if self._since is None:
            self.wake_at_deadline()

    def review(self, given: Review) -> None:
        """Take a review."""
        self._given = given

    def begin_wait(self, seconds: float | None) -> None:
        """Begin to wait: from now on a review is taken, for so many seconds, or for ever."""
        self._since, self._given = workflow.now(), None
        self.until = None if seconds is None else self._since + timedelta(seconds=seconds)

    async def wait(self) -> Review | Finish | None:
        """Wait for a review, or for the wish to end; None where neither came in time."""
        await self.wait_for(lambda: self._given is not None)
        return self._given or self.finish

    async def wait_for(self, done: Callable[[], bool]) -> None:
        """Wait until it is done, or for the wish to end, or until the time is up."""
        left = None if self.until is None else self.until - workflow.now()
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: done() or self.finish is not None, timeout=left)
        self._waited, self._since, self.until = self._waited_in_all(), None, None

    def _waited_in_all(self) -> timedelta:
        now = timedelta() if self._since is None else workflow.now() - self._since
        return self._waited + now


async def settle(
    calls: Iterable[workflow.ActivityHandle[Any]],
    people: People,
    enough: Callable[[], bool] = lambda: False,
    *,
    late: bool = False,
) -> int:
    """Wait for all calls, for `enough`, for the deadline, or for a person who ends the run.

    Cancel the calls that still run, and return how many. The deadline does not end calls that may
    be `late`.
    """
    awaited = list(calls)
    people.wake_at_deadline()
    try:
        await workflow.wait_condition(
            lambda: (
                people.finish is not None
                or enough()
                or all(call.done() for call in awaited)
                or (people.late and not late)
            )
        )
        if people.finish is not None:
            # The SDK hands over an update before the replies of the same workflow task. A reply
            # that came first counts, on every replay, and the next task has both.
            await workflow.sleep(timedelta(milliseconds=1))
    finally:
        waiting = [call for call in awaited if not call.done()]
        for call in waiting:
            call.cancel()
    return len(waiting)


class Call(NamedTuple, Generic[Value]):
    """A call of an activity: its input, its summary, its time-outs, and where it is made.

    The deadline does not end one that may be `late`.
    """

    activity: Callable[..., Awaitable[Value]]
    task: object
    summary: str
    times: dict[str, Any]
    queue: str = models.TASK_QUEUE
    late: bool = False

    def start(self, *, first: bool = True) -> workflow.ActivityHandle[Value]:
        """Start it; the first one of its kind in a run comes before others."""
        return workflow.start_activity_method(
            self.activity,
            args=[self.task],
            task_queue=self.queue,
            summary=self.summary,
            priority=priority(first=first),
            **self.times,
        )


class Calls:
    """Calls that are awaited one by one, or side by side; `in_flight` counts those under way.

    What they cost, and how many were cancelled, is counted in the run's state.
    """

    def __init__(self, people: People, state: RunState[Any]) -> None:
        self._people = people
        self._state = state
        self._made = set[str]()
        self.in_flight = 0

    async def ask(self, part: Part, call: Call[Value]) -> Value | ActivityError | None:
        """Ask a model as `make` does; count what it cost, and warn of what was not sent.

        Raises ApplicationError where nothing listens, and no reply ever came to the run.
        """
        reply = await self.make(call)
        if isinstance(reply, ActivityError):
            policy: RetryPolicy = call.times["retry_policy"]
            most = policy.maximum_attempts or self._state.request.max_attempts
            self._state.pay(part, None, attempts_of(reply, most))
            failed = unreachable(reply)
            if failed and not self._state.every_spending and not self.in_flight:
                raise failed
        elif reply is not None:
            receipt: Any = getattr(reply, "receipt", reply)
            self._state.pay(part, receipt.spending, receipt.attempts)
            self._state.left_out(getattr(receipt, "left_out", ()))
        return reply

    async def ask_twice(
        self, part: Part, call: Call[Value], has_room: Callable[[], bool]
    ) -> list[Value | ActivityError | None]:
        """Ask as `ask` does, and once more with what was wrong where the reply can't be read.

        Return the replies, of which the last one counts, readable or not. `has_room` is asked
        before each call, and there is no call without room.
        """
        replies = list[Value | ActivityError | None]()
        asked: Any = call.task
        for again in ("", " again: the reply could not be read"):
            if not has_room():
                break
            summary = f"{call.summary}{again}"
            reply: Any = await self.ask(part, call._replace(task=asked, summary=summary))
            replies.append(reply)
            if not getattr(reply, "unreadable", False):
                break
            asked = asked.model_copy(update={"error": reply.error})
        return replies

    async def text(self, part: Part, call: Call[Written]) -> Written | Lost | None:
        """Ask for a text as `ask` does; say why there is none, None where it was cut short."""
        written = await self.ask(part, call)
        if isinstance(written, ActivityError):
            return lost(written)
        return lost(written.error) if written and written.text is None else written

    async def make(self, call: Call[Value]) -> Value | ActivityError | None:
        """Call an activity, and return its value, its error, or None where it was cut short."""
        name = call.activity.__name__
        started = call.start(first=name not in self._made)
        self._made.add(name)
        self.in_flight += 1
        try:
            self._state.lose(await settle([started], self._people, late=call.late))
        except asyncio.CancelledError:
            self._state.lose(1)
            raise
        finally:
            self.in_flight -= 1
        return outcome(started)


def outcome(call: workflow.ActivityHandle[Value]) -> Value | ActivityError | None:
    """Return what became of a call: None where it was cut short, or still runs."""
    if not call.done() or call.cancelled():
        return None
    error = call.exception()
    if error is None:
        return call.result()
    if not isinstance(error, ActivityError):
        raise error
    return error
