"""The training of a reflector on a real server: its phases, what ends it, and what it tells."""

import asyncio
import inspect
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, CancelledError

from activities.language_model.port import Abilities, ModelCall, PermanentModelError
from commands import follow, updates
from commands.command import Exit
from commands.options import New, Wanted
from mull.agents.prompts import FIRST_REFLECTION
from mull.agents.training import RetroformerTrainingRequest
from mull.agents.training_result import RetroformerTrainingResult, StageStep
from mull.agents.training_sheet import sheet
from tests.conftest import Handle, begin, ended, failure, until
from tests.patience import PATIENCE
from tests.scripted import SPENT, ScriptedModel
from tests.workflows.agents.running import served
from tests.workflows.agents.scripted_training import ScriptedTraining, trains

GOOD, POOR = "Good advice.", "Poor advice."


def plan(call: ModelCall) -> str:
    """Succeed where good advice is read."""
    return "[answer] 7" if f"- {GOOD}" in call.prompt else "[answer] 5"


async def plan_one(call: ModelCall) -> str:
    """Plan for the first task, and never reply to the second."""
    if "Count to 8" in call.prompt:
        await asyncio.Event().wait()
    return plan(call)


def advised(tuned: str = "tuned", **script: Any) -> ScriptedModel:
    """A planner, and a reflector that is good for an even seed, and always once it is tuned."""

    def reflect(call: ModelCall) -> str:
        return GOOD if call.model == tuned or (call.seed or 0) % 2 == 0 else POOR

    return ScriptedModel(**{"plan": plan, "reflect": reflect, **script})


@asynccontextmanager
async def serving(
    client: Client,
    model: ScriptedModel | None = None,
    stage: ApplicationError | None = None,
    **options: Any,
) -> AsyncIterator[ScriptedTraining]:
    """Serve agents with this model, and yield what trains nothing, in stages of which one fails."""
    training = ScriptedTraining(stage=stage)
    async with served(client, model or advised(), **options), trains(client, training):
        yield training


def request(**fields: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "environment": "counting", "tasks": ["7", "8"], "reflector": "base", "base_model": "tiny",
        "rollouts": 1, "max_attempts": 1,
        "concurrency": 1,
    }  # fmt: skip
    return known | fields


async def start(client: Client, **fields: Any) -> Handle:
    return await begin(client, request(**fields), "RetroformerTrainingWorkflow")


async def end(handle: Handle) -> RetroformerTrainingResult:
    return RetroformerTrainingResult.model_validate(await ended(handle))


async def progress_of(handle: Handle) -> RetroformerTrainingResult:
    return RetroformerTrainingResult.model_validate(await handle.query("progress"))


async def until_phase(handle: Handle, phase: str) -> RetroformerTrainingResult:
    seen: RetroformerTrainingResult = await until(
        lambda: progress_of(handle), lambda seen: seen.step == phase
    )
    return seen


async def until_one(handle: Handle) -> RetroformerTrainingResult:
    """Wait until one rollout has ended, and another is under way."""
    seen: RetroformerTrainingResult = await until(
        lambda: progress_of(handle), lambda seen: seen.done and seen.in_flight
    )
    return seen


async def test_the_phases_follow_each_other(client: Client) -> None:
    model = advised()
    async with serving(client, model) as training:
        handle = await start(client, rollouts=3, tuned="tuned", method="kto", seed=4)
        result = await end(handle)

    assert [(made.phase, made.next or made.stop_reason) for made in result.decisions] == [
        ("collecting", "reward_model"), ("reward_model", "reflector"), ("reflector", "measuring"),
        ("measuring", "trained"),
    ]  # fmt: skip
    assert [(one.stage, one.method, one.pairing) for one in training.stages] == [
        ("reward_model", "kto", "ordered"), ("reflector", "kto", "ordered"),
    ]  # fmt: skip
    identity = handle.id
    assert (result.reward_model, result.tuned_reflector, result.buffer) == (
        f"{identity}/reward_model", f"{identity}/reflector", f"{identity}/replay-buffer.jsonl",
    )  # fmt: skip
    # Of both tasks only 7 can be solved, by good advice; each rollout has seeds of its own.
    assert (result.before.made, result.before.reflections, result.before.good) == (6, 12, 3)
    assert sorted(pair.seeds for pair in training.pairs) == [(at, at + 1) for at in range(4, 16, 2)]
    assert result.counts is not None
    assert (result.counts.pairs, result.counts.equal, result.counts.preferences) == (6, 3, 3)
    assert result.after is not None
    assert (result.after.share_good, result.before.share_good) == (0.5, 0.25)
    assert result.usage.calls == len(model.calls)
    assert len(training.pairs) == 6  # what is measured is kept in no replay buffer
    # Of 12 reflections each: that may be chance.
    assert "rose by 0.25, which may be chance" in result.doubt


async def test_without_signal_nothing_is_trained(client: Client) -> None:
    """Pairs of equal gain say nothing: the training ends, and says so."""
    async with serving(client) as training:
        equal = await end(await start(client, tasks=["8", "9"]))
    async with serving(client, advised(plan=["[answer] 7"])):
        nothing = await end(await start(client, tasks=["7"]))

    assert (equal.stop_reason, training.stages) == ("no_signal", [])
    assert "2 pairs of reflections, 2 with equal gains and 0 with" in equal.doubt
    assert "no reflections were rated in 1 rollout" in nothing.doubt


async def test_a_control_learns_from_shuffled_labels(client: Client) -> None:
    name = f"training-{uuid.uuid4().hex}"
    async with serving(client, advised(f"tuned/{name}")) as training:
        asked = request(rollouts=3, tuned=f"tuned/{name}", method="kto", seed=4, control=True)
        result = await end(await begin(client, asked, "RetroformerTrainingWorkflow", name))

    assert [(one.run, one.control) for one in training.controls] == [(name, f"{name}/control")]
    assert [(one.run, one.stage) for one in training.stages] == [
        (name, "reward_model"), (name, "reflector"),
        (f"{name}/control", "reward_model"), (f"{name}/control", "reflector"),
    ]  # fmt: skip
    assert len(training.pairs) == 6
    assert result.after is not None
    assert result.control is not None
    assert (result.after.share_good, result.control.share_good) == (0.5, 0.25)
    [table] = [one for one in sheet(result).tables if one.title == "Reflections"]
    assert [row[0] for row in table.rows] == ["before", "after", "control"]


async def test_a_control_that_is_finished_trains_nothing(client: Client) -> None:
    """A person who ends the run while its labels are shuffled ends it once."""
    async with serving(client) as training:
        training.shuffles = asyncio.Event()
        name = f"training-{uuid.uuid4().hex}"
        asked = request(rollouts=3, tuned=f"tuned/{name}", method="kto", seed=4, control=True)
        handle = await begin(client, asked, "RetroformerTrainingWorkflow", name)
        await until(lambda: training.controls)
        await handle.execute_update("finish_now", {"author": "ann"})
        training.shuffles.set()
        result = await end(handle)

    assert result.stop_reason == "finished_by_person"
    assert [one.stop for one in result.decisions].count(True) == 1
    assert {one.run for one in training.stages} == {name}


@pytest.mark.parametrize("full", [False, True])
async def test_a_result_is_kept_beside_what_was_trained(client: Client, full: bool) -> None:
    """Where that fails the training has its result all the same."""
    async with serving(client) as training:
        training.full = full
        handle = await start(client, rollouts=3, method="dpo", seed=4)
        result = await end(handle)

    assert result.stop_reason == "trained"
    kept = [] if full else [(handle.id, result)]
    assert [(one.run, one.result) for one in training.results] == kept


async def test_no_more_rollouts_than_allowed_are_in_flight(client: Client) -> None:
    model = advised(delay=0.05)
    async with serving(client, model):
        result = await end(await start(client, tasks=["7"], rollouts=6, concurrency=2))
        half = (result.usage.tokens or 0) // 2 + (SPENT.tokens or 0)
        bounded = await end(await start(client, tasks=["7"], rollouts=6, budget_tokens=half))

    # A rollout asks for two reflections side by side.
    assert model.most <= 4
    assert result.before.made == 6
    assert bounded.before.made == 3
    assert bounded.stop_reason == "trained"
    assert any("no more rollouts were made" in warning for warning in bounded.warnings)


async def test_many_rollouts_take_many_histories(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run goes on in a new one with all that it had, and ends as it would have in one."""
    asked: dict[str, Any] = {
        "rollouts": 3, "tuned": "tuned", "seed": 4, "budget_seconds": 300, "budget_tokens": 900_000,
    }  # fmt: skip
    ended, kept = [], []
    for most in (500, 2):
        monkeypatch.setattr("workflows.training.ROLLOUTS", most)
        async with serving(client) as training:
            handle = await start(client, **asked)
            ended.append(await end(handle))
            described = await handle.describe()
            # The same command again prints the result, and begins nothing.
            same, wanted = RetroformerTrainingRequest(**request(**asked)), Wanted(accept_any=True)
            assert await follow.start(client, same, New(handle.id), wanted) == Exit.DONE
        kept.append([(pair.task, pair.rollout, pair.seeds) for pair in training.pairs])
        assert len({task.execution for task in training.kept}) == 1
        first = described.raw_description.workflow_execution_info.first_run_id
        assert (first == described.run_id) is (most == 500)

    named = {"decisions", "buffer", "stages", "reward_model", "tuned_reflector"}
    one, many = (result.model_dump(exclude=named) for result in ended)
    assert kept[0] == kept[1]
    assert one == many
    assert len({tuple(made.phase for made in result.decisions) for result in ended}) == 1


async def test_budgets_and_wishes_hold_across_histories(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflows.training.ROLLOUTS", 2)
    async with serving(client):
        spent = (await end(await start(client, tasks=["7"], rollouts=6))).usage.tokens or 0
        half = spent // 2 + (SPENT.tokens or 0)
        bounded = await end(await start(client, tasks=["7"], rollouts=6, budget_tokens=half))
        handle = await start(client, rollouts=10, budget_seconds=600)
        seen = await until(lambda: progress_of(handle), lambda seen: seen.before.made >= 4)
        await handle.execute_update("finish_now", {"author": "ann"})
        finished = await end(handle)

    assert bounded.before.made == 3
    assert any("no more rollouts were made" in warning for warning in bounded.warnings)
    assert finished.stop_reason == "trained"
    assert 4 <= seen.before.made <= finished.before.made < 20


async def test_whoever_finishes_the_collecting_trains_on_what_is_collected(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rollouts in flight are cancelled; who finishes again ends the training."""
    finish: Any = inspect.unwrap(updates.finish)
    async with serving(client, advised(plan=plan_one)) as training:
        handle = await start(client, rollouts=3, seed=4, method="dpo")
        seen = await until_one(handle)
        assert await finish(client, handle.id, "ann") == Exit.DONE
        result = await end(handle)
        training.hangs = True
        again = await start(client, rollouts=3, seed=4)
        await until_one(again)
        await again.execute_update("finish_now")
        await until_phase(again, "reward_model")
        await again.execute_update("finish_now", {"author": "ben"})
        ended_twice = await end(again)

    assert "it trains on those collected now" in capsys.readouterr().err
    assert (result.stop_reason, result.before.made, seen.done) == ("trained", 1, 1)
    assert [made.author for made in result.decisions] == ["ann", None, None]
    assert result.decisions[0].reason == "1 pair of reflections rated; collecting was ended by ann"
    assert result.tuned_reflector == f"{handle.id}/reflector"
    assert [made.author for made in ended_twice.decisions] == ["a person", "ben"]
    assert (ended_twice.stop_reason, ended_twice.stages) == ("finished_by_person", {})


async def test_a_training_that_no_worker_takes_is_ended_by_finishing_it_again(
    client: Client,
) -> None:
    """It still collects, and would wait for what is put together of that."""
    async with served(client, advised()):
        handle = await start(client)
        for name in ("ann", "ben"):
            await handle.execute_update("finish_now", {"author": name})
        finished = await end(handle)

    assert (finished.stop_reason, finished.decisions[-1].author) == ("finished_by_person", "ben")


async def test_the_progress_counts_the_rollouts_in_flight(client: Client) -> None:
    """As many as are made at once, also on the sheet, which `mull watch` shows."""
    async with serving(client, advised(delay=PATIENCE, delays={("reflect", None): 0})):
        handle = await start(client, concurrency=3, rollouts=2)
        seen = await until(lambda: progress_of(handle), lambda seen: seen.in_flight == 3)
        await handle.execute_update("finish_now", {"author": "ann"})
        finished = await end(handle)

    assert (seen.step, seen.in_flight, finished.in_flight) == ("collecting", 3, 0)
    assert sheet(seen).busy == "collecting 0 of 4, 3 rollouts in flight"


def listed(name: str | None) -> Abilities:
    if name == "unlisted":
        raise PermanentModelError(f"requests may not name {name}", "ModelNotAllowed")
    return Abilities(tools=True, effort=False)


NO_TOKENIZER = ApplicationError("tiny has no tokenizer", type="WeightsError", non_retryable=True)
NOPE = PermanentModelError("There is no model nope in MULL_ARTIFACTS.", "NotFoundError")
NOWHERE = advised(reflect=lambda _: NOPE)
KEYLESS = advised(plan=lambda _: PermanentModelError("no key", "AuthenticationError"))
# What is asked for, what fails in a stage, of which model, and what is said of it.
FAILURES: list[tuple[dict[str, Any], ApplicationError | None, ScriptedModel | None, str]] = [
    # Its model is called by its run's id: where the tuned one is not, both would be the same.
    ({"tuned": "tuned", "control": True}, None, None,
     "name the tuned model by this run's id, as …/RUN"),
    ({"base_model": "missing"}, None, None,
     "^find the base model: TrainingError: missing is neither a folder nor a Hugging Face name"),
    ({"tuned": "unlisted"}, None, None,
     "^the tuned model's name: ModelNotAllowed: requests may not name unlisted"),
    ({"reflector": "reflector/nope"}, None, NOWHERE,
     "^ask the reflector: NotFoundError: There is no model nope in MULL_ARTIFACTS.$"),
    ({}, NO_TOKENIZER, None, "^train the reward model: WeightsError: tiny has no tokenizer$"),
    ({}, None, KEYLESS, "no key"),
]  # fmt: skip


@pytest.mark.parametrize("failing", FAILURES)
async def test_what_fails_a_training_is_said(client: Client, failing: Any) -> None:
    """What can't be trained is found before a rollout, and not after hours of them."""
    fields, stage, model, said = failing
    own = model or advised()
    async with serving(client, own, stage, abilities=listed) as training:
        handle = await start(client, **fields)
        failed = await failure(handle)

    assert re.search(said.replace("RUN", handle.id), failed.message)
    assert training.results == []
    assert bool(own.asked("plan")) == (fields == {})
    assert len(own.calls) == 1 or own is not NOWHERE
    assert bool(training.stages) == (stage is not None)


async def test_a_failed_rollout_is_counted_and_fails_nothing(client: Client) -> None:
    async with serving(client):
        result = await end(await start(client, tasks=["7", "seven"]))
        failed = await failure(await start(client, tasks=["seven"]))

    assert (result.before.made, result.before.failed, result.stop_reason) == (2, 1, "trained")
    assert any("'seven' is no number" in warning for warning in result.warnings)
    assert "'seven' is no number" in failed.message


async def test_a_stage_tells_how_far_it_came(client: Client) -> None:
    """Its worker's signals are in the progress; a person may end it, which cancels the stage."""
    async with serving(client) as training:
        training.hangs = True
        handle = await start(client)
        await until_phase(handle, "reward_model")
        await handle.signal("stage_progress", StageStep(stage="reward_model", step=3, of=9))
        # What comes late from an earlier stage says nothing of this one.
        await handle.signal("stage_progress", StageStep(stage="reflector", step=1, of=2))
        seen = await progress_of(handle)
        await handle.execute_update("finish_now")
        result = await end(handle)

    assert (seen.done, seen.of) == (3, 9)
    assert (result.stop_reason, training.cancelled) == ("finished_by_person", 1)
    assert result.counts is not None


async def test_a_deadline_and_a_cancellation_end_it(client: Client) -> None:
    async with serving(client) as training:
        training.hangs = True
        late = await end(await start(client, budget_seconds=8))
        handle = await start(client)
        await until_phase(handle, "reward_model")
        await handle.cancel()
        await failure(handle, CancelledError)

    assert (late.stop_reason, late.before.made) == ("deadline", 2)
    assert training.cancelled == 2


async def test_what_fails_each_time_is_not_tried_for_every_task(client: Client) -> None:
    lost = PermanentModelError("there is no model basee", "NotFoundError")

    def reflect(call: ModelCall) -> Any:
        return GOOD if call.prompt == FIRST_REFLECTION else lost

    async with serving(client, advised(reflect=reflect)):
        handle = await start(client, tasks=[f"{7 + number}" for number in range(20)])
        failed = await failure(handle)
        seen = await progress_of(handle)

    assert "there is no model basee" in failed.message
    assert (seen.before.made, seen.before.failed) == (8, 8)
    assert "no more rollouts were made: all so far have failed" in seen.warnings
