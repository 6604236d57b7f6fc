"""A worker that is killed outright while a training's rollouts, or a run's scores, are made."""

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client

from activities.training.port import Scores, ScoreTask
from tests.chaos import runs
from tests.chaos.test_killed_agents import HANGS
from tests.chaos.working import working
from tests.conftest import begin, ended, until
from tests.scripted_endpoint import Body, Scripted
from tests.workflows.agents.scripted_training import ScriptedTraining, trains

WORLD = """
from tests.workflows.agents.running import Counting

class World(Counting):
    name = "world"
"""
RETROFORMER = "RetroformerWorkflow", {"task": "7", "reward_model": "r", "reflection_tries": 2}
TRAINING = (
    "RetroformerTrainingWorkflow",
    {
        "tasks": ["7", "70"], "rollouts": 1, "reflector": "openai/scripted",
        "base_model": "tiny", "tuned": "openai/scripted", "concurrency": 2,
    },
)  # fmt: skip


class Model:
    """Answer well where the reflection is good, and hang once where it is told to."""

    def __init__(self, hangs: str = "") -> None:
        self.asked: Counter[str] = Counter()
        self.hangs, self.hung = hangs, asyncio.Event()

    def __call__(self, request: Body) -> Scripted:
        prompt = request["messages"][0]["content"]
        # The first call of a reflector has no task.
        number = (re.findall(r"Task: Count to (\d+)\.", prompt) or ["none"])[-1]
        reflects = prompt.endswith("Reflection:")
        said = "Good advice." if request.get("seed") == 0 else "Poor advice."
        if not reflects:
            said = f"[answer] {number}" if "- Good advice." in prompt else "[answer] 5"
        what = "reflect" if reflects else "retry" if "advice." in prompt else "try"
        call = f"{what} {number} {request.get('seed')}"
        self.asked[call] += 1
        waits = what == self.hangs and self.asked[call] == 1
        if waits:
            self.hung.set()
        return Scripted(said, delay=HANGS if waits else 0)


class Training(ScriptedTraining):
    """Score, and hang at first where it is told to."""

    def __init__(self, hung: asyncio.Event, *, hangs: bool) -> None:
        super().__init__()
        self._hung, self._hangs = hung, hangs

    @activity.defn
    async def score_reflections(self, task: ScoreTask) -> Scores:
        self.scored.append(task)
        if self._hangs:
            self._hung.set()
            await asyncio.sleep(3)
        return Scores(scores=tuple(float("Good" in text) for text in task.reflections))


@pytest.mark.parametrize(
    ("asked", "places"), [(RETROFORMER, ("reflect", "score")), (TRAINING, ("try", "retry"))]
)
async def test_a_worker_killed_under_way_changes_nothing(
    client: Client, tmp_path: Path, asked: tuple[str, dict[str, Any]], places: tuple[str, str]
) -> None:
    """The same result, each call but those in flight is paid once, and a pair is kept once."""
    module, calm, models = tmp_path / "world.py", Model(), [Model(where) for where in places]
    module.write_text(WORLD)
    kind, fields = asked
    request = {"environment": "world", "budget_seconds": 300.0, **fields}
    found, pairs = [], []
    for number, one in enumerate((calm, *models)):
        training = Training(one.hung, hangs=one.hangs == "score")
        async with (
            working(one, tmp_path / f"{number}", "--environments", str(module)) as place,
            trains(client, training),
        ):
            handle = await begin(client, request, kind)
            if one is not calm:
                await until(one.hung.is_set)
                # What is asked for from now on is not cut off.
                one.hangs = ""
                place.replace()
            result = await ended(handle)
        # Two rollouts at once end in either order.
        result.get("gained", []).sort(key=str)
        found.append(str(runs.lasting(result)).replace(handle.id, "NAME"))
        pairs.append(sorted((pair.task, pair.rollout, *pair.gains) for pair in training.pairs))

    assert found == [found[0]] * 3
    assert pairs == [pairs[0]] * 3
    assert len(set(pairs[0])) == len(pairs[0])
    for where, model in zip(places, models, strict=True):
        again = {call.split()[0] for call, count in (model.asked - calm.asked).items() if count}
        assert again <= {where}
        assert model.asked.keys() == calm.asked.keys()
