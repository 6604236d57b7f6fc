"""The turn as a workflow: answers, calls of tools, people, reflections and bounds."""

import asyncio
import time
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.worker import Replayer

from activities.language_model.port import ModelCall, PermanentModelError, SampleError
from activities.tools.servers import LIST_SECONDS
from mull.connection import DATA_CONVERTER
from mull.run import Spending
from mull.turn.approval import ToolRule
from mull.turn.budget import TurnLimits
from tests.conftest import SANDBOX, failure, refusal, until_sent
from tests.patience import Stopwatch
from tests.scripted import ScriptedModel, kind_of
from tests.workflows.turn.running import (
    ANSWER,
    Noted,
    called,
    ended,
    permit,
    run,
    served,
    start,
    until_at,
)
from workflows.base import Inbound
from workflows.calls import bounded_times
from workflows.tool_turn import LISTING, ToolTurnWorkflow

LOOK = [("look", {"place": "sea"})]
BAD = [("look", {"place": "bad sea"})]
WRITE = [("write", {"text": "a"})]
LOW: dict[str, Any] = {"think_level": "low"}
THOUGHT = "The sea is missing: try the sky."


def told(call: ModelCall) -> list[str]:
    """List what the model was told of its calls."""
    return [one["content"] for one in call.messages if one["role"] == "tool"]


async def test_a_turn_answers(client: Client) -> None:
    result = await run(client, ScriptedModel(step=[ANSWER]))

    assert (result.answer, result.stop_reason, result.doubt) == (ANSWER, "answered", "")
    assert result.budget.steps_used == 1
    assert result.tools == ("look", "write", "slow")


async def test_results_go_back_to_the_model(client: Client) -> None:
    noted = Noted()
    model = ScriptedModel(step=[[*LOOK, ("look", {"place": "sky"})], ANSWER])

    result = await run(client, model, noted)

    assert sorted(noted.calls) == ["look sea", "look sky"]
    assert [call.status for call in result.calls] == ["ok", "ok"]
    assert ["sea is blue" in text for text in told(model.calls[1])] == [True, False]
    assert ["sky is blue" in text for text in told(model.calls[1])] == [False, True]
    assert result.budget.tool_calls_used == 2
    assert [made.next for made in result.decisions] == ["ask", "call_tools", "ask", None]


async def test_what_only_reads_runs_side_by_side(client: Client) -> None:
    calls = [("slow", {"seconds": seconds}) for seconds in (1.0, 1.001, 1.002)]

    result = await run(client, ScriptedModel(step=[calls, ANSWER]))

    ends = [call.at.timestamp() for call in result.calls if call.at]
    begins = [end - (call.seconds or 0) for end, call in zip(ends, result.calls, strict=True)]
    assert max(begins) < min(ends)
    assert result.budget.tool_calls_used == 3


async def test_a_recorded_result_costs_no_call(client: Client) -> None:
    result, calls = await called(client, [LOOK, LOOK, BAD, BAD, ANSWER])

    assert calls == ["look sea", "look bad sea", "look bad sea"]
    assert [call.record_of for call in result.calls] == [None, 0, None, None]
    assert result.budget.tool_calls_used == 3


async def test_what_writes_waits_for_a_person(client: Client) -> None:
    noted = Noted()
    model = ScriptedModel(step=[WRITE, [("write", {"text": "b"})], ANSWER])
    async with served(client, model, noted):
        began = time.monotonic()
        handle = await start(client)
        assert (await until_at(handle, "waiting_for_permission"))["asking"] == [1]
        await asyncio.sleep(2)
        assert noted.calls == []
        await permit(handle, 1, author="ann")
        await until_at(handle, "waiting_for_permission", 2)
        await asyncio.sleep(2)
        await handle.execute_update("permit", {"call": 2, "allow": False, "why": "not today"})
        result = await ended(handle)
        took = time.monotonic() - began

    assert noted.calls == ["write a"]
    assert result.calls[0].approval
    assert result.calls[0].approval.author == "ann"
    assert [call.status for call in result.calls] == ["ok", "denied"]
    assert "not today" in told(model.calls[2])[1]
    assert result.budget.waited_s > 3.5
    assert 60 - result.budget.remaining_s < took - 3.5


async def test_silence_denies(client: Client) -> None:
    result, calls = await called(client, [WRITE, ANSWER], review_timeout_seconds=0.5)

    assert calls == []
    assert result.answer == ANSWER
    assert result.calls[0].content == "nobody allowed it within 0.5 seconds"


REFUSED: list[tuple[Any, str]] = [
    ({"call": 2, "allow": True}, "call 2 is not waiting for anyone; waiting: 1"),
    ({"call": 0, "allow": True}, "call: "),
    ({"call": 1, "allow": True}, "is allowed with the run_id and the digest of its question"),
    ({"call": 1}, "allow: missing"),
    ({"call": 1, "allow": "yes"}, "allow: "),
    (None, "give one JSON object"),
]


async def test_a_wrong_word_is_refused(client: Client) -> None:
    async with served(client, ScriptedModel(step=[WRITE, ANSWER])):
        handle = await start(client)
        await until_at(handle, "waiting_for_permission")
        for given, said in REFUSED:
            assert said in await refusal(handle, "permit", given)
        assert "allow or deny" in await refusal(handle, "review", {"accept": True})
        await handle.execute_update("finish_now")
        result = await ended(handle)

    assert result.stop_reason == "finished_by_person"
    assert result.calls[0].status == "not_run"


async def test_nobody_is_asked_about_wrong_arguments(client: Client) -> None:
    result = await run(client, ScriptedModel(step=[[("write", {"words": 1})], ANSWER]))

    assert result.calls[0].status == "invalid"
    assert "text" in result.calls[0].content


async def test_rules_of_worker_and_request(client: Client) -> None:
    rules = (ToolRule(tool="write", action="allow"), ToolRule(tool="look", action="deny"))
    own = [
        {"tool": "write", "arguments": {"text": "secret*"}, "action": "deny", "why": "no secrets"},
        {"tool": "look", "action": "allow"},
    ]
    steps = [[*WRITE, ("write", {"text": "secret 1"}), *LOOK], ANSWER]

    result, calls = await called(client, steps, rules, approve=own)

    assert calls == ["write a"]
    assert [call.status for call in result.calls] == ["ok", "denied", "denied"]


async def test_a_tool_error_is_reflected_on(client: Client) -> None:
    model = ScriptedModel(step=[BAD, LOOK, ANSWER], reflection=[THOUGHT])

    result = await run(client, model, **LOW)

    (made,) = result.reflections
    assert (made.reflection, made.should_continue, made.confidence) == (THOUGHT, True, 0.7)
    assert result.last_reflection == made
    assert made.because == "a tool failed: look: ValueError: there is no bad sea"
    (asked,) = model.asked("reflection")
    assert (asked.tools, asked.timeout_seconds) == ((), 30)
    assert not [step for step in model.asked("step") if THOUGHT in str(step)]
    assert result.usage.parts["evaluating"].calls == 1


async def test_a_reflection_feeds_back_where_that_is_asked_for(client: Client) -> None:
    model = ScriptedModel(step=[BAD, LOOK, ANSWER], reflection=[THOUGHT])

    await run(client, model, **LOW, reflection_feeds_back=True)

    systems = [step.messages[0]["content"] for step in model.asked("step")]
    assert [THOUGHT in system for system in systems] == [False, True, False]


@pytest.mark.parametrize(("stated", "reflections"), [("0.49", 1), ("0.5", 0)])
async def test_a_low_confidence_is_reflected_on(
    client: Client, stated: str, reflections: int
) -> None:
    """Under 0.5 as the model states it; its statement is no part of the answer."""
    model = ScriptedModel(step=[f"{ANSWER}\n\nConfidence: {stated}"], reflection=[THOUGHT])

    result = await run(client, model, **LOW, reflect_on_uncertainty=True)

    assert result.answer == ANSWER
    assert len(result.reflections) == reflections


async def test_a_reflection_holds_up_a_turn_no_longer_than_its_time_out(client: Client) -> None:
    """One that hangs is given up after the seconds that it has, and the turn goes on."""

    async def hang(_: ModelCall) -> str:
        await asyncio.sleep(60)
        return THOUGHT

    watch = Stopwatch()
    result = await run(
        client, ScriptedModel(step=[BAD, ANSWER], reflection=[hang]), budget_seconds=8, **LOW
    )

    assert [made.reflection for made in result.reflections] == ["[reflection failed]"]
    assert watch.seconds < 14


async def test_no_tool_starts_with_little_time_left(client: Client) -> None:
    result, calls = await called(client, [LOOK, ANSWER], budget_seconds=4.9)

    assert (calls, result.calls[0].status) == ([], "not_run")
    assert result.budget.tool_calls_used == 0


async def test_a_long_conversation_is_compacted(client: Client) -> None:
    earlier = [
        {"role": role, "content": f"{number} " + "old words " * 200}
        for number in range(10)
        for role in ("user", "assistant")
    ]
    model = ScriptedModel(step=[ANSWER])

    result = await run(client, model, messages=earlier, max_context_tokens=10_000)

    assert result.answer == ANSWER
    assert result.summary == "What was said before: little."
    assert 0 < result.summarized < 20
    (step,) = model.asked("step")
    assert len(step.messages) == 2 + 20 - result.summarized
    assert result.budget.context_tokens_used <= 10_000


HUGE = Spending(calls=1, input_tokens=250_000, output_tokens=20)
SURE = "It is 4. Confidence: 0.2."


@pytest.mark.parametrize(
    ("steps", "fields", "made", "stop_reason"),
    [
        ([LOOK, ANSWER], {}, ("step",), "max_context_tokens"),
        ([SURE], {**LOW, "reflect_on_uncertainty": True}, ("step", "reflection"), "answered"),
        (["", "", ANSWER], {}, ("step", "step"), "generation_failed"),
    ],
)
async def test_a_run_of_earlier_code_goes_on_as_it_began(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Any],
    fields: dict[str, Any],
    made: tuple[str, ...],
    stop_reason: str,
) -> None:
    """What is new at the end of a reply counts for new runs, and changes no history's commands."""

    async def turned() -> tuple[Any, ScriptedModel, Any]:
        model = ScriptedModel(
            step=list(steps),
            reflection=[THOUGHT],
            spending={"step": HUGE} if LOOK in steps else None,
        )
        async with served(client, model):
            handle = await start(client, **fields)
            return await ended(handle), model, await handle.fetch_history()

    new, model, _ = await turned()
    with monkeypatch.context() as earlier:
        earlier.setattr("temporalio.workflow.patched", lambda _: False)
        old, before, history = await turned()
    await Replayer(
        workflows=[ToolTurnWorkflow], data_converter=DATA_CONVERTER, workflow_runner=SANDBOX,
        interceptors=[Inbound()], plugins=[OpenTelemetryPlugin()],
    ).replay_workflow(history)  # fmt: skip

    asked = [tuple(map(kind_of, one.calls)) for one in (model, before)]
    assert (new.stop_reason, old.stop_reason) == (stop_reason, "answered")
    assert asked == [made, ("step",) * len(steps)]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("Refusal", "the model refused to answer"),
        ("ContentPolicyViolationError", "the provider's content filter took the reply"),
        ("EmptyReply", "the reply is empty"),
    ],
)
async def test_a_turn_without_a_usable_reply_costs_two_calls(
    client: Client, kind: str, said: str
) -> None:
    model = ScriptedModel(step=[SampleError(said, kind)] * 6)

    result = await run(client, model)

    assert (result.stop_reason, len(model.calls), result.usage.calls) == ("generation_failed", 2, 2)
    assert result.stop_explanation == f"two replies in a row can't be used: {kind}: {said}"
    assert result.decisions[1].reason.endswith(f"the last reply can't be used: {kind}: {said}")
    assert result.warnings == tuple(f"reply {n} can't be used: {kind}: {said}" for n in (1, 2))


async def test_a_turn_without_the_queue_of_tools_answers(client: Client) -> None:
    result = await run(client, ScriptedModel(step=[ANSWER]), tools=[])

    assert result.tools == ()
    assert not result.warnings


async def test_a_tool_that_there_is_not_ends_a_turn_before_it_costs_anything(
    client: Client,
) -> None:
    """What a person mistyped is refused as they begin; a conversation goes on without the tool."""
    model, said = ScriptedModel(step=[ANSWER]), "the worker has no tool lok; it has look"
    earlier = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    async with served(client, model):
        refused = [
            await failure(await start(client, tools=["lok", "write"], **more))
            for more in ({}, {"messages": earlier}, {"turn_count": 2})
        ]
        asked = len(model.calls)
        later = await start(client, tools=["lok", "write"], messages=earlier, turn_count=2)
        result = await ended(later)

    assert {error.type for error in refused} == {"InvalidRequest"}
    assert all(error.message.startswith(f"tools: {said}") for error in refused)
    assert (asked, result.answer, result.tools) == (0, ANSWER, ("write",))
    assert result.warnings[0].startswith(said)


async def test_a_person_ends_a_turn(client: Client) -> None:
    async with served(client, ScriptedModel(step=[LOOK, [("slow", {"seconds": 40})]])):
        handle = await start(client)
        await until_at(handle, "call_tools", 2)
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await ended(handle)

    assert (result.stop_reason, result.decisions[-1].author) == ("finished_by_person", "ann")
    assert result.calls[1].status == "timeout"
    assert "sea is blue" in str(result.so_far)


async def test_without_any_reply_the_run_fails(client: Client) -> None:
    """What no call can mend fails the run; after a step, the turn ends with what it has."""
    broken = PermanentModelError("no key", "AuthenticationError")
    async with served(client, ScriptedModel(step=[broken])):
        error = await failure(await start(client))

    result = await run(client, ScriptedModel(step=[LOOK, broken]))

    assert error.type == "AuthenticationError"
    assert (result.stop_reason, result.answer) == ("generation_failed", None)


async def test_spans_and_details_show_a_turn(client: Client, spans: InMemorySpanExporter) -> None:
    model = ScriptedModel(step=[BAD, ANSWER], reflection=["a secret thought"])
    async with served(client, model):
        handle = await start(client, **LOW)
        await ended(handle)
        shown = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)

    names = [span.name for span in spans.get_finished_spans()]
    assert names.count("execute_tool look") == 1
    assert names.count("mull.turn.reflect") == 1
    assert names.count("mull.decision") == 5
    assert not [span for span in spans.get_finished_spans() if "secret" in str(span.attributes)]
    assert "a secret thought" in shown.current_details
    assert "bad sea" in shown.current_details


async def test_a_call_that_is_allowed_as_the_turn_is_ended_does_not_run(client: Client) -> None:
    """Both words come at once, while no worker is there."""
    noted = Noted()
    async with served(client, ScriptedModel(step=[WRITE]), noted):
        handle = await start(client)
        await until_at(handle, "waiting_for_permission")
        seen = (await handle.query("progress"))["questions"][0]
    allowed = {name: seen[name] for name in ("call", "run_id", "digest")} | {"allow": True}
    words: list[Any] = [("permit", allowed), ("finish_now", {})]
    said = []
    for word in words:
        said.append(asyncio.create_task(handle.execute_update(*word)))
        await until_sent(handle)
    async with served(client, ScriptedModel(), noted):
        await asyncio.gather(*said)
        result = await ended(handle)

    assert (noted.calls, result.calls[0].status) == ([], "not_run")
    assert result.stop_reason == "finished_by_person"


def test_listing_the_tools_leaves_time_for_an_answer() -> None:
    """A turn waits for the tools as long as a worker for a server, and no more than most of it."""
    whole = bounded_times(*LISTING)["schedule_to_close_timeout"].total_seconds()

    assert LIST_SECONDS < whole < TurnLimits().budget_seconds * 2 / 3
