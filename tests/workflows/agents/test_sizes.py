"""The largest run that a request allows: its events, its history, and how long its tasks take."""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from pydantic_core import to_json
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from activities.environments.activity import FEEDBACK_BYTES, OBSERVATION_BYTES, TASK_BYTES
from activities.environments.port import Evaluation, StepResult
from mull.agents.loop import ACTION_BYTES, EPISODE_BYTES, REFLECTION_BYTES, Reflexion
from mull.agents.memory import Reflection, SharedMemory
from mull.agents.request import (
    EXAMPLES_BYTES,
    MOST_EPISODES,
    MOST_STEPS,
    MemoryRequest,
    ReflexionRequest,
)
from mull.agents.result import ReflexionResult
from mull.agents.sheet import sheet
from mull.details import details
from mull.request import MOST_MEMBERS, parse_request
from mull.text import encoded_size, fitted
from tests.scripted import ScriptedModel
from tests.workflows.agents.running import Counting, served, start
from tests.workflows.test_sizes import HARD, MOST, sizes, stored

MOST_EVENTS = 51_200
# Half of what the SDK takes for a deadlock.
QUICK_SECONDS = 1.0
Text = Callable[[int], str]


class Hard:
    """Texts of so many bytes that no compression makes much smaller, each another one."""

    def __init__(self) -> None:
        self._chosen = random.Random(7)

    def __call__(self, size: int) -> str:
        return "".join(self._chosen.choices(HARD, k=size))


def swelling(character: str, size: int) -> str:
    """A text of so many bytes as JSON, of which a prompt's JSON has several times as many."""
    return character * (size // encoded_size(character))


def largest_of(text: Text) -> type[Counting]:
    """Make an environment where everything that it says is as long as it may be, to no avail."""

    class Largest(Counting):
        name = "largest"

        def reset(self, seed: int) -> str:
            del seed
            return text(TASK_BYTES)

        def step(self, action: str) -> StepResult:
            return StepResult(observation=action[:20] + text(OBSERVATION_BYTES - 150))

        def replay(self, action: str) -> None:
            """Nothing of it is kept."""

        def evaluate(self, answer: str | None) -> Evaluation:
            del answer
            return Evaluation(reward=0, correct=False, feedback=text(FEEDBACK_BYTES))

    return Largest


def largest_request(text: Text, examples: int) -> dict[str, Any]:
    """As long as instructions and examples may be: nearly all of the latter in one's prompt."""

    def example(size: int) -> dict[str, Any]:
        items = [
            {"kind": "action", "content": "look", "step": 1},
            {"kind": "observation", "content": text(size), "step": 1},
        ]
        return {"task": "Look.", "trajectory": {"items": items}}

    return {
        "environment": "largest",
        "strategy": "last_episode_and_reflexion",
        "episode_limit": MOST_EPISODES,
        "step_limit": MOST_STEPS,
        "planner_instructions": text(10_000),
        "reflector_instructions": text(10_000),
        "planner_examples": [example(examples // 20) for _ in range(20)],
        "reflector_examples": [{"context": example(9), "reflection": "Look well."}],
    }


def action(text: Text, step: int) -> str:
    """The largest actions come first, since each later step takes them along."""
    left = EPISODE_BYTES - 3 * ACTION_BYTES
    return f"{step} {text(ACTION_BYTES - 10 if step < 3 else left // MOST_STEPS - 20)}"


@pytest.mark.parametrize(
    ("text", "examples"),
    [
        (Hard(), EXAMPLES_BYTES - 10_000),
        (partial(swelling, "\x7f"), 13_000),
        (partial(swelling, "\x01"), 80_000),
        (partial(swelling, '"'), 45_000),
    ],
    ids=["hard", "delete", "control", "quote"],
)
async def test_a_run_ends_before_the_server_would_end_it(
    client: Client, monkeypatch: pytest.MonkeyPatch, text: Text, examples: int
) -> None:
    """No event passes 512 KiB, and a history that has grown too large ends the run with its best.

    The second episode is as large as all that follow. The bound is a lower one than that of every
    run, and what is added after it is the same.
    """
    bound, steps = 12_000_000, MOST_STEPS if isinstance(text, Hard) else 12
    monkeypatch.setattr("workflows.reflexion.HISTORY_BYTES", bound)
    plans = [action(text, step) for _ in range(2) for step in range(steps)]
    model = ScriptedModel(plan=plans, reflect=[text(REFLECTION_BYTES)] * 2)
    request = largest_request(text, examples) | {"step_limit": steps, "plateau_episodes": 0}
    async with served(client, model, largest_of(text)):
        handle = await start(client, request)
        result = ReflexionResult.model_validate(await handle.result())
    found = [event.event_type async for event in handle.fetch_history_events()]
    taken = sum(episode.steps for episode in result.episodes)
    kept = sum(await stored(handle))

    full = "the history of the run has" in result.stop_explanation
    assert (full, len(result.episodes)) == (isinstance(text, Hard), 2)
    assert kept < bound + 2_000_000
    assert max(await sizes(handle)) <= MOST
    assert len(found) / taken * MOST_EPISODES * MOST_STEPS < MOST_EVENTS
    assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in found
    assert EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT not in found


def test_the_longest_run_is_shown_and_ends_in_little_time() -> None:
    """Its result, its progress, its details and its next prompt are bounded, and soon made."""
    text = Hard()
    state = Reflexion(
        ReflexionRequest.model_validate(largest_request(text, 90_000) | {"task": "7"}),
        workflow_id="w",
    )
    state.initialise(text(TASK_BYTES), "Count.", ("look",), (), ())
    for number in range(MOST_EPISODES):
        state.begin_episode()
        while state.ended is None:
            state.planned(action(text, len(state.actions)))
            if state.executes():
                state.observe(text(OBSERVATION_BYTES), 0.0, None, done=False)
        state.evaluated(number / 100, text(FEEDBACK_BYTES), {"f1": 0.1}, correct=False)
        state.decide(datetime.now(UTC))
        reflection = state.reflected(text(REFLECTION_BYTES))
        assert reflection is not None
        state.semantic = state.semantic.remember(reflection)
        state.decide(datetime.now(UTC))

    assert [episode.steps for episode in state.episodes] == [MOST_STEPS] * MOST_EPISODES
    made: list[tuple[Callable[[], Any], int]] = [
        (state.result, MOST),
        (lambda: fitted(state.record()), MOST),
        (lambda: details(sheet(state.record()), None, "w"), 20_000),
        (lambda: state.planner_prompt, MOST),
        (lambda: state.reflector_prompt, MOST),
    ]
    for make, most in made:
        begun = time.thread_time()
        size = len(to_json(make()))
        assert (time.thread_time() - begun < QUICK_SECONDS, size < most) == (True, True), size


def test_a_full_memory_goes_on_in_one_event() -> None:
    """Whatever script its reflections are in, and however long the ids of their runs."""
    memory = SharedMemory()
    for number in range(1_200):
        origin = f"{number:0>1000}"
        reflection = Reflection(text="回" * 1_300, task="題" * 500, workflow_id=origin, episode=1)
        memory = memory.remember("題" * 500 + str(number // 3), reflection)

    size = len(to_json(MemoryRequest(name="full", held=memory)))

    assert (len(memory.known), len(memory.scopes) > 10, size < MOST) == (1_000, True, True)


def test_a_memory_of_many_scopes_is_read_again() -> None:
    """It goes on in a new history by a request, of whose objects so many members are read."""
    memory = SharedMemory()
    for number in range(1_400):
        memory = memory.remember(str(number), Reflection(text="Look.", episode=number))

    request = MemoryRequest(name="wide", held=memory)

    assert parse_request(MemoryRequest, to_json(request)) == request
    assert (len(memory.scopes), "1399" in memory.scopes) == (MOST_MEMBERS, True)
