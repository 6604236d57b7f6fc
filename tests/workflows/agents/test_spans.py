"""What spans, search attributes, the memo and metrics have of an agent, each task replayed."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client
from temporalio.runtime import (
    BUFFERED_METRIC_KIND_HISTOGRAM,
    MetricBuffer,
    Runtime,
    TelemetryConfig,
)

import spans as rebuilding
from activities.environments.port import Evaluation, StepResult
from commands.embedded import Place
from mull.connection import DATA_CONVERTER
from tests.conftest import Handle, begin, until
from tests.patience import PATIENCE
from tests.scripted import Said, ScriptedModel
from tests.workflows.agents import test_training as trainings
from tests.workflows.agents.running import Counting, served, start
from tests.workflows.agents.scripted_training import ScriptedTraining, trains
from tests.workflows.test_rebuilt import by_id, rebuilt_of
from tests.workflows.test_spans import CHAT, CONTENT, attributes, identity, observed, tree

RUN = "invoke_workflow ReflexionWorkflow"
WRONG: list[Said] = ["a secret thought. add[3]", "add[3]", "[answer] 6, secret"]
RIGHT: list[Said] = ["add[7]", "[answer] 7"]
LESSON = "a secret lesson"


class Telling(Counting):
    """An environment that says more than it does."""

    name = "telling"

    def reset(self, seed: int) -> str:
        return f"A secret task. {super().reset(seed)}"

    def step(self, action: str) -> StepResult:
        if "break" in action:
            raise OSError("a secret failure")
        return StepResult(observation=f"A secret place. {super().step(action).observation}")

    def evaluate(self, answer: str | None) -> Evaluation:
        found = super().evaluate(answer)
        return found.model_copy(update={"feedback": "a secret fault"})


async def learn(client: Client, model: ScriptedModel | None = None, **fields: Any) -> Handle:
    """Fail in an episode of three steps, and solve the task in one of two, unless told else."""
    model = model or ScriptedModel(plan=[*WRONG, *RIGHT], reflect=[LESSON])
    async with served(client, observed(model), Telling):
        handle = await start(client, {"environment": "telling", **fields})
        await handle.result()
    return handle


def named(spans: InMemorySpanExporter, name: str) -> list[dict[str, Any]]:
    """The attributes of the spans of this name, in the order in which these ended."""
    return [
        {key: value for key, value in attributes(span).items() if key.startswith("mull.")}
        for span in sorted(spans.get_finished_spans(), key=ended)
        if span.name == name
    ]


def ended(span: ReadableSpan) -> int:
    return span.end_time or 0


async def test_the_whole_tree_of_an_agent_s_spans(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """Each part of an episode is one span, none twice, in one trace, and no text is in any."""
    await learn(client)

    finished = spans.get_finished_spans()
    assert tree(finished) == {
        "-": {RUN: 1},
        RUN: {"mull.episode": 2},
        "mull.episode": {"mull.step": 5, "mull.evaluate": 2, "mull.reflect": 1, "mull.decision": 3},
        "mull.step": {"mull.plan": 5, "mull.execute": 3},
        "mull.plan": {CHAT: 5},
        "mull.reflect": {CHAT: 1},
    }
    assert len({identity(span).span_id for span in finished}) == len(finished)
    assert len({identity(span).trace_id for span in finished}) == 1
    assert "secret" not in "".join(span.to_json() for span in finished)


async def test_a_span_says_where_in_the_run_it_is_and_what_came_of_it(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """Episodes and steps count from 1; the return is `mull.return` wherever it stands."""
    await learn(client)

    failed = {"mull.return": 0.0, "mull.correct": False}
    solved = {"mull.return": 0.5, "mull.correct": True}
    by = {"mull.evaluator": "telling"}
    assert named(spans, "mull.episode") == [
        {"mull.episode": 1, "mull.ended": "answered", **failed},
        {"mull.episode": 2, "mull.ended": "answered", **solved},
    ]
    places = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]
    assert named(spans, "mull.step") == [{"mull.episode": e, "mull.step": s} for e, s in places]
    assert named(spans, "mull.plan") == [{"mull.step": s} for _, s in places]
    executed = [(1, 1), (1, 2), (2, 1)]
    assert named(spans, "mull.execute") == [
        {"mull.episode": e, "mull.step": s} for e, s in executed
    ]
    assert named(spans, "mull.evaluate") == [
        {"mull.episode": 1, **by, **failed},
        {"mull.episode": 2, **by, **solved},
    ]
    assert named(spans, "mull.reflect") == [{"mull.episode": 1}]
    on = {"mull.stop": False, "mull.best": 1, "mull.reason": "episode 1 failed", **failed}
    end = {
        "mull.episode": 2, "mull.best": 2, "mull.reflections": 1, "mull.stop": True,
        "mull.stop_reason": "solved", "mull.reason": "episode 2 solved the task", **solved,
    }  # fmt: skip
    assert named(spans, "mull.decision") == [
        {"mull.episode": 1, "mull.next": "reflect", "mull.reflections": 0, **on},
        {"mull.episode": 1, "mull.next": "episode", "mull.reflections": 1, **on},
        end,
    ]
    [run] = named(spans, RUN)
    assert run.items() >= end.items()
    once = {"mull.attempt": 1, "mull.cost.usd": 0.001}
    calls = [*places[:3], (1, None), *places[3:]]
    assert named(spans, CHAT) == [
        {"mull.episode": e, **({"mull.step": s} if s else {}), **once} for e, s in calls
    ]


async def test_an_episode_that_never_began_has_no_other_s_return(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """Where the budget has no room for its first action, its span says so by saying nothing."""
    await learn(client, budget_tokens=450, max_output_tokens=1)

    assert named(spans, "mull.episode") == [
        {"mull.episode": 1, "mull.return": 0.0, "mull.correct": False, "mull.ended": "answered"},
        {"mull.episode": 2},
    ]


async def test_the_whole_tree_of_retroformer_s_spans(
    client: Client, spans: InMemorySpanExporter
) -> None:
    model = ScriptedModel(plan=[*WRONG, *RIGHT], reflect=[LESSON, f"{LESSON}, too"])
    fields = {"environment": "telling", "reward_model": "r", "reflection_tries": 2}
    async with (
        served(client, observed(model), Telling),
        trains(client, ScriptedTraining([(0.1, 0.9)])),
    ):
        await (await start(client, fields, "RetroformerWorkflow")).result()

    finished = spans.get_finished_spans()
    whole = "invoke_workflow RetroformerWorkflow"
    assert tree(finished) == {
        "-": {whole: 1},
        whole: {"mull.episode": 2},
        "mull.episode": {"mull.step": 5, "mull.evaluate": 2, "mull.reflect": 1, "mull.decision": 3},
        "mull.step": {"mull.plan": 5, "mull.execute": 3},
        "mull.plan": {CHAT: 5},
        "mull.reflect": {CHAT: 2},
    }
    assert named(spans, "mull.reflect") == [
        {"mull.episode": 1, "mull.reflections": 2, "mull.score": 0.9}
    ]
    assert "secret" not in "".join(span.to_json() for span in finished)


async def test_the_whole_tree_of_a_training_s_spans(
    client: Client, spans: InMemorySpanExporter
) -> None:
    asked = trainings.request(environment="telling", tasks=["7"], tuned="tuned", method="kto")
    model = observed(trainings.advised())
    async with served(client, model, Telling), trains(client, ScriptedTraining()):
        await (await begin(client, asked, "RetroformerTrainingWorkflow")).result()

    finished = spans.get_finished_spans()
    whole, one = (
        "invoke_workflow RetroformerTrainingWorkflow",
        "invoke_workflow RetroformerRolloutWorkflow",
    )
    assert tree(finished) == {
        "-": {whole: 1},
        whole: {
            # The reflector is asked once before the rollouts.
            "chat base": 1, one: 2, "mull.train reward_model": 1, "mull.train reflector": 1,
            "mull.decision": 4,
        },
        one: {"mull.episode": 2},
        # Those of the two reflections are parts of the one that failed.
        "mull.episode": {
            "mull.episode": 4, "mull.step": 6, "mull.evaluate": 6, "mull.reflect": 2,
            "mull.decision": 4,
        },
        "mull.step": {"mull.plan": 6},
        "mull.plan": {CHAT: 6},
        "mull.reflect": {"chat base": 2, "chat tuned": 2},
    }  # fmt: skip
    assert len({identity(span).trace_id for span in finished}) == 1
    texts = "".join(span.to_json() for span in finished)
    assert not [text for text in ("secret", trainings.GOOD, trainings.POOR) if text in texts]


@pytest.mark.parametrize("content", ["false", "true"])
async def test_an_agent_s_texts_stand_in_spans_only_when_content_is_on(
    client: Client, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """Prompts and replies, and what an environment said when it failed, or a judge in vain."""
    monkeypatch.setenv(CONTENT, content)

    await learn(client)
    texts = "".join(span.to_json() for span in spans.get_finished_spans())
    spans.clear()
    await learn(client, ScriptedModel(plan=["break it"]), max_attempts=1)
    [failed] = named(spans, "mull.decision")
    spans.clear()
    vain = ScriptedModel(
        plan=["[answer] 5"], reflect=[], verdict=['{"correct": "secret"}', "secret"]
    )
    await learn(client, vain, judge="openai/judge")
    judged = [span for span in spans.get_finished_spans() if not span.name.startswith("chat ")]

    assert failed["mull.stop_reason"] == "environment_failed"
    assert ("a secret failure" in failed.get("mull.reason", "")) is (content == "true")
    shown = ("a secret thought", LESSON, "A secret place", "A secret task", "a secret fault")
    assert [text in texts for text in shown] == [content == "true"] * len(shown)
    assert "secret" not in "".join(span.to_json() for span in judged)


async def test_an_agent_s_spans_are_rebuilt_as_they_were(
    client: Client, spans: InMemorySpanExporter
) -> None:
    handle = await learn(client, memory="rebuilt")
    made = spans.get_finished_spans()

    rebuilt = await rebuilt_of(client, handle.id)

    assert by_id(rebuilt.spans) == by_id(made)
    assert (len(rebuilt.spans), rebuilt.error, rebuilt.still_open) == (len(made), None, [])


class Refusing(InMemorySpanExporter):
    """A receiver that refuses the second run's spans once."""

    asked = refused = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked += 1
        if self.asked == 2:
            self.refused += 1
            return SpanExportResult.FAILURE
        return super().export(spans)


async def test_a_training_s_rollouts_are_rebuilt_as_all_other_runs(
    client: Client, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no worker lives on, what is sent again of what ended has each span of theirs."""
    asked = trainings.request(environment="telling", tasks=["7"], tuned="tuned", method="kto")
    begun, model = datetime.now(UTC), observed(trainings.advised())
    async with served(client, model, Telling), trains(client, ScriptedTraining()):
        handle = await begin(client, asked, "RetroformerTrainingWorkflow")
        await handle.result()
    made = spans.get_finished_spans()
    seen = f"CloseTime >= '{begun.isoformat()}'"
    while (await client.count_workflows(seen)).count < 3:
        await asyncio.sleep(0.1)
    # The one worker of all these runs never outlived a task by enough, however long the next took.
    monkeypatch.setattr(rebuilding, "FLUSHED", timedelta(days=1))
    monkeypatch.setattr(rebuilding, "SETTLED", timedelta(0))
    monkeypatch.setattr(rebuilding, "BETWEEN_LOOKS", 0.1)
    monkeypatch.setattr(rebuilding, "LOOK_BACK", datetime.now(UTC) - begun)
    again = Refusing()

    sending = asyncio.create_task(rebuilding.send_ended([again]))
    async with asyncio.timeout(2 * PATIENCE):
        await until(lambda: by_id(again.get_finished_spans()).keys() >= by_id(made).keys())
    sending.cancel()

    sent = by_id(again.get_finished_spans())
    assert {span: sent[span] for span in by_id(made)} == by_id(made)
    assert (again.refused, len(again.get_finished_spans())) == (1, len(sent))


async def test_a_run_is_found_by_its_episodes_and_its_memo_has_the_return(client: Client) -> None:
    described = await (await learn(client)).describe()

    found = {pair.key.name: pair.value for pair in described.typed_search_attributes}
    assert {name: value for name, value in found.items() if name.startswith("Mull")} == {
        "MullStopReason": "solved",
        "MullRevisions": 2,
        "MullModel": "scripted/model",
        "MullTokens": 600,
        "MullCostUsd": pytest.approx(0.006),
    }
    assert await described.memo() == {
        "stop_reason": "solved",
        "stop_explanation": "episode 2 solved the task",
        "answer": "7",
        "return": 0.5,
    }


async def test_the_best_return_is_measured_once(client: Client, place: Place) -> None:
    """However often the run is replayed, `mull_return` has it once, and no id is a label."""
    buffer = MetricBuffer(10_000)
    runtime = Runtime(telemetry=TelemetryConfig(metrics=buffer))
    plugins = client.config()["plugins"]
    measured = await Client.connect(
        place.address, data_converter=DATA_CONVERTER, runtime=runtime, plugins=plugins
    )
    handle = await learn(measured)

    updates = [one for one in buffer.retrieve_updates() if one.metric.name == "mull_return"]
    assert [(one.value, one.metric.kind) for one in updates] == [
        (0.5, BUFFERED_METRIC_KIND_HISTOGRAM)
    ]
    assert handle.id not in str(updates[0].attributes)
