"""The training of a reflector on a real server: its phases, what ends it, and what it tells."""

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError

from activities.language_model.port import Abilities, ModelCall, PermanentModelError
from commands import follow
from commands.command import Exit
from commands.follow import Wanted
from mull.agents.training import RetroformerTrainingRequest
from mull.agents.training_result import RetroformerTrainingResult, StageStep
from mull.agents.training_sheet import sheet
from tests.conftest import begin
from tests.patience import PATIENCE
from tests.workflows.agents.running import Handle, ScriptedAgent, served
from tests.workflows.agents.scripted_training import ScriptedTraining, trains

GOOD, POOR = "Good advice.", "Poor advice."


class Advised:
    """A planner that succeeds where it reads good advice, and a reflector that is `good` or not.

    Untrained, a reflection is good for an even seed; the tuned one's is always good.
    """

    def __init__(self) -> None:
        self.calls: list[ModelCall] = []

    async def complete(self, call: ModelCall) -> Any:
        self.calls.append(call)
        if call.prompt.endswith("Reflection:"):
            good = call.model == "tuned" or (call.seed or 0) % 2 == 0
            text = GOOD if good else POOR
        else:
            text = "[answer] 7" if f"- {GOOD}" in call.prompt else "[answer] 5"
        return await ScriptedAgent([text], [text]).complete(call)


def request(**fields: Any) -> dict[str, Any]:
    """Ask for a training on two tasks."""
    known: dict[str, Any] = {
        "environment": "counting", "tasks": ["7", "8"], "reflector": "base", "base_model": "tiny",
        "rollouts": 1, "max_attempts": 1,
        "concurrency": 1,
    }  # fmt: skip
    return known | fields


async def start(client: Client, **fields: Any) -> Handle:
    """Start a training on two tasks."""
    return await begin(client, request(**fields), "RetroformerTrainingWorkflow")


async def end(handle: Handle) -> RetroformerTrainingResult:
    """Return the result of a training."""
    found = await asyncio.wait_for(handle.result(), PATIENCE)
    return RetroformerTrainingResult.model_validate(found)


async def progress_of(handle: Handle) -> RetroformerTrainingResult:
    """Ask where a training stands."""
    return RetroformerTrainingResult.model_validate(await handle.query("progress"))


async def until_phase(handle: Handle, phase: str) -> RetroformerTrainingResult:
    """Wait until a training is in a phase."""
    async with asyncio.timeout(PATIENCE):
        while (seen := await progress_of(handle)).step != phase:
            await asyncio.sleep(0.05)
    return seen


async def test_the_phases_follow_each_other(client: Client) -> None:
    """Collect and rate, train the reward model, tune the reflector, and measure what was gained."""
    model, training = Advised(), ScriptedTraining()
    async with served(client, model), trains(client, training):
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
    training = ScriptedTraining()
    async with served(client, Advised()), trains(client, training):
        equal = await end(await start(client, tasks=["8", "9"]))
    with_nothing = ScriptedTraining()
    solved = ScriptedAgent(["[answer] 7"])
    async with served(client, solved), trains(client, with_nothing):
        nothing = await end(await start(client, tasks=["7"]))

    assert (equal.stop_reason, training.stages) == ("no_signal", [])
    assert "of 2 pairs of reflections 2 have equal gains" in equal.doubt
    assert "no reflections were rated in 1 rollout" in nothing.doubt


async def test_a_control_learns_from_shuffled_labels(client: Client) -> None:
    """In a run of its own, from the same pairs: what it gains stands beside the training's gain."""

    class Two(Advised):
        async def complete(self, call: ModelCall) -> Any:
            learned = call.model == "tuned/" + handle.id
            name = "tuned" if learned else "base"
            return await super().complete(call.model_copy(update={"model": name}))

    training = ScriptedTraining()
    async with served(client, Two()), trains(client, training):
        name = f"training-{uuid.uuid4().hex}"
        asked = request(rollouts=3, tuned=f"tuned/{name}", method="kto", seed=4, control=True)
        handle = await client.start_workflow(
            "RetroformerTrainingWorkflow", asked, id=name, task_queue="mull"
        )
        result = await end(handle)

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


async def test_a_control_needs_a_name_of_its_own(client: Client) -> None:
    """Its model is called by its run's id: where the tuned one is not, both would be the same."""
    training = ScriptedTraining()
    async with served(client, Advised()), trains(client, training):
        handle = await start(client, tuned="tuned", control=True)
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()

    assert isinstance(failed.value.cause, ApplicationError)
    assert f"name the tuned model by this run's id, as …/{handle.id}" in failed.value.cause.message
    assert training.stages == []


async def test_a_control_that_is_finished_trains_nothing(client: Client) -> None:
    """A person who ends the run while its labels are shuffled ends it once."""
    training = ScriptedTraining()
    training.shuffles = asyncio.Event()
    async with served(client, Advised()), trains(client, training):
        name = f"training-{uuid.uuid4().hex}"
        asked = request(rollouts=3, tuned=f"tuned/{name}", method="kto", seed=4, control=True)
        handle: Handle = await client.start_workflow(
            "RetroformerTrainingWorkflow", asked, id=name, task_queue="mull"
        )
        while not training.controls:
            await asyncio.sleep(0.05)
        await handle.execute_update("finish_now", {"author": "ann"})
        training.shuffles.set()
        result = await end(handle)

    assert result.stop_reason == "finished_by_person"
    assert [one.stop for one in result.decisions].count(True) == 1
    assert {one.run for one in training.stages} == {name}


@pytest.mark.parametrize("full", [False, True])
async def test_a_result_is_kept_beside_what_was_trained(client: Client, full: bool) -> None:
    """Where that fails the training has its result all the same."""
    training = ScriptedTraining()
    training.full = full
    async with served(client, Advised()), trains(client, training):
        handle = await start(client, rollouts=3, method="dpo", seed=4)
        result = await end(handle)

    assert result.stop_reason == "trained"
    kept = [] if full else [(handle.id, result)]
    assert [(one.run, one.result) for one in training.results] == kept


async def test_no_more_rollouts_than_allowed_are_in_flight(client: Client) -> None:
    """Their number at once is bounded, and so is what they spend; the rest is trained on."""
    at_once, most = 0, 0

    class Slow(Advised):
        async def complete(self, call: ModelCall) -> Any:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.05)
            at_once -= 1
            return await super().complete(call)

    training = ScriptedTraining()
    async with served(client, Slow()), trains(client, training):
        result = await end(await start(client, tasks=["7"], rollouts=6, concurrency=2))
        spent = result.usage.tokens or 0
        bounded = await end(await start(client, tasks=["7"], rollouts=6, budget_tokens=spent // 2))

    # A rollout asks for two reflections side by side.
    assert most <= 4
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
        training = ScriptedTraining()
        async with served(client, Advised()), trains(client, training):
            handle = await start(client, **asked)
            ended.append(await end(handle))
            described = await handle.describe()
            # The same command again prints the result, and begins nothing.
            same, wanted = RetroformerTrainingRequest(**request(**asked)), Wanted(accept_any=True)
            assert await follow.start(client, same, follow.New(handle.id), wanted) == Exit.DONE
        kept.append([(pair.task, pair.rollout, pair.seeds) for pair in training.pairs])
        assert len({task.execution for task in training.kept}) == 1
        first = described.raw_description.workflow_execution_info.first_run_id
        assert (first == described.run_id) is (most == 500)

    one, many = (
        result.model_dump(
            exclude={"decisions", "buffer", "stages", "reward_model", "tuned_reflector"}
        )
        for result in ended
    )
    assert kept[0] == kept[1]
    assert one == many
    assert [made.phase for made in ended[0].decisions] == [
        made.phase for made in ended[1].decisions
    ]


async def test_budgets_and_wishes_hold_across_histories(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was spent counts, as does the time that passed; and a person ends it in any of them."""
    monkeypatch.setattr("workflows.training.ROLLOUTS", 2)
    async with served(client, Advised()), trains(client, ScriptedTraining()):
        spent = (await end(await start(client, tasks=["7"], rollouts=6))).usage.tokens or 0
        bounded = await end(await start(client, tasks=["7"], rollouts=6, budget_tokens=spent // 2))
        handle = await start(client, rollouts=10, budget_seconds=600)
        async with asyncio.timeout(PATIENCE):
            while (seen := await progress_of(handle)).before.made < 4:
                await asyncio.sleep(0.02)
        await handle.execute_update("finish_now", {"author": "ann"})
        finished = await end(handle)

    assert bounded.before.made == 3
    assert any("no more rollouts were made" in warning for warning in bounded.warnings)
    assert finished.stop_reason == "finished_by_person"
    assert 4 <= seen.before.made <= finished.before.made < 20


async def test_the_progress_counts_the_rollouts_in_flight(client: Client) -> None:
    """As many as are made at once, also on the sheet, which `mull watch` shows."""

    class Held(Advised):
        async def complete(self, call: ModelCall) -> Any:
            await asyncio.sleep(PATIENCE)
            return await super().complete(call)

    async with served(client, Held()), trains(client, ScriptedTraining()):
        handle = await start(client, concurrency=3, rollouts=2)
        async with asyncio.timeout(PATIENCE):
            while (seen := await progress_of(handle)).in_flight < 3:
                await asyncio.sleep(0.02)
        await handle.execute_update("finish_now", {"author": "ann"})
        finished = await end(handle)

    assert (seen.step, seen.in_flight, finished.in_flight) == ("collecting", 3, 0)
    assert sheet(seen).busy == "collecting 0 of 4, 3 rollouts in flight"


async def test_a_missing_base_model_is_found_missing_before_a_rollout(client: Client) -> None:
    """Nothing is spent on rollouts that nothing could be trained on."""
    model, training = Advised(), ScriptedTraining()
    async with served(client, model), trains(client, training):
        with pytest.raises(WorkflowFailureError) as failed:
            await end(await start(client, base_model="missing"))

    assert isinstance(failed.value.cause, ApplicationError)
    said = "find the base model: TrainingError: missing is neither a folder nor a Hugging Face name"
    assert failed.value.cause.message.startswith(said)
    assert model.calls == []


async def test_a_tuned_model_that_may_not_be_named_ends_it_before_a_rollout(client: Client) -> None:
    """By the worker's list of models: not after hours of training."""

    def listed(name: str | None) -> Abilities:
        raise PermanentModelError(f"requests may not name {name}", "ModelNotAllowed")

    model, training = Advised(), ScriptedTraining()
    async with served(client, model, abilities=listed), trains(client, training):
        with pytest.raises(WorkflowFailureError) as failed:
            await end(await start(client, tuned="tuned"))

    assert isinstance(failed.value.cause, ApplicationError)
    said = "the tuned model's name: ModelNotAllowed: requests may not name tuned"
    assert failed.value.cause.message.startswith(said)
    assert model.calls == []


async def test_a_failed_rollout_is_counted_and_fails_nothing(client: Client) -> None:
    """A task that there is none of is a warning; where no rollout ends, the training fails."""
    training = ScriptedTraining()
    async with served(client, Advised()), trains(client, training):
        result = await end(await start(client, tasks=["7", "seven"]))
        with pytest.raises(WorkflowFailureError) as failed:
            await end(await start(client, tasks=["seven"]))

    assert (result.before.made, result.before.failed, result.stop_reason) == (2, 1, "trained")
    assert any("'seven' is no number" in warning for warning in result.warnings)
    assert isinstance(failed.value.cause, ApplicationError)
    assert "'seven' is no number" in failed.value.cause.message


async def test_a_stage_that_fails_fails_the_training_in_one_line(client: Client) -> None:
    """It names the stage, and what its worker said."""
    said = ApplicationError("tiny has no tokenizer", type="WeightsError", non_retryable=True)
    training = ScriptedTraining(stage=said)
    async with served(client, Advised()), trains(client, training):
        with pytest.raises(WorkflowFailureError) as failed:
            await end(await start(client))

    assert isinstance(failed.value.cause, ApplicationError)
    words = "train the reward model: WeightsError: tiny has no tokenizer"
    assert failed.value.cause.message == words


async def test_a_stage_tells_how_far_it_came(client: Client) -> None:
    """Its worker's signals are in the progress; a person may end it, which cancels the stage."""
    training = ScriptedTraining()
    training.hangs = True
    async with served(client, Advised()), trains(client, training):
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
    """The stage under way is cancelled, and what was made is kept."""
    training = ScriptedTraining()
    training.hangs = True
    async with served(client, Advised()), trains(client, training):
        late = await end(await start(client, budget_seconds=8))
        handle = await start(client)
        await until_phase(handle, "reward_model")
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as cancelled:
            await end(handle)

    assert (late.stop_reason, late.before.made) == ("deadline", 2)
    assert isinstance(cancelled.value.cause, CancelledError)
    assert training.cancelled == 2


async def test_a_permanent_error_of_a_model_is_said(client: Client) -> None:
    """A wrong key fails every rollout in the same way, and the training says it once."""
    model = ScriptedAgent([PermanentModelError("no key", "AuthenticationError")] * 9)
    training = ScriptedTraining()
    async with served(client, model), trains(client, training):
        with pytest.raises(WorkflowFailureError) as failed:
            await end(await start(client))

    assert isinstance(failed.value.cause, ApplicationError)
    assert "no key" in failed.value.cause.message


async def test_what_fails_each_time_is_not_tried_for_every_task(client: Client) -> None:
    """After eight rollouts that all failed the training ends, and says how."""
    lost = PermanentModelError("there is no model basee", "NotFoundError")

    class Unreached(Advised):
        async def complete(self, call: ModelCall) -> Any:
            if call.prompt.endswith("Reflection:"):
                raise lost
            return await super().complete(call)

    training = ScriptedTraining()
    async with served(client, Unreached()), trains(client, training):
        handle = await start(client, tasks=[f"{7 + number}" for number in range(20)])
        with pytest.raises(WorkflowFailureError) as failed:
            await end(handle)
        seen = await progress_of(handle)

    assert isinstance(failed.value.cause, ApplicationError)
    assert "there is no model basee" in failed.value.cause.message
    assert (seen.before.made, seen.before.failed) == (8, 8)
    assert "no more rollouts were made: all so far have failed" in seen.warnings
