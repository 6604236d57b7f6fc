"""Record histories of this version: python -m tests.replay.record NAME ... (needs a server).

Without names, all that are not pinned. A history that `SHA256SUMS` pins is never recorded anew: it
is what runs under way were recorded by, and a change that breaks its replay has to be patched.

Where the version is released already, they go to `unreleased`, where each may be recorded anew. The
next version, once it has its number, records all of them in a folder of its own, and pins them:
then `unreleased` is removed.
"""

import asyncio
import json
import sys
from contextlib import suppress
from hashlib import sha256
from importlib import metadata
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

from activities.environments.port import StepResult
from activities.language_model.port import PermanentModelError, SampleError, TransientModelError
from activities.memory import memory_id
from mull import telemetry
from mull.connection import TASK_QUEUE, connect
from tests.conftest import begin, begin_reflecting, served, until_asked
from tests.patience import PATIENCE
from tests.scripted import Judged, ScriptedAgent, ScriptedCritic, ScriptedModel, reflection, routed
from tests.workflows import batches
from tests.workflows import test_webhook as webhooks
from tests.workflows.agents import running as learners
from tests.workflows.agents import test_training as trainings
from tests.workflows.agents.scripted_training import ScriptedTraining, trains
from tests.workflows.multipath import running as agents
from tests.workflows.turn import running as turns

VERSION = Path(__file__).parent / metadata.version("mull")
SUMS = VERSION / "SHA256SUMS"
PINNED = frozenset(SUMS.read_text().split()[1::2] if SUMS.exists() else ())
FOLDER = VERSION.with_name("unreleased") if PINNED else VERSION
NAMED = frozenset(sys.argv[1:])
ASK_REVIEWS: dict[str, dict[str, Any]] = {
    "reviewed": {"replace": "7", "author": "ann"},
    "accepted": {"accept": True},
}
POOR: dict[str, Any] = {"max_revisions": 0, "review_below": 0.6, "review_timeout_seconds": 1}


def wanted(name: str) -> bool:
    """Say whether this history is to be recorded."""
    return f"{name}.json" not in PINNED and (not NAMED or name in NAMED)


async def record(client: Client, name: str, model: ScriptedModel, **fields: Any) -> None:
    """Run once and write the history down."""
    if not wanted(name):
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
        if name in ASK_REVIEWS:
            await review(handle, ASK_REVIEWS[name])
        await write(handle, name)


async def record_reflection(
    client: Client, name: str, model: ScriptedCritic, *reviews: dict[str, Any], **fields: Any
) -> None:
    """Run once, say what people say, and write the history down."""
    if not wanted(name):
        return
    async with served(client, model):
        handle = await begin_reflecting(client, **fields)
        for each in reviews:
            await review(handle, each)
        if name in {"reflect-cancelled", "reflect-finished"}:
            await until_asked(model, 3)
        if name == "reflect-cancelled":
            await handle.cancel()
        if name == "reflect-finished":
            await handle.execute_update("finish_now", {"author": "ann"})
        await write(handle, name)


async def record_batch(client: Client, name: str, *texts: str, **fields: Any) -> None:
    """Judge drafts once each, and write the history of the batch down.

    The ids of its runs are made of its own, which is `name`, as replaying takes it to be. A batch
    makes no run again that has a result, so that the server has to be a new one.
    """
    if not wanted(name):
        return
    model = batches.DraftReader()
    request = batches.batch_of(*texts, **fields)
    async with batches.served(client, model):
        handle: WorkflowHandle[Any, Any] = await client.start_workflow(
            "BatchWorkflow", request, id=name, task_queue=TASK_QUEUE
        )
        if name == "batch-finished-by-a-person":
            async with asyncio.timeout(PATIENCE):
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
    if not wanted(name):
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
    while True:
        with suppress(WorkflowUpdateFailedError):
            await handle.execute_update("review", said)
            return
        await asyncio.sleep(0.1)


async def write(handle: WorkflowHandle[Any, Any], name: str) -> None:
    """Write the history of a run down once it has ended."""
    with suppress(WorkflowFailureError):
        await handle.result()
    history = await handle.fetch_history()
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(anonymous(json.loads(history.to_json()))))


def anonymous(part: Any) -> Any:
    """Leave out what tells of the machine: stack traces and the names of processes."""
    if isinstance(part, list):
        return [anonymous(each) for each in part]
    if not isinstance(part, dict):
        return part
    known = {name: anonymous(each) for name, each in part.items() if name != "stackTrace"}
    return known | ({"identity": "recorded"} if "identity" in known else {})


def digest(file: Path) -> str:
    """Hash a file as `sha256sum` does."""
    return sha256(file.read_bytes()).hexdigest()


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
    five, high = ["1", "2", "3", "4", "5"], {"max_responses": 5, "review_when": "high"}
    await record(client, "reviewed", ScriptedModel(five), **high)
    await record(client, "accepted", ScriptedModel(five), **high)
    unseen = {**high, "review_timeout_seconds": 1}
    await record(client, "review-timeout", ScriptedModel(five), **unseen)
    alike = ScriptedModel(["7"] * 6)
    await record(client, "decided", alike, rule="curtail", max_responses=10)
    await record_reflections(client)
    await record_batches(client)
    await record_pages(client)
    await record_helpers(client)
    await record_agents(client)
    await record_turns(client)
    await record_sessions(client)
    await record_reflexion(client)
    await record_retroformer(client)
    await record_trainings(client)
    if FOLDER == VERSION:
        files = sorted(FOLDER.glob("*.json"))
        SUMS.write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))


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
    await one("max-revisions", ScriptedCritic(["a", "b"], [0.3, 0.4]), max_revisions=1)
    await one("plateau", ScriptedCritic(["a", "b", "c"], [0.3] * 3), max_revisions=3)
    await one("disabled", ScriptedCritic(["a"]), reflect=False)
    asked = {**POOR, "review_timeout_seconds": 60}
    await one("replaced", ScriptedCritic(["a"], [0.3]), {"replace": "z"}, **asked)
    await one("scored", ScriptedCritic(["a"], [0.3]), {"score": 0.8}, **asked)
    slow = ScriptedCritic(["a", "b"], [0.3], delays={("write", 1): 30})
    await one("finished", slow)


async def record_batches(client: Client) -> None:
    """Record a batch that makes all of its runs, one that a person ends, and one without budget."""
    await record_batch(client, "batch-completed", "score 0.4", "score 0.9")
    finished = "batch-finished-by-a-person"
    await record_batch(client, finished, "score 0.4", "slow", max_concurrency=1)
    three = ("score 0.4", "score 0.9", "score 0.5")
    await record_batch(client, "batch-budget", *three, budget_tokens=220, max_concurrency=1)


async def record_pages(client: Client) -> None:
    """Record a batch whose items come in pages, and one of its pages."""
    name, pages = "batch-paged", [["score 0.4", "score 0.9"], ["score 0.5"]]
    if not wanted(name):
        return
    asked = {"variants": [batches.judging()], "pages": len(pages), "digest": "0" * 64}
    async with batches.served(client, batches.DraftReader()):
        handle: WorkflowHandle[Any, Any] = await client.start_workflow(
            "BatchWorkflow", asked, id=name, task_queue=TASK_QUEUE
        )
        for number, texts in enumerate(pages):
            page = {"number": number, "items": batches.drafts(*texts)}
            await handle.execute_update("add_page", page)
        await write(handle, name)
        await write(client.get_workflow_handle(f"{name}/page-0"), f"{name}_page-0")


async def record_helpers(client: Client) -> None:
    """Record what tells a webhook, what is told of, and what doctor runs."""
    split = {"question": "Which number is it?", "max_responses": 5, "review_when": "high"}
    down = PermanentModelError("no such key", "AuthenticationError", 401)
    models = {
        "told": ScriptedModel(["1", "2", "3", "4", "5"]),
        "told-failed": ScriptedModel([down] * 5),
    }
    for name, model in models.items():
        if not wanted(name):
            continue
        async with webhooks.Receiver() as receiver, webhooks.served(client, model, receiver.port):
            handle = await begin(client, split)
            [told] = await receiver.until_told(1)
            if name == "told":
                await webhooks.decide(handle, "review", {"accept": True})
                await write(client.get_workflow_handle(told["id"]), "webhook")
            await write(handle, name)
    if wanted("doctor"):
        async with served(client, ScriptedModel([])):
            given: dict[str, Any] = {"offline": True, "queues": ["mull"]}
            await write(await begin(client, given, "DoctorWorkflow"), "doctor")


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
    poor = research(reflect_on_report=[reflection("mend")] * 2)
    await one("replaced", poor, None, {"replace": "It is high at noon."}, **open_)


async def record_turns(client: Client) -> None:
    """Record one history for each way a turn goes."""

    async def one(
        name: str, model: turns.ScriptedTurns, *words: dict[str, Any], **fields: Any
    ) -> None:
        if not wanted(f"turn-{name}"):
            return
        async with turns.served(client, model):
            handle = await turns.start(client, **fields)
            for word in words:
                await turns.until(handle, "waiting_for_permission", word["call"])
                await turns.permit(handle, **word)
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
    await one("max-tool-calls", turns.ScriptedTurns([[look], [write_]]), max_tool_calls=1)
    wide = turns.ScriptedTurns(["no"])
    await one("max-context-tokens", wide, message="old " * 6_000, max_context_tokens=1_000)
    await one("budget", turns.ScriptedTurns([[look], "no"]), budget_tokens=150)
    await one("failed", turns.ScriptedTurns([down]))
    await one("generation-failed", turns.ScriptedTurns([[look], down]))
    await one("finished", turns.ScriptedTurns([slow]))
    await one("cancelled", turns.ScriptedTurns([slow]))


async def record_sessions(client: Client) -> None:
    """Record one history for each way a session goes on and ends.

    The ids of its turns are made of its own, which is `name`, as replaying takes it to be.
    """

    async def one(name: str, *steps: turns.Said, **fields: Any) -> None:
        if not wanted(name):
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


class Breaking(learners.Counting):
    """Its steps fail."""

    name = "breaking"

    def step(self, action: str) -> StepResult:
        """Fail."""
        raise OSError(f"no {action}")


async def record_learner(
    client: Client,
    name: str,
    plans: list[learners.Said],
    reflections: list[learners.Said] | None = None,
    verdicts: list[learners.Said] | None = None,
    **fields: Any,
) -> None:
    """Run an agent once, end it where its name says so, and write the history down.

    One that is told of a reward model is Retroformer's: it keeps the first of its reflections.
    """
    if not wanted(name):
        return
    model: Any = learners.ScriptedAgent(plans, reflections or [], verdicts or [])
    kinds = (learners.Counting, learners.HiddenCounting, Breaking)
    training = ScriptedTraining([(1.0,) * fields.get("reflection_tries", 1)] * 2)
    workflow = "RetroformerWorkflow" if "reward_model" in fields else "ReflexionWorkflow"
    async with learners.served(client, model, *kinds), trains(client, training):
        handle = await learners.start(client, fields, workflow)
        if name.endswith(("-cancelled", "-finished")):
            await until_asked(model, 4)
            await (
                handle.cancel()
                if name.endswith("-cancelled")
                else handle.execute_update("finish_now")
            )
        await write(handle, name)


async def record_reflexion(client: Client) -> None:
    """Record one history for each way a run of Reflexion goes, and one of a memory."""

    async def one(name: str, *said: list[learners.Said], **fields: Any) -> None:
        await record_learner(client, f"reflexion-{name}", *said, **fields)

    wrong: list[learners.Said] = ["[answer] 5"]
    right: list[learners.Said] = ["add[3]", "add[4]", "[answer] 7"]
    look, lesson, other = ["look"] * 3, "I did not count.", "I have to add 3 and 4."
    down = PermanentModelError("no such key", "AuthenticationError", 401)
    await one("solved", [*wrong, *right], [lesson])
    await one("hidden", [*wrong, *right], [lesson], environment="hidden")
    await one("exhausted", [*wrong, "[answer] 4"], [lesson, other], episode_limit=2)
    await one("last-episode", [*wrong, *right], strategy="last_episode")
    verdicts = [f'{{"reasoning": "seen", "correct": {word}}}' for word in ("false", "true")]
    await one("judged", [*wrong, *right], [lesson], ["so-so", *verdicts], judge="x/judge")
    await one("evaluation-failed", wrong, [], ["no", "no"], judge="x/judge")
    await one("budget", wrong * 3, [lesson, other], budget_tokens=350, max_output_tokens=1)
    slow: list[learners.Said] = [*wrong, "add[1]", lambda _: asyncio.sleep(30)]
    await one("deadline", slow, [lesson], budget_seconds=2)
    await one("cancelled", slow, [lesson])
    await one("finished", slow, [lesson])
    await one("repeated-action", [*look, *look], [lesson])
    await one("repeated-reflection", wrong * 2, [lesson] * 2)
    await one("plateau", ["add[7]", *wrong, *wrong], [lesson], plateau_episodes=1)
    await one("generation-failed", [*wrong, down], [lesson])
    await one("environment-failed", ["add[7]"], environment="breaking")
    await one("not-reflected", [*wrong, *right], [down])
    await one("failed", [], task="no number")
    memory: dict[str, Any] = {"memory": "family", "episode_limit": 2}
    await one("shared", [*wrong, "[answer] 4"], [lesson, other], **memory)
    if wanted("memory-family"):
        async with learners.served(client, learners.ScriptedAgent()):
            kept = client.get_workflow_handle(memory_id("family"))
            await kept.execute_update("clear", "elsewhere")
            await kept.execute_update("clear")
            await kept.cancel()
            await write(kept, kept.id)


async def record_retroformer(client: Client) -> None:
    """Record one history for each way a run of Retroformer ends, which are those of Reflexion."""

    async def one(name: str, *said: list[learners.Said], **fields: Any) -> None:
        known: dict[str, Any] = {"reward_model": "first/reward_model", "reflection_tries": 1}
        await record_learner(client, f"retroformer-{name}", *said, **known | fields)

    wrong: list[learners.Said] = ["[answer] 5"]
    right: list[learners.Said] = ["add[7]", "[answer] 7"]
    lessons: list[learners.Said] = ["I did not count.", "I have to add 7."]
    down = PermanentModelError("no such key", "AuthenticationError", 401)
    await one("solved", [*wrong, *right], [*lessons, "Add."], reflection_tries=3)
    await one("exhausted", [*wrong, "[answer] 4"], lessons, episode_limit=2)
    await one("evaluation-failed", wrong, [], ["no", "no"], judge="x/judge")
    await one("budget", wrong * 3, lessons, budget_tokens=350, max_output_tokens=1)
    slow: list[learners.Said] = [*wrong, "add[1]", lambda _: asyncio.sleep(30)]
    await one("deadline", slow, lessons, budget_seconds=2)
    await one("cancelled", slow, lessons)
    await one("finished", slow, lessons)
    await one("repeated-action", ["look"] * 6, lessons)
    await one("repeated-reflection", wrong * 2, lessons[:1] * 2)
    await one("plateau", ["add[7]", *wrong, *wrong], lessons, plateau_episodes=1)
    await one("generation-failed", [*wrong, down], lessons)
    await one("environment-failed", ["add[7]"], environment="breaking")
    await one("failed", [], task="no number")


async def record_trainings(client: Client) -> None:
    """Record one history for each way a training goes, and some of its rollouts.

    The ids of its rollouts are made of its own, which is `name`, as replaying takes it to be.
    """

    async def one(name: str, *rollouts: str, hangs: bool = False, **fields: Any) -> None:
        if not any(map(wanted, (name, *rollouts))):
            return
        training = ScriptedTraining()
        training.hangs = hangs
        async with learners.served(client, trainings.Advised()), trains(client, training):
            handle: WorkflowHandle[Any, Any] = await client.start_workflow(
                "RetroformerTrainingWorkflow",
                trainings.request(**fields),
                id=name,
                task_queue=TASK_QUEUE,
            )
            if name.endswith(("-cancelled", "-finished")):
                await trainings.until_phase(handle, "reward_model")
                await (
                    handle.cancel()
                    if name.endswith("-cancelled")
                    else handle.execute_update("finish_now", {"author": "ann"})
                )
            await write(handle, name)
            for rollout in rollouts:
                await write(client.get_workflow_handle(rollout.replace("_", "/")), rollout)

    rated = "training-trained_collecting_1_1", "training-trained_measuring_1_2"
    await one("training-trained", *rated, tuned="tuned", method="kto")
    held: dict[str, Any] = {"held_out": 1, "rollouts": 3, "seed": 4, "control": True}
    await one("training-held-out", tuned="reflector/training-held-out", method="kto", **held)
    await one("training-no-signal", tasks=["8"])
    await one("training-unrated", "training-unrated_collecting_1_1", tasks=["5", "seven"])
    await one("training-failed", tasks=["seven"])
    await one("training-budget", tasks=["7"], rollouts=2, budget_tokens=600)
    await one("training-deadline", tasks=["7"], budget_seconds=4, hangs=True)
    await one("training-finished", tasks=["7"], hangs=True)
    await one("training-cancelled", tasks=["7"], hangs=True)


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit()
