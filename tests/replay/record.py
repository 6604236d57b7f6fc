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
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.exceptions import ApplicationError

from activities.environments.port import StepResult
from activities.language_model.port import PermanentModelError, SampleError, TransientModelError
from activities.memory import memory_id
from mull import telemetry
from mull.connection import connect
from mull.quota import AGAIN_SECONDS, FreedPlace
from tests.conftest import Handle, begin, begin_reflecting, served, until_asked
from tests.scripted import ScriptedModel, reflection, routed, same
from tests.workflows import batches
from tests.workflows import test_quota as quotas
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
DOWN = PermanentModelError("no such key", "AuthenticationError", 401)
REVIEWS = ({"revise": "shorter", "author": "ann"}, {"accept": True, "author": "ann"})

Step = Callable[[Handle], Awaitable[Any]]
Serve = Callable[[], AbstractAsyncContextManager[None]]


def wanted(name: str) -> bool:
    return f"{name}.json" not in PINNED and (not NAMED or name in NAMED)


async def record(name: str, serve: Serve, start: Callable[[], Any], *steps: Step) -> None:
    """Start a run, take these steps with it, and write its history down once it has ended."""
    if not wanted(name):
        return
    async with serve():
        handle = await start()
        for step in steps:
            await step(handle)
        await write(handle, name)


def review(said: dict[str, Any]) -> Step:
    """Review a run once it waits for it."""

    async def step(handle: Handle) -> None:
        while True:
            with suppress(WorkflowUpdateFailedError):
                await handle.execute_update("review", said)
                return
            await asyncio.sleep(0.1)

    return step


def end(name: str, begun: Callable[[Handle], Awaitable[Any]]) -> list[Step]:
    """End a run as its name says, once it has come so far."""

    async def step(handle: Handle) -> None:
        await begun(handle)
        if name.endswith("cancelled"):
            await handle.cancel()
        else:
            await handle.execute_update("finish_now", {"author": "ann"})

    return [step] if name.endswith(("cancelled", "finished", "finished-by-a-person")) else []


def asked(model: ScriptedModel, calls: int) -> Step:
    return lambda _: until_asked(model, calls)


async def write(handle: Handle, name: str) -> None:
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
    return sha256(file.read_bytes()).hexdigest()


async def main() -> None:
    telemetry.set_up(None)
    client = await connect()
    for kind in (
        record_answers, record_reflections, record_batches, record_pages, record_helpers,
        record_quota, record_agents, record_turns, record_sessions, record_reflexion,
        record_retroformer, record_trainings,
    ):  # fmt: skip
        await kind(client)
    if FOLDER == VERSION:
        files = sorted(FOLDER.glob("*.json"))
        SUMS.write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))


async def record_answers(client: Client) -> None:
    """Record one history for each way a run of self-consistency goes."""

    async def one(
        name: str,
        answers: list[Any],
        /,
        *steps: Step,
        delays: Any = (),
        compare: Any = (),
        **more: Any,
    ) -> None:
        model = ScriptedModel(sample=answers, delays=delays, compare=compare)
        request = {"question": "Which number is it?", **more}

        async def begun(handle: Handle) -> None:
            await until_asked(model, 5)
            if name == "finished-by-a-person":
                await handle.execute_update("add_answer", {"answer": "7", "author": "ann"})

        said = [*steps, *end(name, begun)]
        await record(name, partial(served, client, model), partial(begin, client, request), *said)

    busy = TransientModelError("busy", "RateLimitError", 429, retry_after=0.1)
    filtered = SampleError("filtered", "ContentPolicyViolationError", 400)
    await one("waves", ["7", "8", "7", "9", "7", "7", "8", "7", "7", "7"])
    seven = same(lambda one, other: {one, other} == {"seven", "7"})
    words = ["seven", "7", "eight", "seven", "7"]
    await one("comparisons", words, compare=seven, answers="llm", max_responses=5)
    failed = ["7", filtered, [busy, "7"], None, "7", "7", "7"]
    await one("failed-samples", failed, answers="number")
    await one("deadline", ["7", "7", "8", "7", "7"], delays=[0, 0, 30, 0, 30], budget_seconds=2)
    await one("finished-by-a-person", ["7"] * 5, delays=[0, 30, 30, 30, 30])
    await one("cancelled", ["7"] * 5, delays=[30] * 5)
    await one("budget", ["7", "8", "9"], budget_tokens=350)
    await one("no-consensus", ["1", "2", "3", "4", "5"], futility=0.05)
    await one("failed", [DOWN] * 5)
    five, high = ["1", "2", "3", "4", "5"], {"max_responses": 5, "review_when": "high"}
    await one("reviewed", five, review({"replace": "7", "author": "ann"}), **high)
    await one("accepted", five, review({"accept": True}), **high)
    await one("review-timeout", five, **high, review_timeout_seconds=1)
    await one("decided", ["7"] * 6, rule="curtail", max_responses=10)


async def record_reflections(client: Client) -> None:
    """Record one history for each way a run of reflection goes."""

    async def one(
        name: str, write_: list[Any], judge: Any = (), *said: Any, delays: Any = (), **fields: Any
    ) -> None:
        name, model = f"reflect-{name}", ScriptedModel(write=write_, judge=judge, delays=delays)
        steps = [*map(review, said), *end(name, asked(model, 3))]
        start = partial(begin_reflecting, client, **fields)
        await record(name, partial(served, client, model), start, *steps)

    default = {"guardrails": ["default"]}
    # Long enough for the guardrails' own process, and for the search attributes of a run under way.
    long = {("write", 0): 6}
    await one("revised", ["a tide " * 400, "b"], [0.3, 0.8], delays=long, **default)
    await one("given", ["b"], [0.3, 0.8], draft="a", **default)
    await one("unreadable", ["a"], [["no", "no"]])
    await one("failed-revision", ["a", DOWN], [0.3])
    await one("failed", [DOWN])
    await one("skipped", ["a"], complexity=0.1)
    panel = {"x/a": [0.3, 0.8], "x/b": [DOWN, 0.9]}
    await one("panel", ["a", "b"], panel, judges=["x/a", "x/b"])
    await one("budget", ["a"], [0.3], budget_tokens=160)
    slow = {("write", 1): 30}
    await one("deadline", ["a", "b"], [0.3], delays=slow, budget_seconds=2)
    await one("cancelled", ["a", "b"], [0.3], delays=slow)
    await one("reviewed", ["a", "b", "c"], [0.3, 0.4, 0.5], *REVIEWS, review_below=0.6)
    poor: dict[str, Any] = {"max_revisions": 0, "review_below": 0.6}
    await one("review-timeout", ["a"], [0.3], review_timeout_seconds=1, **poor)
    await one("max-revisions", ["a", "b"], [0.3, 0.4], max_revisions=1)
    await one("plateau", ["a", "b", "c"], [0.3] * 3, max_revisions=3)
    await one("disabled", ["a"], reflect=False)
    await one("replaced", ["a"], [0.3], {"replace": "z"}, review_timeout_seconds=60, **poor)
    await one("scored", ["a"], [0.3], {"score": 0.8}, review_timeout_seconds=60, **poor)
    await one("finished", ["a", "b"], [0.3], delays=slow)


async def record_batches(client: Client) -> None:
    """Record a batch that makes all of its runs, one that a person ends, and one without budget.

    The ids of its runs are made of its own, which is `name`, as replaying takes it to be. A batch
    makes no run again that has a result, so that the server has to be a new one.
    """

    async def one(name: str, *texts: str, **fields: Any) -> None:
        model, request = batches.draft_reader(), batches.batch_of(*texts, **fields)
        start = partial(begin, client, request, "BatchWorkflow", name)
        serve = partial(batches.served, client, model)
        await record(name, serve, start, *end(name, asked(model, 2)))

    await one("batch-completed", "score 0.4", "score 0.9")
    await one("batch-finished-by-a-person", "score 0.4", "slow", max_concurrency=1)
    three = ("score 0.4", "score 0.9", "score 0.5")
    await one("batch-budget", *three, budget_tokens=220, max_concurrency=1)


async def record_pages(client: Client) -> None:
    """Record a batch whose items come in pages, and one of its pages."""
    name, pages = "batch-paged", [["score 0.4", "score 0.9"], ["score 0.5"]]
    if not wanted(name):
        return
    given = {"variants": [batches.judging()], "pages": len(pages), "digest": "0" * 64}
    async with batches.served(client, batches.draft_reader()):
        handle = await begin(client, given, "BatchWorkflow", name)
        for number, texts in enumerate(pages):
            page = {"number": number, "items": batches.drafts(*texts)}
            await handle.execute_update("add_page", page)
        await write(handle, name)
        await write(client.get_workflow_handle(f"{name}/page-0"), f"{name}_page-0")


async def record_helpers(client: Client) -> None:
    """Record what tells a webhook, what is told of, and what doctor runs."""
    split = {"question": "Which number is it?", "max_responses": 5, "review_when": "high"}
    models: dict[str, list[Any]] = {"told": ["1", "2", "3", "4", "5"], "told-failed": [DOWN] * 5}
    for name, answers in models.items():
        if not wanted(name):
            continue
        model = ScriptedModel(sample=answers)
        async with webhooks.Receiver() as receiver, webhooks.served(client, model, receiver.port):
            handle = await begin(client, split)
            [told] = await receiver.until_told(1)
            if name == "told":
                await webhooks.decide(handle, "review", {"accept": True})
                await write(client.get_workflow_handle(told["id"]), "webhook")
            await write(handle, name)
    given: dict[str, Any] = {"offline": True, "queues": ["mull"]}
    doctor = partial(begin, client, given, "DoctorWorkflow")
    await record("doctor", partial(served, client, ScriptedModel()), doctor)


async def record_quota(client: Client) -> None:
    """Record how a key's places are freed, and are seen to be free, and refused after a look."""
    key = quotas.Key(client, runs=1, usd_a_day=4)
    key.name = "ann"
    name = key.handle.id
    if not wanted(name):
        return
    async with served(client, ScriptedModel(sample=["7"] * 3)):
        freed = await key.take("freed")
        await key.handle.signal("free_place", FreedPlace(place=freed.place, usd=0.5))
        await key.take("seen")
        await (await key.ask("seen", max_responses=3)).result()
        await key.take("more")
        await asyncio.sleep(AGAIN_SECONDS)
        await key.refused("other")
        await key.handle.cancel()
        await write(key.handle, name)


async def record_agents(client: Client) -> None:
    """Record one history for each way a run of the agent goes, over one passage."""

    async def one(name: str, model: ScriptedModel, *said: Any, test: Any = (), **more: Any) -> None:
        name, tester = f"agent-{name}", agents.ScriptedTester(*test) if test else None
        known = {"docs": "tides", **({"prompt": agents.TASK} if tester else {}), **more}
        found = agents.finding(agents.passage())
        serve = partial(agents.served, client, model, tester, found)
        steps = [*map(review, said), *end(name, asked(model, 4))]
        await record(name, serve, partial(agents.start, client, **known), *steps)

    def research(**turns: Any) -> ScriptedModel:
        return agents.researching(agents.WRONG, agents.FINE, **turns)

    def slow() -> ScriptedModel:
        return research(delays={("generate_report", 1): 30})

    fails, passes = agents.report(False, True, True), agents.report(True, True, True)
    await one("researched", research(), judge="x/judge")
    await one("unrouted", ScriptedModel(route=[["no", routed("neither")]]))
    await one("failed", research(generate_report=[DOWN]))
    await one("generation-failed", research(generate_report=[agents.WRONG, DOWN]))
    await one("reflection-failed", research(reflect_on_report=[["no", "no"]]))
    await one("budget", research(), budget_tokens=220)
    await one("deadline", slow(), budget_seconds=2)
    await one("cancelled", slow())
    await one("finished", slow())
    await one("coded", agents.coding(agents.BAD, agents.GOOD), test=[fails, passes])
    examples = f"{agents.TASK}\n>>> double(4)\n8"
    unrouted = agents.coding(agents.GOOD, route=[])
    await one("examples", unrouted, test=[passes], prompt=examples, mode="code")
    await one("disputed", agents.coding(*[agents.GOOD] * 3), test=[fails] * 3, max_revisions=3)
    untested = agents.coding(agents.GOOD, write_tests=[["no", "no"]])
    await one("untested", untested, test=[fails] * 3)
    broken = ApplicationError("no namespace", type="sandbox_error")
    await one("test-failed", agents.coding(agents.GOOD), test=[broken], max_attempts=2)
    open_ = {"max_revisions": 1, "review_open": True}
    poor = research(reflect_on_report=[reflection("mend")] * 2)
    await one("reviewed", poor, *REVIEWS, **open_)
    await one("review-timeout", research(), review_timeout_seconds=1, **open_)
    poor = research(reflect_on_report=[reflection("mend")] * 2)
    await one("replaced", poor, {"replace": "It is high at noon."}, **open_)


async def record_turns(client: Client) -> None:
    """Record one history for each way a turn goes."""

    async def one(name: str, step: list[Any], *said: Any, reflect: Any = (), **more: Any) -> None:
        name, model = f"turn-{name}", ScriptedModel(step=step, reflection=reflect)

        def permit(word: dict[str, Any]) -> Step:
            async def step(handle: Handle) -> None:
                await turns.until_at(handle, "waiting_for_permission", word["call"])
                await turns.permit(handle, **word)

            return step

        begun = end(name, lambda handle: turns.until_at(handle, "call_tools", 1))
        start = partial(turns.start, client, **more)
        await record(name, partial(turns.served, client, model), start, *map(permit, said), *begun)

    look, bad = ("look", {"place": "sea"}), ("look", {"place": "bad sea"})
    write_, slow = ("write", {"text": "a"}), [("slow", {"seconds": 30})]
    low = {"think_level": "low"}
    four = [[look, ("look", {"place": "sky"})], [look, write_], [bad, write_], "It is 4."]
    words = ({"call": 4, "allow": True, "author": "ann"}, {"call": 6, "allow": False})
    await one("answered", four, *words, reflect=["a thought"], **low)
    await one("denied", [[write_], "no"], review_timeout_seconds=1)
    await one("invalid", [[("write", {}), ("nosuch", {})], "no"])
    await one("stubs", [[bad], [bad], "no"], reflect=[DOWN], max_reflections=1, **low)
    await one("max-steps", [[look]] * 2, max_steps=2)
    await one("deadline", [slow], budget_seconds=6, **low)
    earlier = [{"role": "user", "content": f"{number} " + "old " * 900} for number in range(9)]
    await one("compacted", ["no"], messages=earlier, max_context_tokens=8_000)
    await one("max-tool-calls", [[look], [write_]], max_tool_calls=1)
    await one("max-context-tokens", ["no"], message="old " * 6_000, max_context_tokens=1_000)
    await one("budget", [[look], "no"], budget_tokens=150)
    await one("failed", [DOWN])
    await one("generation-failed", [[look], DOWN])
    await one("finished", [slow])
    await one("cancelled", [slow])


async def record_sessions(client: Client) -> None:
    """Record one history for each way a session goes on and ends.

    The ids of its turns are made of its own, which is `name`, as replaying takes it to be.
    """

    async def one(name: str, *steps: Any, **fields: Any) -> None:
        if not wanted(name):
            return
        async with turns.served(client, ScriptedModel(step=steps)):
            begun = await begin(client, {"tools": [], **fields}, "SessionWorkflow", name)
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
            await write(client.get_workflow_handle(name, run_id=begun.result_run_id), name)

    await one("session-finished", "one", DOWN, "three")
    await one("session-continued", "one", "two", turns_per_execution=1)
    await one("session-idle", "one", idle_seconds=1)
    await one("session-cancelled", "one", lambda _: asyncio.sleep(60))


class Breaking(learners.Counting):
    name = "breaking"

    def step(self, action: str) -> StepResult:
        raise OSError(f"no {action}")


WRONG: list[Any] = ["[answer] 5"]
LESSON = "I did not count."
SLOW: list[Any] = [*WRONG, "add[1]", lambda _: asyncio.sleep(30)]


async def record_learner(
    client: Client, name: str, plan: list[Any], reflect: Any = (), verdict: Any = (), **fields: Any
) -> None:
    """Run an agent once, end it where its name says so, and write the history down.

    One that is told of a reward model is Retroformer's: it keeps the first of its reflections.
    """
    if not wanted(name):
        return
    model = ScriptedModel(plan=plan, reflect=reflect, verdict=verdict)
    kinds = (learners.Counting, learners.HiddenCounting, Breaking)
    training = ScriptedTraining([(1.0,) * fields.get("reflection_tries", 1)] * 2)
    workflow = "RetroformerWorkflow" if "reward_model" in fields else "ReflexionWorkflow"
    start = partial(learners.start, client, fields, workflow)
    async with trains(client, training):
        serve = partial(learners.served, client, model, *kinds)
        await record(name, serve, start, *end(name, asked(model, 4)))


async def record_both(client: Client, kind: str, other: str, **more: Any) -> None:
    """Record one history for each way in which runs of both kinds of agents end."""

    async def one(name: str, *said: list[Any], **fields: Any) -> None:
        await record_learner(client, f"{kind}-{name}", *said, **more | fields)

    lessons, look = [LESSON, other], ["look"] * 6
    await one("exhausted", [*WRONG, "[answer] 4"], lessons, episode_limit=2)
    await one("evaluation-failed", WRONG, [], ["no", "no"], judge="x/judge")
    await one("budget", WRONG * 3, lessons, budget_tokens=350, max_output_tokens=1)
    await one("deadline", SLOW, lessons, budget_seconds=2)
    await one("cancelled", SLOW, lessons)
    await one("finished", SLOW, lessons)
    await one("repeated-action", look, lessons)
    await one("repeated-reflection", WRONG * 2, [LESSON] * 2)
    await one("plateau", ["add[7]", *WRONG, *WRONG], lessons, plateau_episodes=1)
    await one("generation-failed", [*WRONG, DOWN], lessons)
    await one("environment-failed", ["add[7]"], environment="breaking")
    await one("failed", [], task="no number")


async def record_reflexion(client: Client) -> None:
    """Record one history for each way a run of Reflexion goes, and one of a memory."""

    async def one(name: str, *said: list[Any], **fields: Any) -> None:
        await record_learner(client, f"reflexion-{name}", *said, **fields)

    right, other = ["add[3]", "add[4]", "[answer] 7"], "I have to add 3 and 4."
    await record_both(client, "reflexion", other)
    await one("solved", [*WRONG, *right], [LESSON])
    await one("hidden", [*WRONG, *right], [LESSON], environment="hidden")
    await one("last-episode", [*WRONG, *right], strategy="last_episode")
    verdicts = [f'{{"reasoning": "seen", "correct": {word}}}' for word in ("false", "true")]
    await one("judged", [*WRONG, *right], [LESSON], ["so-so", *verdicts], judge="x/judge")
    await one("not-reflected", [*WRONG, *right], [DOWN])
    memory: dict[str, Any] = {"memory": "family", "episode_limit": 2}
    await one("shared", [*WRONG, "[answer] 4"], [LESSON, other], **memory)
    if wanted("memory-family"):
        async with learners.served(client, ScriptedModel()):
            kept = client.get_workflow_handle(memory_id("family"))
            await kept.execute_update("clear", "elsewhere")
            await kept.execute_update("clear")
            await kept.cancel()
            await write(kept, kept.id)


async def record_retroformer(client: Client) -> None:
    """Record one history for each way a run of Retroformer ends, which are those of Reflexion."""
    known: dict[str, Any] = {"reward_model": "first/reward_model", "reflection_tries": 1}
    other = "I have to add 7."
    await record_both(client, "retroformer", other, **known)
    plan, tries = [*WRONG, "add[7]", "[answer] 7"], {**known, "reflection_tries": 3}
    await record_learner(client, "retroformer-solved", plan, [LESSON, other, "Add."], **tries)


async def record_trainings(client: Client) -> None:
    """Record one history for each way a training goes, and some of its rollouts.

    The ids of its rollouts are made of its own, which is `name`, as replaying takes it to be.
    """

    async def until_trains(run: Handle) -> Any:
        return await trainings.until_phase(run, "reward_model")

    async def one(
        name: str,
        *rollouts: str,
        hangs: bool = False,
        plan: Any = trainings.plan,
        begun: Any = until_trains,
        **fields: Any,
    ) -> None:
        if not any(map(wanted, (name, *rollouts))):
            return
        training = ScriptedTraining()
        training.hangs = hangs
        model = trainings.advised(plan=plan)
        async with learners.served(client, model), trains(client, training):
            request, kind = trainings.request(**fields), "RetroformerTrainingWorkflow"
            handle = await begin(client, request, kind, name)
            for step in end(name, begun):
                await step(handle)
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
    await one("training-enough-finished", plan=trainings.plan_one, begun=trainings.until_one)


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit()
