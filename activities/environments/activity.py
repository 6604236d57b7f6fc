"""The executor and the evaluator: activities that act in an environment and judge an episode.

A worker keeps live environments, the most recently used ones. Each task of an activity says which
actions came before, so that any other worker rebuilds the same state by replaying them.
"""

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from typing import Any, TypeVar, cast

from pydantic_core import to_json
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.environments.port import (
    Environment,
    Evaluation,
    Hidden,
    Maker,
    Named,
    StepResult,
    TaskError,
    TaskRef,
    Verdict,
)
from connection import CODE_HEARTBEAT_SECONDS, heartbeating, redacted
from reflection.agents.memory import PlannerExample, ReflectorExample
from reflection.request import Record
from reflection.text import cut_with_note, well_formed

LIVE = 64
THREADS = 16
TASK_BYTES = 20_000
SETTING_BYTES = 150_000
OBSERVATION_BYTES = 4_000
FEEDBACK_BYTES = 4_000

Value = TypeVar("Value")
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mull-environments")


class Setting(Record):
    """What the memories are initialised with: the task in words, and how to work on it.

    `verifies` is True where the environment has a hidden test for the final answer.
    """

    task: str
    instructions: str
    allowed_actions: tuple[str, ...]
    planner_examples: tuple[PlannerExample, ...]
    reflector_examples: tuple[ReflectorExample, ...]
    verifies: bool = False


class EpisodeTask(Record):
    """An episode of a task, by `key`, after these `actions`; `seen` is a digest of what they gave.

    A worker that rebuilds the episode refuses to go on where its observations differ.
    """

    task: TaskRef
    key: str
    actions: tuple[str, ...] = ()
    seen: str = ""
    timeout_seconds: float = 60


class ActionTask(EpisodeTask):
    """The next action of an episode."""

    action: str


class AnswerTask(EpisodeTask):
    """The end of an episode: its answer, or None."""

    answer: str | None


def digest_of(observations: Iterable[str]) -> str:
    """Digest observations, in their order."""
    found = blake2b(digest_size=8)
    for text in observations:
        found.update(text.encode("utf-8", "replace") + b"\0")
    return found.hexdigest()


class LiveEnvironments:
    """The environments of a worker by name, and its live episodes.

    An episode is taken out while it is used, and comes back afterwards: an attempt that failed, or
    that runs beside another one, leaves nothing behind.
    """

    def __init__(self, environments: Iterable[Named], live: int = LIVE) -> None:
        self._makers: Mapping[str, Maker] = dict(environments)
        self._episodes: OrderedDict[str, tuple[Environment, tuple[str, ...]]] = OrderedDict()
        self._most = live

    async def make(self, task: TaskRef) -> tuple[Environment, str]:
        """Make an environment and reset it; return the task in words. Raises TaskError."""
        if task.environment not in self._makers:
            known = ", ".join(self._makers) or "none"
            raise TaskError(f"this worker has no environment {task.environment!r}; it has {known}")
        made = await called(self._makers[task.environment], task)
        return made, shown(await called(made.reset, task.seed), TASK_BYTES)

    async def take(self, task: EpisodeTask) -> Environment:
        """Take an episode as it stands after its actions. Raises TaskError."""
        made, actions = self._episodes.pop(task.key, (None, ()))
        if made is not None and actions == task.actions:
            return made
        await closed(made)
        made, _ = await self.make(task.task)
        if (replay := getattr(made, "replay", None)) is not None:
            for action in task.actions:
                await called(replay, action)
            return made
        observations = [
            shown((await called(made.step, action)).observation, OBSERVATION_BYTES)
            for action in task.actions
        ]
        if task.seen and digest_of(observations) != task.seen:
            await closed(made)
            raise TaskError("the same actions led elsewhere: the environment is not repeatable")
        return made

    async def keep(self, key: str, made: Environment, actions: tuple[str, ...]) -> None:
        """Put an episode back; the one that was used longest ago makes room."""
        self._episodes[key] = made, actions
        while len(self._episodes) > self._most:
            _, (oldest, _) = self._episodes.popitem(last=False)
            await closed(oldest)


async def called(function: Callable[..., Value | Awaitable[Value]], *given: object) -> Value:
    """Call a method of an environment; one that is not `async` runs in a thread."""
    if inspect.iscoroutinefunction(function):
        result: Any = function(*given)
    else:
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(_threads, lambda: function(*given))
    return cast("Value", await result if inspect.isawaitable(result) else result)


async def closed(made: Environment | None) -> None:
    """Close an environment that has something to close, whatever it says to that."""
    if (close := getattr(made, "close", None)) is not None:
        with suppress(Exception):
            await called(close)


def shown(text: str, most: int) -> str:
    """Return a text of an environment as history keeps it: without secrets, and not too long."""
    return cut_with_note(redacted(well_formed(text)), most)


async def bounded(work: Awaitable[Value], seconds: float) -> Value:
    """Await work of an environment for so long.

    Raises ApplicationError, non-retryable where there is no such task.
    """
    async with heartbeating(CODE_HEARTBEAT_SECONDS):
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TaskError as error:
            kind, said = type(error).__name__, shown(str(error), FEEDBACK_BYTES)
            raise ApplicationError(said, type=kind, non_retryable=True) from None
        except TimeoutError:
            raise ApplicationError(f"no end within {seconds:g} s", type="Timeout") from None
        except ApplicationError:
            raise
        except Exception as error:
            said = shown(str(error), FEEDBACK_BYTES)
            raise ApplicationError(said, type=type(error).__name__) from None


class Executor:
    """The activities that begin a task and execute an action."""

    def __init__(self, live: LiveEnvironments) -> None:
        self._live = live

    @activity.defn
    async def begin_task(self, task: EpisodeTask) -> Setting:
        """Tell what the task is, and how the environment is worked with."""
        return await bounded(self._setting(task.task), task.timeout_seconds)

    async def _setting(self, task: TaskRef) -> Setting:
        made, words = await self._live.make(task)
        setting = Setting(
            task=words,
            instructions=made.instructions,
            allowed_actions=tuple(made.allowed_actions),
            planner_examples=tuple(made.planner_examples),
            reflector_examples=tuple(made.reflector_examples),
            verifies=callable(getattr(made, "verify", None)),
        )
        await closed(made)
        if len(to_json(setting)) > SETTING_BYTES:
            raise TaskError(f"its task and examples exceed {SETTING_BYTES:,} bytes")
        return setting

    @activity.defn
    async def execute_action(self, task: ActionTask) -> StepResult:
        """Execute an action, and return what the environment answers."""
        return await bounded(self._step(task), task.timeout_seconds)

    async def _step(self, task: ActionTask) -> StepResult:
        made = await self._live.take(task)
        result = await called(made.step, task.action)
        await self._live.keep(task.key, made, (*task.actions, task.action))
        known = {
            "observation": shown(result.observation, OBSERVATION_BYTES),
            "answer": result.answer and shown(result.answer, OBSERVATION_BYTES),
        }
        return result.model_copy(update=known)


class Evaluator:
    """The activities that judge an episode, and, once, the final answer by a hidden test."""

    def __init__(self, live: LiveEnvironments) -> None:
        self._live = live

    @activity.defn
    async def evaluate_episode(self, task: AnswerTask) -> Evaluation:
        """Judge an episode by the environment's own rules."""
        return await bounded(self._evaluation(task), task.timeout_seconds)

    async def _evaluation(self, task: AnswerTask) -> Evaluation:
        made = await self._live.take(task)
        found = await called(made.evaluate, task.answer)
        await closed(made)
        return found.model_copy(update={"feedback": shown(found.feedback, FEEDBACK_BYTES)})

    @activity.defn
    async def verify_answer(self, task: AnswerTask) -> Verdict:
        """Run the hidden test on the final answer. No text of the test is returned."""
        return await bounded(self._verdict(task), task.timeout_seconds)

    async def _verdict(self, task: AnswerTask) -> Verdict:
        made, _ = await self._live.make(task.task)
        return await called(cast("Hidden", made).verify, task.answer or "")
