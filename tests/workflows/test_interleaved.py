"""Two runs at once in one worker, outside the SDK's sandbox: neither sees anything of the other."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from temporalio.client import Client

import worker
from activities.environments.port import Named
from activities.language_model.port import LanguageModel, ModelCall
from mull.connection import TASK_QUEUE
from tests.conftest import QUERY
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel
from tests.workflows import batches
from tests.workflows.agents import running as learners
from tests.workflows.agents.scripted_training import ScriptedTraining, trains
from tests.workflows.agents.test_training import advised
from tests.workflows.multipath import running as agents
from tests.workflows.turn import running as turns

LEFT, RIGHT = "Alpha asks", "Beta asks"
# What differs between two runs of the same request.
OWN = frozenset({"timestamp", "at", "workflow_id", "id", "seconds", "remaining_s"})
LESSONS = [f"Lesson {number}." for number in range(3)]


def lesson(call: ModelCall) -> str:
    """Reflect by the seed, as reflections that are sampled side by side come in any order."""
    return f"Lesson {call.seed}."


def judged(name: str, *scores: float) -> dict[str, Any]:
    """A batch whose items are one run's own."""
    items = [{"query": f"{name}: {n}", "draft": f"score {s}"} for n, s in enumerate(scores)]
    return {"items": items, "variants": [batches.judging()], "max_concurrency": 1}


def counting(name: str, task: int) -> dict[str, Any]:
    said = {f"{part}_instructions": f"{name} {part}" for part in ("planner", "reflector")}
    return {"environment": "counting", "task": str(task), "scope": "environment", **said}


def training(name: str, *tasks: str) -> dict[str, Any]:
    own = {"environment": "counting", "tasks": tasks, "reflector": "base", "base_model": "tiny"}
    said = {f"{part}_instructions": f"{name} {part}" for part in ("planner", "reflector")}
    return {**own, **said, "rollouts": 1, "concurrency": 1}


REQUESTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "SelfConsistencyWorkflow": (
        {"question": f"{LEFT}?", "max_concurrency": 2},
        {"question": f"{RIGHT}?", "max_concurrency": 2, "max_responses": 6},
    ),
    "ReflectOnResultWorkflow": (
        {"query": f"{LEFT}: {QUERY}"},
        {"query": f"{RIGHT}: {QUERY}", "max_revisions": 2, "score_threshold": 0.9},
    ),
    "MultiPathWorkflow": (
        {"prompt": f"{LEFT}: {agents.PROMPT}", "mode": "research"},
        {"prompt": f"{RIGHT}: {agents.TASK}", "mode": "code"},
    ),
    "ToolTurnWorkflow": (
        {"message": f"{LEFT}?", "think_level": "low"},
        {"message": f"{RIGHT}?", "tools": ["look"]},
    ),
    "ReflexionWorkflow": (counting(LEFT, 7), counting(RIGHT, 9)),
    "RetroformerWorkflow": (
        counting(LEFT, 7) | {"reward_model": "r", "reflection_tries": 2},
        counting(RIGHT, 9) | {"reward_model": "r", "reflection_tries": 2},
    ),
    "RetroformerTrainingWorkflow": (training(LEFT, "7", "8"), training(RIGHT, "8", "9", "7")),
    "BatchWorkflow": (judged(LEFT, 0.4, 0.9, 0.8), judged(RIGHT, 0.1, 0.2)),
}


def models(kind: str) -> tuple[LanguageModel, LanguageModel]:
    if kind == "SelfConsistencyWorkflow":
        sure = ScriptedModel(sample=["7", "8", "7", "9", *["7"] * 6])
        return sure, ScriptedModel(sample=["1", "1", "2", "2", "3", "1"])
    if kind == "ReflectOnResultWorkflow":
        better = ScriptedModel(write=["a", "b"], judge=[0.3, 0.8])
        return better, ScriptedModel(write=["d", "e", "f"], judge=[0.4, 0.5, 0.45])
    if kind == "MultiPathWorkflow":
        reports = agents.researching(agents.WRONG, agents.FINE)
        return reports, agents.coding(agents.BAD, agents.GOOD)
    if kind == "ToolTurnWorkflow":
        sea, sky, bad = ([("look", {"place": place})] for place in ("sea", "sky", "bad"))
        answers = ScriptedModel(step=[sea, bad, "one"], reflection=["a thought"])
        return answers, ScriptedModel(step=[sky, sea, sea, "two"])
    if kind in {"ReflexionWorkflow", "RetroformerWorkflow"}:
        lessons = LESSONS if kind == "ReflexionWorkflow" else [lesson] * 8
        seven = ScriptedModel(
            plan=["add[6]", "[answer] 6", "add[7]", "[answer] 7"], reflect=lessons
        )
        return seven, ScriptedModel(
            plan=["add[1]", "add[8]", "[answer] 8", "[answer] 9"], reflect=lessons
        )
    reads = advised if kind == "RetroformerTrainingWorkflow" else batches.draft_reader
    return reads(), reads()


async def results(
    client: Client, kind: str, *requests: dict[str, Any]
) -> tuple[list[Any], ScriptedModel]:
    """Make these runs side by side in one worker, as production has it; return what came."""
    left, right = models(kind)
    # Each call goes to the model of the run whose name is in the prompt, a little later.
    model = ScriptedModel(
        delay=0.05, each=lambda call: (left if LEFT in call.shown else right).complete(call)
    )
    fails, passes = agents.report(False, True, True), agents.report(True, True, True)
    tester = agents.ScriptedTester(fails, passes)
    called = turns.Noted().tools()
    counting_up: Any = learners.Counting
    acting = [Named("counting", counting_up)]
    queues = ["mull", "llm", "tools"]
    serving = worker.build(client, queues, model, called=called, environments=acting)
    serving.append(tester.worker(client))
    ids = [f"two-{uuid.uuid4().hex}" for _ in requests]
    trainer = trains(client, ScriptedTraining([(1.0, 0.0)] * 4))
    async with trainer, worker.running(serving):
        runs = [
            client.execute_workflow(kind, request, id=identity, task_queue=TASK_QUEUE)
            for identity, request in zip(ids, requests, strict=True)
        ]
        found = await asyncio.wait_for(asyncio.gather(*runs), PATIENCE)
    named = zip(ids, found, strict=True)
    # Folders are named after runs.
    texts = [json.dumps(result).replace(identity, "ID") for identity, result in named]
    return [without_its_own(json.loads(text)) for text in texts], model


def without_its_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_its_own(inner) for name, inner in value.items() if name not in OWN}
    return [without_its_own(inner) for inner in value] if isinstance(value, list) else value


def test_every_workflow_is_here() -> None:
    """But for sessions, which do nothing before a message comes: their turns are here."""
    known = {kind.__name__ for kind in worker.WORKFLOWS}

    assert known - set(REQUESTS) == {"SessionWorkflow"}


@pytest.mark.parametrize("kind", REQUESTS)
async def test_two_runs_at_once_are_as_each_alone(client: Client, kind: str) -> None:
    """Their calls take turns, and each result is that of the same run without the other."""
    left, right = REQUESTS[kind]

    alone = [(await results(client, kind, one))[0][0] for one in (left, right)]
    together, model = await results(client, kind, left, right)

    assert together == alone
    assert together[0] != together[1]
    asked = "".join("A" if LEFT in call.shown else "B" for call in model.calls)
    assert asked not in {"".join(sorted(asked)), "".join(sorted(asked, reverse=True))}
