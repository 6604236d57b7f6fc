"""Record histories of this folder anew: python -m tests.replay.record NAME ... (needs a server).

Without names, all of them.

Run it only where a change to the order of steps is meant, and the workers of runs under way are
versioned; else the replay tests are right and the change is wrong.
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.exceptions import ApplicationError

import telemetry
from activities.language_model.port import PermanentModelError, SampleError, TransientModelError
from connection import TASK_QUEUE, connect
from tests.conftest import begin, begin_reflecting, served, until_asked
from tests.scripted import Judged, ScriptedAgent, ScriptedCritic, ScriptedModel, reflection, routed
from tests.workflows import batches
from tests.workflows.multipath import running as agents
from tests.workflows.turn import running as turns

FOLDER = Path(__file__).parent
WANTED = frozenset(sys.argv[1:])
POOR: dict[str, Any] = {"max_revisions": 0, "review_below": 0.6, "review_timeout_seconds": 1}


async def record(client: Client, name: str, model: ScriptedModel, **fields: Any) -> None:
    """Run once and write the history down."""
    if WANTED and name not in WANTED:
        return
    async with served(client, model):
        handle = await begin(client, {"question": "Which number is it?", **fields})
        if name == "finished-by-a-person":
            await until_asked(model, 5)
            await handle.execute_update("add_answer", {"answer": "7", "author": "ann"})
            await handle.execute_update("finish_now", {"author": "ann"})
        if name == "cancelled":
            await until_asked(model, 5)
            await handle.cancel()
        if name == "reviewed":
            await review(handle, {"replace": "7", "author": "ann"})
        await write(handle, name)


async def record_reflection(
    client: Client, name: str, model: ScriptedCritic, *reviews: dict[str, Any], **fields: Any
) -> None:
    """Run once, say what people say, and write the history down."""
    if WANTED and name not in WANTED:
        return
    async with served(client, model):
        handle = await begin_reflecting(client, **fields)
        for each in reviews:
            await review(handle, each)
        if name == "reflect-cancelled":
            await until_asked(model, 3)
            await handle.cancel()
        await write(handle, name)


async def record_batch(client: Client, name: str, *texts: str, **fields: Any) -> None:
    """Judge drafts once each, and write the history of the batch down.

    The ids of its runs are made of its own, which is `name`, as replaying takes it to be. A batch
    makes no run again that has a result, so that the server has to be a new one.
    """
    if WANTED and name not in WANTED:
        return
    model = batches.DraftReader()
    request = batches.batch_of(*texts, **fields)
    async with batches.served(client, model):
        handle: WorkflowHandle[Any, Any] = await client.start_workflow(
            "BatchWorkflow", request, id=name, task_queue=TASK_QUEUE
        )
        if name == "batch-finished-by-a-person":
            async with asyncio.timeout(30):
                while len(model.calls) < 2:
                    await asyncio.sleep(0.1)
            await handle.execute_update("finish_now", {"author": "ann"})
        await write(handle, name)


async def record_agent(
    client: Client,
    name: str,
    model: ScriptedAgent,
    tester: agents.ScriptedTester | None = None,
    *reviews: dict[str, Any],
    **fields: Any,
) -> None:
    """Run once over one passage, say what people say, and write the history down."""
    if WANTED and name not in WANTED:
        return
    known = {"docs": "tides", **({"prompt": agents.TASK} if tester else {}), **fields}
    async with agents.served(client, model, tester, agents.finding(agents.passage())):
        handle = await agents.start(client, **known)
        for each in reviews:
            await review(handle, each)
        if name in {"agent-cancelled", "agent-finished"}:
            await until_asked(model, 4)
        if name == "agent-cancelled":
            await handle.cancel()
        if name == "agent-finished":
            await handle.execute_update("finish_now", {"author": "ann"})
        await write(handle, name)


async def review(handle: WorkflowHandle[Any, Any], said: dict[str, Any]) -> None:
    """Review a run once it waits for it."""
    for _ in range(200):
        with suppress(WorkflowUpdateFailedError):
            await handle.execute_update("review", said)
            return
        await asyncio.sleep(0.1)


async def write(handle: WorkflowHandle[Any, Any], name: str) -> None:
    """Write the history of a run down once it has ended."""
    with suppress(WorkflowFailureError):
        await handle.result()
    history = await handle.fetch_history()
    (FOLDER / f"{name}.json").write_text(json.dumps(anonymous(json.loads(history.to_json()))))


def anonymous(part: Any) -> Any:
    """Leave out what tells of the machine: stack traces and the names of processes."""
    if isinstance(part, list):
        return [anonymous(each) for each in part]
    if not isinstance(part, dict):
        return part
    known = {name: anonymous(each) for name, each in part.items() if name != "stackTrace"}
    return known | ({"identity": "recorded"} if "identity" in known else {})


async def main() -> None:
    """Record one history for each way a run goes."""
    telemetry.set_up(None)
    client = await connect()
    busy = TransientModelError("busy", "RateLimitError", 429, retry_after=0.1)
    filtered = SampleError("filtered", "ContentPolicyViolationError", 400)
    await record(client, "waves", ScriptedModel(["7", "8", "7", "9", "7", "7", "8", "7", "7", "7"]))
    await record(
        client,
        "comparisons",
        ScriptedModel(
            ["seven", "7", "eight", "seven", "7"], same=lambda a, b: {a, b} == {"seven", "7"}
        ),
        answers="llm",
        max_responses=5,
    )
    await record(
        client,
        "failed-samples",
        ScriptedModel(["7", filtered, [busy, "7"], None, "7", "7", "7"]),
        answers="number",
    )
    await record(
        client,
        "deadline",
        ScriptedModel(["7", "7", "8", "7", "7"], delays=[0, 0, 30, 0, 30]),
        budget_seconds=2,
    )
    slow = ScriptedModel(["7"] * 5, delays=[0, 30, 30, 30, 30])
    await record(client, "finished-by-a-person", slow)
    await record(client, "cancelled", ScriptedModel(["7"] * 5, delays=[30] * 5))
    await record(client, "budget", ScriptedModel(["7", "8", "9"]), budget_tokens=350)
    await record(client, "no-consensus", ScriptedModel(["1", "2", "3", "4", "5"]), futility=0.05)
    wrong_key = PermanentModelError("no such key", "AuthenticationError", 401)
    await record(client, "failed", ScriptedModel([wrong_key] * 5))
    split = ScriptedModel(["1", "2", "3", "4", "5"])
    await record(client, "reviewed", split, max_responses=5, review_when="high")
    await record_reflections(client)
    await record_batches(client)
    await record_agents(client)
    await record_turns(client)
    await record_sessions(client)


async def record_reflections(client: Client) -> None:
    """Record one history for each way a run of reflection goes."""

    async def one(name: str, model: ScriptedCritic, *said: dict[str, Any], **fields: Any) -> None:
        await record_reflection(client, f"reflect-{name}", model, *said, **fields)

    default = {"guardrails": ["default"]}
    down = PermanentModelError("no such key", "AuthenticationError", 401)
    # Long enough for the guardrails' own process, and for the search attributes of a run under way.
    long = ScriptedCritic(["a tide " * 400, "b"], [0.3, 0.8], delays={("write", 0): 6})
    await one("revised", long, **default)
    await one("given", ScriptedCritic(["b"], [0.3, 0.8]), draft="a", **default)
    await one("unreadable", ScriptedCritic(["a"], [["no", "no"]]))
    await one("failed-revision", ScriptedCritic(["a", down], [0.3]))
    await one("failed", ScriptedCritic([down]))
    await one("skipped", ScriptedCritic(["a"]), complexity=0.1)
    panel: dict[str, list[Judged | list[Judged]]] = {"x/a": [0.3, 0.8], "x/b": [down, 0.9]}
    await one("panel", ScriptedCritic(["a", "b"], panel=panel), judges=["x/a", "x/b"])
    await one("budget", ScriptedCritic(["a"], [0.3]), budget_tokens=160)
    slow = ScriptedCritic(["a", "b"], [0.3], delays={("write", 1): 30})
    await one("deadline", slow, budget_seconds=2)
    slow = ScriptedCritic(["a", "b"], [0.3], delays={("write", 1): 30})
    await one("cancelled", slow)
    reviewed = ScriptedCritic(["a", "b", "c"], [0.3, 0.4, 0.5])
    said = ({"revise": "shorter", "author": "ann"}, {"accept": True, "author": "ann"})
    await one("reviewed", reviewed, *said, review_below=0.6)
    await one("review-timeout", ScriptedCritic(["a"], [0.3]), **POOR)


async def record_batches(client: Client) -> None:
    """Record a batch that makes all of its runs, and one that a person ends."""
    await record_batch(client, "batch-completed", "score 0.4", "score 0.9")
    finished = "batch-finished-by-a-person"
    await record_batch(client, finished, "score 0.4", "slow", max_concurrency=1)


async def record_agents(client: Client) -> None:
    """Record one history for each way a run of the agent goes."""

    async def one(name: str, model: ScriptedAgent, *more: Any, **fields: Any) -> None:
        await record_agent(client, f"agent-{name}", model, *more, **fields)

    def research(**turns: Any) -> ScriptedAgent:
        return agents.researching(agents.WRONG, agents.FINE, **turns)

    def slow() -> ScriptedAgent:
        return ScriptedAgent(research()._script, delays={("generate_report", 1): 30})

    fails, passes = agents.report(False, True, True), agents.report(True, True, True)
    down = PermanentModelError("no such key", "AuthenticationError", 401)
    await one("researched", research(), judge="x/judge")
    await one("unrouted", ScriptedAgent({"route": [["no", routed("neither")]]}))
    await one("failed", research(generate_report=[down]))
    await one("generation-failed", research(generate_report=[agents.WRONG, down]))
    await one("reflection-failed", research(reflect_on_report=[["no", "no"]]))
    await one("budget", research(), budget_tokens=220)
    await one("deadline", slow(), budget_seconds=2)
    await one("cancelled", slow())
    await one("finished", slow())
    model = agents.coding(agents.BAD, agents.GOOD)
    await one("coded", model, agents.ScriptedTester(fails, passes))
    examples = f"{agents.TASK}\n>>> double(4)\n8"
    model = agents.coding(agents.GOOD, route=[])
    await one("examples", model, agents.ScriptedTester(passes), prompt=examples, mode="code")
    doubted = agents.ScriptedTester(*[fails] * 3)
    await one("disputed", agents.coding(*[agents.GOOD] * 3), doubted, max_revisions=3)
    await one("untested", agents.coding(agents.GOOD, write_tests=[["no", "no"]]), doubted)
    broken = agents.ScriptedTester(ApplicationError("no namespace", type="sandbox_error"))
    await one("test-failed", agents.coding(agents.GOOD), broken, max_attempts=2)
    said = ({"revise": "shorter", "author": "ann"}, {"accept": True, "author": "ann"})
    open_ = {"max_revisions": 1, "review_open": True}
    poor = research(reflect_on_report=[reflection("mend")] * 2)
    await one("reviewed", poor, None, *said, **open_)
    await one("review-timeout", research(), review_timeout_seconds=1, **open_)


async def record_turns(client: Client) -> None:
    """Record one history for each way a turn goes."""

    async def one(
        name: str, model: turns.ScriptedTurns, *words: dict[str, Any], **fields: Any
    ) -> None:
        if WANTED and f"turn-{name}" not in WANTED:
            return
        async with turns.served(client, model):
            handle = await turns.start(client, **fields)
            for word in words:
                await turns.until(handle, "waiting_for_permission", word["call"])
                await handle.execute_update("permit", word)
            if name in {"cancelled", "finished"}:
                await turns.until(handle, "call_tools", 1)
                await (
                    handle.cancel() if name == "cancelled" else handle.execute_update("finish_now")
                )
            await write(handle, f"turn-{name}")

    look, bad = ("look", {"place": "sea"}), ("look", {"place": "bad sea"})
    write_, slow = ("write", {"text": "a"}), [("slow", {"seconds": 30})]
    down = PermanentModelError("no such key", "AuthenticationError", 401)
    low = {"think_level": "low"}
    steps: list[Any] = [
        [look, ("look", {"place": "sky"})],
        [look, write_],
        [bad, write_],
        "It is 4.",
    ]
    words = ({"call": 4, "allow": True, "author": "ann"}, {"call": 6, "allow": False})
    await one("answered", turns.ScriptedTurns(steps, ["a thought"]), *words, **low)
    await one("denied", turns.ScriptedTurns([[write_], "no"]), review_timeout_seconds=1)
    await one("invalid", turns.ScriptedTurns([[("write", {}), ("nosuch", {})], "no"], []))
    stubs: list[Any] = [[bad], [bad], "no"]
    await one("stubs", turns.ScriptedTurns(stubs, [down]), max_reflections=1, **low)
    await one("max-steps", turns.ScriptedTurns([[look]] * 2), max_steps=2)
    await one("deadline", turns.ScriptedTurns([slow]), budget_seconds=6, **low)
    earlier = [{"role": "user", "content": f"{number} " + "old " * 900} for number in range(9)]
    compacted = turns.ScriptedTurns(["no"])
    await one("compacted", compacted, messages=earlier, max_context_tokens=8_000)
    await one("failed", turns.ScriptedTurns([down]))
    await one("generation-failed", turns.ScriptedTurns([[look], down]))
    await one("finished", turns.ScriptedTurns([slow]))
    await one("cancelled", turns.ScriptedTurns([slow]))


async def record_sessions(client: Client) -> None:
    """Record one history for each way a session goes on and ends.

    The ids of its turns are made of its own, which is `name`, as replaying takes it to be.
    """

    async def one(name: str, *steps: turns.Said, **fields: Any) -> None:
        if WANTED and name not in WANTED:
            return
        model = turns.ScriptedTurns(steps)
        async with turns.served(client, model):
            begun = await client.start_workflow(
                "SessionWorkflow", {"tools": [], **fields}, id=name, task_queue=TASK_QUEUE
            )
            handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(
                name, run_id=begun.result_run_id
            )
            for number in range(len(steps)):
                given = {"message": f"message {number}"}
                stage = WorkflowUpdateStage.ACCEPTED
                sent = await begun.start_update("send", given, wait_for_stage=stage)
                if name == "session-cancelled" and number:
                    await begun.cancel()
                with suppress(WorkflowUpdateFailedError):
                    await sent.result()
            if name in {"session-finished", "session-continued"}:
                await begun.execute_update("finish_now", {"author": "ann"})
            await write(handle, name)

    down = PermanentModelError("no such key", "AuthenticationError", 401)
    await one("session-finished", "one", down, "three")
    await one("session-continued", "one", "two", turns_per_execution=1)
    await one("session-idle", "one", idle_seconds=1)
    await one("session-cancelled", "one", lambda _: asyncio.sleep(60))


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit()
