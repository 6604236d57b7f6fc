"""A worker that is killed outright while turns are at each of their calls."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.service import RPCError

from mull.turn import midturn
from mull.turn.result import ToolTurnResult
from tests.activities.test_turn_calls import calling
from tests.chaos import runs
from tests.chaos.working import assert_decided, working
from tests.conftest import Handle, begin, until
from tests.patience import PATIENCE
from tests.scripted_endpoint import Body, Scripted
from tests.workflows.turn.running import ended, permit

# Where a turn hangs, until the worker is killed: at calls of the model, of tools, and of a person.
PLACES = ["step0", "sky", "step1", "person", "write", "step2", "nowhere", "reflection", "step3"]
HANGS = 100
TOOLS = f'''
import asyncio
from pathlib import Path
from activities.tools import tool

LOG = Path(__file__).with_suffix(".log")

async def note(place, turn):
    with LOG.open("a") as log:
        log.write(f"{{turn}} {{place}}\\n")
    if turn == f"at-{{place}}" and LOG.read_text().count(f"{{turn}} {{place}}") == 1:
        await asyncio.sleep({HANGS})

@tool(read_only=True, idempotent=True, keys=("{{place}}",))
async def look(place: str, turn: str) -> str:
    """Look at a place."""
    await note(place, turn)
    if place == "nowhere":
        raise ValueError("there is no such place")
    return f"{{place}} is blue"

@tool()
async def write(place: str, turn: str) -> str:
    """Write of a place."""
    await note(place, turn)
    return "written"
'''
STEPS = [[("look", "sea"), ("look", "sky")], [("write", "write")], [("look", "nowhere")]]
LOST = "no word of it came back; whether it took effect is not known"


class Model:
    """Look twice, write, look where nothing is, and answer: the request alone says which."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Body) -> Scripted:
        messages = request["messages"]
        user = next(message for message in messages if message["role"] == "user")
        name = next(f"at-{place}" for place in ["nobody", *PLACES] if f"at-{place}" in str(user))
        step = sum(message["role"] == "assistant" for message in messages)
        reflects = messages[0]["content"] == midturn.SYSTEM
        call = f"{name} {'reflection' if reflects else f'step{step}'}"
        self.asked[call] += 1
        hangs = call == f"{name} {name.removeprefix('at-')}" and self.asked[call] == 1
        delay = HANGS if hangs else 0
        if reflects or step == len(STEPS):
            return Scripted("One place is missing." if reflects else "It is blue.", delay=delay)
        asked = [(tool, json.dumps({"place": at, "turn": name})) for tool, at in STEPS[step]]
        return Scripted(choices=calling(*asked).choices, delay=delay)


async def turn(client: Client, name: str) -> Handle:
    request = {"message": f"Is it blue, {name}?", "think_level": "low", "budget_seconds": 300.0}
    return await begin(client, request, "ToolTurnWorkflow")


async def allow(handle: Handle) -> None:
    """Allow the call that writes, as soon as it asks."""
    while True:
        with suppress(RPCError, WorkflowQueryFailedError, WorkflowUpdateFailedError):
            seen = await handle.query("progress")
            if any(call["status"] != "asking" for call in seen["calls"][2:3]):
                return
            if seen["questions"]:
                await permit(handle, 3)
        await asyncio.sleep(0.2)


def lasting(result: ToolTurnResult, name: str) -> Any:
    """What must be the same whether a worker was killed or not: all but times, names and ids."""
    whole = runs.lasting(result.model_dump(mode="json", exclude={"usage"}))
    return json.loads(json.dumps(whole).replace(name, "NAME"))


async def test_a_worker_killed_at_each_call_changes_nothing(client: Client, tmp_path: Path) -> None:
    """The same answer, calls, reflections and decisions, but for the write that was lost.

    What may have written is not done again: the model is told that nobody knows.
    """
    module, model = tmp_path / "slow_tools.py", Model()
    log = module.with_suffix(".log")
    module.write_text(TOOLS)
    names = [f"at-{place}" for place in PLACES]
    async with working(model, tmp_path / "traces", "--tools", str(module)) as serving:
        undisturbed = await turn(client, "at-nobody")
        await allow(undisturbed)
        expected = lasting(await ended(undisturbed), "at-nobody")
        turns = {name: await turn(client, name) for name in names}
        for place in PLACES[4:]:
            await asyncio.wait_for(allow(turns[f"at-{place}"]), PATIENCE)
        await until(lambda: hanging(log, model) >= set(names) - {"at-person"})
        serving.replace()
        allowed = [allow(turns[f"at-{place}"]) for place in PLACES[:4]]
        await asyncio.wait_for(asyncio.gather(*allowed), PATIENCE)
        found = {name: await ended(turns[name]) for name in names}

    for name in names:
        await assert_decided(client, turns[name], tmp_path / "traces", found[name])
    called = Counter(log.read_text().splitlines())
    assert {name: called[f"{name} write"] for name in names} == dict.fromkeys(names, 1)
    torn = found.pop("at-write")
    for name, result in found.items():
        assert lasting(result, name) == expected, name
    assert (torn.answer, torn.calls[2].status) == ("It is blue.", "timeout")
    assert torn.calls[2].content == LOST
    assert [each.outcome for each in torn.reflections] == ["reflected"] * 2
    again = {name: model.asked[f"{name} {name.removeprefix('at-')}"] for name in names}
    assert {name for name, count in again.items() if count == 2} == {
        f"at-{place}" for place in ("step0", "step1", "step2", "reflection", "step3")
    }


def hanging(log: Path, model: Model) -> set[str]:
    lines = log.read_text().splitlines()
    return {
        name
        for name, _, call in (one.partition(" ") for one in [*lines, *model.asked])
        if name == f"at-{call}"
    }
