"""The executor and the evaluator: activities that act in an environment and judge an episode.

A worker keeps its most recently used environments live. Each task of an activity lists the earlier
actions, so that any other worker can rebuild the same state by replaying them.
"""

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from hashlib import blake2b
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import to_json
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.environments.port import (
    Environment,
    Evaluation,
    Maker,
    Named,
    StepResult,
    TaskError,
    TaskRef,
    Verdict,
)
from mull.agents.loop import ACTION_BYTES
from mull.agents.memory import PlannerExample, ReflectorExample
from mull.agents.prompts import examples_bytes
from mull.agents.request import CODE
from mull.connection import heartbeating
from mull.keys import redacted
from mull.request import Record, explain
from mull.text import cut_with_note, well_formed

LIVE = 16
THREADS = 16
TASK_BYTES = 20_000
SETTING_BYTES = 150_000
CLOSING_SECONDS = 5
OBSERVATION_BYTES = 4_000
FEEDBACK_BYTES = 4_000

Value = TypeVar("Value")
RecordT = TypeVar("RecordT", bound=Record)


class Setting(Record):
    """The initial content of the memories: the task in words, and how to work on it.

    `verifies` is True if the environment has a hidden test for the final answer.
    """

    task: str
    instructions: str
    allowed_actions: tuple[str, ...]
    planner_examples: tuple[PlannerExample, ...]
    reflector_examples: tuple[ReflectorExample, ...]
    verifies: bool = False


class EpisodeTask(Record):
    """An episode of a task, by `key`, after `actions`; `seen` is a digest of their observations.

    A worker that rebuilds the episode refuses to go on if its observations differ. `action` is the
    next action, and `answer` the episode's, if it has one.
    """

    task: TaskRef
    key: str
    actions: tuple[str, ...] = ()
    seen: str = ""
    timeout_seconds: float = 60
    action: str = ""
    answer: str | None = None


def digest_of(observations: Iterable[str]) -> str:
    """Digest observations, in their order."""
    found = blake2b(digest_size=8)
    for text in observations:
        found.update(text.encode("utf-8", "replace") + b"\0")
    return found.hexdigest()


class LiveEnvironments:
    """The environments of a worker by name, and its live episodes.

    An episode is taken out while it is used, and comes back afterwards: an attempt that failed, or
    that runs beside another one, leaves nothing behind. Methods that are not `async` run in one of
    sixteen threads.
    """

    def __init__(self, environments: Iterable[Named], live: int = LIVE) -> None:
        self._makers: Mapping[str, Maker] = dict(environments)
        self._episodes: OrderedDict[str, tuple[Environment, tuple[str, ...]]] = OrderedDict()
        # Threads of its own, so that one hanging environment does not block another.
        self._threads = {name: ThreadPoolExecutor(THREADS) for name in self._makers}
        self._most = live

    async def call(
        self, name: str, method: Callable[..., Value | Awaitable[Value]], *given: object
    ) -> Value:
        """Call a method of the environment of this name."""

        def called() -> Any:
            try:
                return method(*given)
            except StopIteration as error:
                # A future can't hold a StopIteration.
                raise RuntimeError(repr(error)) from error

        if inspect.iscoroutinefunction(method):
            result = called()
        else:
            run, loop = copy_context().run, asyncio.get_running_loop()
            result = await loop.run_in_executor(self._threads[name], run, called)
        return cast("Value", await result if inspect.isawaitable(result) else result)

    async def close(self, made: Environment) -> None:
        """Close an environment that has `close`, and ignore its errors."""
        if (close := getattr(made, "close", None)) is not None:
            with suppress(Exception):
                async with asyncio.timeout(CLOSING_SECONDS):
                    await self.call(made.name, close)

    @asynccontextmanager
    async def begin(self, task: TaskRef) -> AsyncIterator[tuple[Environment, str]]:
        """Make an environment, and yield it with the task in words; close it if that fails.

        Raises TaskError.
        """
        if task.environment not in self._makers:
            # Code is run on a queue of its own, by workers that have no other environment.
            known = ", ".join(dict.fromkeys((CODE, *self._makers)))
            raise TaskError(f"unknown environment {task.environment!r}; the worker has {known}")
        name = task.environment
        made = await self.call(name, self._makers[name], task)
        try:
            yield made, clean_text(await self.call(name, made.reset, task.seed), TASK_BYTES)
        except BaseException:
            await self.close(made)
            raise

    @asynccontextmanager
    async def resume(self, task: EpisodeTask) -> AsyncIterator[Environment]:
        """Yield an episode as it stands after its actions; close it if its use fails.

        Raises TaskError.
        """
        made, actions = self._episodes.pop(task.key, (None, ()))
        if made is not None and actions == task.actions:
            try:
                yield made
            except BaseException:
                await self.close(made)
                raise
            return
        if made is not None:
            await self.close(made)
        async with self.begin(task.task) as (anew, _):
            await self._replay(anew, task)
            yield anew

    async def _replay(self, made: Environment, task: EpisodeTask) -> None:
        """Take the actions of an episode again."""
        if (replay := getattr(made, "replay", None)) is not None:
            for action in task.actions:
                await self.call(made.name, replay, action)
            return
        observations = []
        for action in task.actions:
            found = await self.call(made.name, made.step, action)
            observations.append(clean_text(found.observation, OBSERVATION_BYTES))
        if task.seen and digest_of(observations) != task.seen:
            said = "replaying the same actions gave other observations"
            raise TaskError(f"{said}: the environment is not repeatable")

    async def keep(self, key: str, made: Environment, actions: tuple[str, ...]) -> None:
        """Put an episode back, and close the least recently used ones above the limit."""
        replaced, _ = self._episodes.pop(key, (None, ()))
        self._episodes[key] = made, actions
        if replaced is not None:
            await self.close(replaced)
        while len(self._episodes) > self._most:
            _, (oldest, _) = self._episodes.popitem(last=False)
            await self.close(oldest)


def clean_text(text: str, most: int) -> str:
    """Return a text of an environment as history keeps it: without secrets, and not too long."""
    return cut_with_note(redacted(well_formed(text[: 4 * most])), most)


def checked(kind: type[RecordT], found: RecordT) -> RecordT:
    """Validate an environment's record, since an invalid one could not be read again.

    Raises TaskError.
    """
    if not isinstance(found, kind):
        raise TaskError(f"the environment returned {type(found).__name__}, not {kind.__name__}")
    try:
        return kind.model_validate(dict(found))
    except ValidationError as error:
        said = f"the environment returned a wrong {kind.__name__}: {explain(error)}"
        raise TaskError(said) from None


@asynccontextmanager
async def within_seconds(seconds: float) -> AsyncIterator[None]:
    """Bound the work of an environment.

    Raises ApplicationError, non-retryable for a TaskError.
    """
    async with heartbeating():
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            said = f"the environment did not answer within {seconds:g} s"
            raise ApplicationError(said, type="Timeout") from None
        except ApplicationError:
            raise
        except Exception as error:
            said = clean_text(" ".join(str(error).split()), FEEDBACK_BYTES)
            final = isinstance(error, TaskError)
            kind = type(error).__name__
            raise ApplicationError(said, type=kind, non_retryable=final) from None


class Executor:
    """The activities that begin a task and execute an action."""

    def __init__(self, live: LiveEnvironments) -> None:
        self._live = live

    @activity.defn
    async def begin_task(self, task: EpisodeTask) -> Setting:
        """Return the task in words, and how to work with its environment."""
        async with within_seconds(task.timeout_seconds), self._live.begin(task.task) as begun:
            made, words = begun
            setting = Setting(
                task=words,
                instructions=made.instructions,
                allowed_actions=tuple(made.allowed_actions),
                planner_examples=tuple(made.planner_examples),
                reflector_examples=tuple(made.reflector_examples),
                verifies=callable(getattr(made, "verify", None)),
            )
            examples = examples_bytes(setting.planner_examples, setting.reflector_examples)
            if max(len(to_json(setting)), examples) > SETTING_BYTES:
                raise TaskError(f"its task and examples exceed {SETTING_BYTES:,} bytes")
            await self._live.close(made)
            return setting

    @activity.defn
    async def execute_action(self, task: EpisodeTask) -> StepResult:
        """Execute an action, and return the environment's answer."""
        async with within_seconds(task.timeout_seconds), self._live.resume(task) as made:
            found = await self._live.call(made.name, made.step, task.action)
            result = checked(StepResult, found)
            await self._live.keep(task.key, made, (*task.actions, task.action))
            known = {
                "observation": clean_text(result.observation, OBSERVATION_BYTES),
                "answer": result.answer and clean_text(result.answer, ACTION_BYTES),
            }
            return result.model_copy(update=known)


class Evaluator:
    """The activities that judge an episode, and, once, the final answer by a hidden test."""

    def __init__(self, live: LiveEnvironments) -> None:
        self._live = live

    @activity.defn
    async def evaluate_episode(self, task: EpisodeTask) -> Evaluation:
        """Judge an episode by the environment's own rules."""
        async with within_seconds(task.timeout_seconds), self._live.resume(task) as made:
            found = await self._live.call(made.name, made.evaluate, task.answer)
            await self._live.close(made)
            result = checked(Evaluation, found)
            said = clean_text(result.feedback, FEEDBACK_BYTES)
            return result.model_copy(update={"feedback": said})

    @activity.defn
    async def verify_answer(self, task: EpisodeTask) -> Verdict:
        """Run the hidden test on the final answer, and keep the test's text here."""
        async with within_seconds(task.timeout_seconds), self._live.begin(task.task) as begun:
            made: Any = begun[0]
            try:
                found: Verdict = await self._live.call(made.name, made.verify, task.answer or "")
            except (TaskError, ApplicationError):
                raise
            except Exception as error:
                # The error's message may quote the test.
                raise RuntimeError(f"the test raised {type(error).__name__}") from None
            await self._live.close(made)
            return checked(Verdict, found)
