"""A worker that is killed outright while agents are in each step of an episode."""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from activities.memory import memory_id
from mull.agents.result import ReflexionResult
from tests.chaos import runs
from tests.chaos.rebuilt import assert_whole
from tests.chaos.test_killed_agent import until_code_runs
from tests.chaos.working import assert_decided, working
from tests.conftest import Handle, activities_of, begin, until
from tests.scripted_endpoint import Body, Scripted
from tests.workflows.agents.running import ended

# Where an agent hangs, until the worker is killed: at calls of the model, in the environment, and
# once its reflection is in the memory that it shares, but not yet in its history.
MODEL = ("plan", "reflect", "replan")
WORLD = ("begin", "execute", "evaluate", "remember", "again", "reevaluate", "verify")
HANGS = 100
ENVIRONMENT = f"""
import asyncio
import os
from pathlib import Path

from temporalio.client import Client

from activities.environments.port import Evaluation, StepResult, Verdict
from tests.workflows.agents.running import Counting

LOG = Path(__file__).with_suffix(".log")

async def note(name, place, what):
    with LOG.open("a") as log:
        log.write(f"{{name}} {{place}} {{os.getpid()}} {{what}}\\n")
    if name == f"at-{{place}}" and LOG.read_text().count(f"{{name}} {{place}} ") == 1:
        await asyncio.sleep({HANGS})

remember = Client.execute_update_with_start_workflow

async def remembered(client, update, task, **options):
    held = await remember(client, update, task, **options)
    await note(task.name, "remember", task.reflection.text)
    return held

Client.execute_update_with_start_workflow = remembered

class Slow:
    name = "slow"
    instructions, allowed_actions = Counting.instructions, Counting.allowed_actions
    planner_examples, reflector_examples = Counting.planner_examples, Counting.reflector_examples

    def __init__(self, task):
        self.run, self.sum, self.taken = task.task, 0, []

    async def reset(self, seed):
        await note(self.run, "begin", seed)
        return f"Count to 7, {{self.run}}."

    async def step(self, action):
        self.taken.append(action)
        place = {{"add[3] add[3]": "execute", "add[3] add[4]": "again"}}.get(" ".join(self.taken))
        await note(self.run, place or "step", " ".join(self.taken))
        self.sum += int(action[4:-1])
        return StepResult(observation=f"The sum is {{self.sum}}.", reward=0.25)

    async def evaluate(self, answer):
        place = "reevaluate" if answer == "7" else "evaluate"
        await note(self.run, place, f"{{self.sum}} {{answer}}")
        right = answer == str(self.sum) == "7"
        return Evaluation(reward=float(right), correct=right, feedback=f"The sum is {{self.sum}}.")

    async def verify(self, answer):
        await note(self.run, "verify", answer)
        return Verdict(passed=answer == "7", status="ok")
"""
PLANS = {False: ["add[3]", "add[3]", "[answer] 6"], True: ["add[3]", "add[4]", "[answer] 7"]}
LESSON = "I added 3 twice. Next time I add 3, then 4."
CALLS = [
    "begin_task", "recall_reflections",
    "plan_action", "execute_action", "plan_action", "execute_action", "plan_action",
    "evaluate_episode", "reflect_on_episode", "remember_reflection",
    "plan_action", "execute_action", "plan_action", "execute_action", "plan_action",
    "evaluate_episode", "verify_answer",
]  # fmt: skip


class Model:
    """Fail once, reflect, and follow the reflection: the request alone says which."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Body) -> Scripted:
        prompt = request["messages"][0]["content"]
        [name] = set(re.findall(r"Count to 7, (at-\w+)\.", prompt))
        if reflects := prompt.endswith("Reflection:"):
            place, said = "reflect", LESSON
        else:
            again, step = LESSON in prompt, int(re.findall(r"Action (\d+):", prompt)[-1])
            place = f"{'replan' if again else 'plan'}{step}"
            said = PLANS[again][step - 1]
        call = f"{name} {place}"
        self.asked[call] += 1
        hangs = place == ("reflect" if reflects else f"{name.removeprefix('at-')}2")
        hangs &= name == f"at-{place.rstrip('2')}" and self.asked[call] == 1
        return Scripted(said, delay=HANGS if hangs else 0)


async def agent(client: Client, name: str) -> Handle:
    request = {"environment": "slow", "task": name, "memory": name, "budget_seconds": 300.0}
    return await begin(client, request, "ReflexionWorkflow")


def lasting(result: ReflexionResult, name: str) -> Any:
    """What must be the same whether a worker was killed or not: all but times, names and ids."""
    whole = runs.lasting(result.model_dump(mode="json"))
    for reflection in whole["reflections"]:
        assert reflection.pop("workflow_id").startswith("test-")
    return json.loads(json.dumps(whole).replace(name, "NAME"))


async def attempts(handle: Handle) -> Counter[int]:
    """Count the activities of a run by how often each began."""
    history = await handle.fetch_history()
    begun = [event.activity_task_started_event_attributes for event in history.events]
    return Counter(one.attempt for one in begun if one.attempt)


def hanging(log: Path, model: Model) -> set[str]:
    lines = log.read_text().splitlines() if log.exists() else []
    asked = [call.rstrip("2") for call in model.asked]
    places = (one.split()[:2] for one in [*lines, *asked])
    return {name for name, place in places if name == f"at-{place}"}


async def test_a_worker_killed_in_each_step_of_an_episode_changes_nothing(
    client: Client, tmp_path: Path
) -> None:
    """The same result and memory; one step alone is repeated, on a state that was rebuilt.

    No recorded call of the model is paid for again, and the spans are whole.
    """
    module, model = tmp_path / "slow_world.py", Model()
    log = module.with_suffix(".log")
    module.write_text(ENVIRONMENT)
    names = [f"at-{place}" for place in (*MODEL, *WORLD)]
    async with working(model, tmp_path / "traces", "--environments", str(module)) as place:
        undisturbed = await ended(await agent(client, "at-nothing"))
        agents = {name: await agent(client, name) for name in names}
        await until(lambda: hanging(log, model) >= set(names))
        killed = str(place.worker.pid)
        place.replace()
        found = {name: await ended(agents[name]) for name in names}
        kept = {name: client.get_workflow_handle(memory_id(name)) for name in names}
        memories = {name: await one.query("memory") for name, one in kept.items()}

    expected = lasting(undisturbed, "at-nothing")
    assert (undisturbed.status, undisturbed.hidden_passed) == ("solved", True)
    for name, handle in agents.items():
        assert lasting(found[name], name) == expected, name
        assert await activities_of(handle) == CALLS, name
        assert await attempts(handle) == {1: len(CALLS) - 1, 2: 1}, name
        [held] = memories[name]["scopes"].values()
        assert [one["text"] for one in held["reflections"]] == [LESSON]
        await assert_decided(client, handle, tmp_path / "traces", found[name])
    again = {call for call, count in model.asked.items() if count > 1}
    assert again == {"at-plan plan2", "at-replan replan2", "at-reflect reflect"}
    assert max(model.asked.values()) == 2
    assert_rebuilt(log.read_text().splitlines(), killed)


def assert_rebuilt(lines: list[str], killed: str) -> None:
    """What the next worker did first in a run is the actions of the episode, in their order.

    An episode is rebuilt for the step that was cut off, and nothing is done in any other.
    """
    after = defaultdict[str, list[str]](list)
    for line in lines:
        name, place, process, what = line.split(" ", 3)
        if process != killed:
            after[name].append(what if place in {"step", "execute", "again"} else place)
    first, wrong, right = "add[3]", "add[3] add[3]", "add[3] add[4]"
    second = ["begin", first, right, "reevaluate", "begin", "verify"]
    episode = [first, wrong, "evaluate", "remember", *second]
    assert after == {
        "at-begin": ["begin", "begin", *episode],
        "at-plan": ["begin", *episode],
        "at-execute": ["begin", *episode],
        "at-evaluate": ["begin", *episode],
        "at-reflect": ["remember", *second],
        "at-remember": ["remember", *second],
        "at-replan": second,
        "at-again": second,
        "at-reevaluate": second,
        "at-verify": ["begin", "verify"],
    }


TASK = {
    "task_id": "double",
    "prompt": 'def double(n):\n    """Double a number.\n    >>> double(2)\n    4\n    """\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(21) == 42\n",
}
# A file is read as HumanEval's is; the program takes a while, in which it can be killed.
RUN = "run\n```python\nimport time\ntime.sleep(3)\nprint(21 * 2)\n```"
ANSWER = "[answer]\n```python\ndef double(n):\n    return 2 * n\n```"


def wrote(request: Body) -> Scripted:
    steps = request["messages"][0]["content"].rpartition("\nTask: ")[2]
    return Scripted(ANSWER if "Observation 1" in steps else RUN)


async def test_a_worker_killed_while_a_program_of_an_agent_s_runs(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULL_TASKS", str(tmp_path))
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK))
    request = {"environment": "code", "task": "double", "tasks": "tasks.jsonl"}
    async with working(wrote, tmp_path / "spans") as place:
        expected = await ended(await begin(client, request, "ReflexionWorkflow"))
        handle = await begin(client, request, "ReflexionWorkflow")
        code = await until_code_runs(handle, place.worker, "execute_action")
        place.replace()
        result = await ended(handle)
    await assert_whole(client, handle.id, tmp_path / "spans")

    assert code
    assert lasting(result, "double") == lasting(expected, "double")
    assert (result.status, result.hidden_passed) == ("solved", True)
    assert len(place.requests) == 4
    assert (await attempts(handle))[2] == 1
