"""The model calls of a turn, through LiteLLM's adapter, against a scripted server."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.language_model.layers import ObservedModel
from activities.language_model.port import Abilities, Endpoint
from activities.turn import ModelTask, PromptTask, StepTask, TurnActivities
from mull.request import SamplingOptions
from mull.turn import midturn
from mull.turn.budget import thinking
from mull.turn.conversation import Guidance, Message, StepReply
from mull.turn.loop import Turn
from mull.turn.request import ToolTurnRequest
from mull.turn.tools import ARGUMENT_BYTES, MOST_CALLS, Tool, ToolCall, read_arguments
from tests.activities.conftest import Use, claude
from tests.activities.scripted_calls import KEY, NAME, Build, redirect
from tests.scripted_endpoint import Body, Reply, Scripted, ScriptedEndpoint, failing

READ = Tool(
    name="read",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)
FREE = READ.model_copy(update={"read_only": True})
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = Message(role="user", content="What is in a?")
TOLD = Message(role="tool", content="It says b.", call_id="c0")
BOUNDS: dict[str, Any] = {"step": 1, "model": None}
BOUNDS |= {"max_output_tokens": 64, "timeout_seconds": 60.0, "max_attempts": 5}


def step(**changes: Any) -> StepTask:
    plain: dict[str, Any] = {
        **BOUNDS,
        "guidance": Guidance(own="Be kind."),
        "messages": (ASKED,),
        "tools": (READ,),
        "native": True,
        "temperature": 0.7,
        "seed": 7,
        "thinking": None,
        "options": SamplingOptions(),
        "stream": False,
    }
    return StepTask(**plain | changes)


def called(text: str, arguments: str) -> Message:
    """Say a text, and call the tool."""
    call = ToolCall(index=0, step=1, id="c0", tool="read", arguments=arguments)
    return Message(role="assistant", content=text, calls=(call,))


def calling(*calls: Any, text: object = None, **message: Any) -> Scripted:
    """Reply with tool calls as they are given, or with one of a name and arguments each."""
    listed = [
        {"id": f"c{number}", "type": "function", "function": {"name": one[0], "arguments": one[1]}}
        if isinstance(one, tuple)
        else one
        for number, one in enumerate(calls)
    ]
    said = {"role": "assistant", "content": text, "tool_calls": listed} | message
    return Scripted(choices=[{"index": 0, "message": said, "finish_reason": "tool_calls"}])


def activities(build: Build, server: ScriptedEndpoint, served: str = "scripted") -> TurnActivities:
    model: Any = build(NAME, {NAME: Endpoint(served, server.url, KEY, free=True)})
    return TurnActivities(model, model.abilities)


async def replied(
    build: Build, *replies: Reply, served: str = "scripted", **changes: Any
) -> tuple[StepReply, list[Body]]:
    """Return what a step read of a reply, and the requests that were sent for it."""
    with ScriptedEndpoint(replies) as server:
        made = activities(build, server, served).ask_step
        said = await ActivityEnvironment().run(made, step(**changes))
    return said, server.requests


def asked(said: StepReply) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in said.calls]


async def test_a_step_sends_the_conversation_and_the_tools(build: Build) -> None:
    """The system message, calls with their results by id, the schemas; and all that bounds it."""
    messages = (ASKED, called("", '{"path": "a"}'), TOLD)

    said, [sent] = await replied(build, "b", messages=messages)

    function = {"name": "read", "arguments": '{"path": "a"}'}
    assert sent.pop("messages")[1:] == [
        {"role": "user", "content": "What is in a?"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c0", "content": "It says b."},
    ]
    described = READ.model_dump(include={"name", "description", "parameters"})
    assert sent == {
        "model": "scripted",
        "temperature": 0.7,
        "seed": 7,
        "max_tokens": 64,
        "tools": [{"type": "function", "function": described}],
    }
    assert (said.text, said.calls, said.error, said.left_out) == ("b", (), None, ())
    assert (said.model, said.finish_reason, said.attempts) == (NAME, "stop", 1)
    assert said.spending is not None
    assert said.spending.tokens == 18


LONG = "x" * 300
OBJECT = {"path": "a", "lines": [1, {"to": 2}]}
SIDES = [("read", '{"path": "a"}'), ("read", '{"path": "b"}'), ("nosuch", "{}")]
PARTS = [{"type": "text", "text": "I "}, {"type": "text", "text": "look."}]
CALLS: dict[str, tuple[Scripted, list[tuple[str, str]]]] = {
    "side by side": (calling(*SIDES), SIDES),
    "beside a text in parts": (calling(("read", "{}"), text=PARTS), [("read", "{}")]),
    "malformed": (calling(("read", "{broken")), [("read", "{broken")]),
    "two objects": (calling(("read", '{"a":1}{"a":2}')), [("read", '{"a":1}{"a":2}')]),
    "an object": (calling(("read", OBJECT)), [("read", json.dumps(OBJECT))]),
    "a list": (calling(("read", [1])), [("read", "[1]")]),
    "no arguments": (calling(("read", None)), [("read", "")]),
    "no name": (calling({"id": "a", "function": {"arguments": "{}"}}), [("", "{}")]),
    "a number for a name": (calling((5, "{}")), [("", "{}")]),
    "no function": (calling({"id": "a"}), [("", "")]),
    "a text for a call": (calling("read"), [("", "read")]),
    "one call, in no list": (calling(tool_calls={"function": {"name": "read"}}), [("read", "")]),
    "half a character": (calling(("read", "\ud800")), [("read", "\ufffd")]),
    "a long name": (calling((LONG, "{}")), [(LONG[:200], "{}")]),
    "arguments without end": (calling(("read", "x" * 50_000)), [("read", "x" * 32_001)]),
}


@pytest.mark.parametrize(("reply", "calls"), CALLS.values(), ids=CALLS)
async def test_calls_are_read_as_they_were_written(
    build: Build, reply: Scripted, calls: list[tuple[str, str]]
) -> None:
    """Whatever shape they come in: what is wrong with them is for the model to be told."""
    said, _ = await replied(build, reply)

    assert asked(said) == calls
    assert said.text == ("I look." if reply is CALLS["beside a text in parts"][0] else "")
    assert (said.error, said.finish_reason) == (None, "tool_calls")


@pytest.mark.parametrize("given", [None, 5, "missing"])
async def test_a_call_without_an_id_gets_one(build: Build, given: object) -> None:
    """Two calls without an id of their own are told apart."""
    function = {"name": "read", "arguments": "{}"}
    bare: dict[str, Any] = {"type": "function", "function": function}
    call = bare if given == "missing" else {"id": given, **bare}

    said, _ = await replied(build, calling(call, call))

    assert len({found.id for found in said.calls}) == 2
    assert all(isinstance(found.id, str) for found in said.calls)


SHORT, WIDE = ("read", '{"path": "a"}'), ("read", "x" * ARGUMENT_BYTES)
MANY = {
    "side by side": (calling(*[SHORT] * 7_000), 7_000 - MOST_CALLS, False),
    "in a stream": (calling(*[SHORT] * 7_000), 7_000 - MOST_CALLS, True),
    "with nothing in them": (calling(*[{"function": {"name": "read"}}] * 10_000), 9_936, False),
    "a few too many": (calling(*[SHORT] * (MOST_CALLS + 1)), 1, False),
    "a few too many in a stream": (calling(*[SHORT] * (MOST_CALLS + 1)), 1, True),
    "wide ones": (calling(*[WIDE] * 7), 1, False),
}


@pytest.mark.parametrize(("reply", "left_out", "stream"), MANY.values(), ids=MANY)
async def test_calls_that_are_too_many_are_left_out(
    build: Build, reply: Scripted, left_out: int, stream: bool
) -> None:
    """Those before them are kept, after one request, and it is said how many there were."""
    said, _ = await replied(build, reply, stream=stream)

    assert reply.choices is not None
    asked_for = len(reply.choices[0]["message"]["tool_calls"])
    assert (said.error, said.calls_left_out) == (None, left_out)
    assert len(said.calls) == asked_for - left_out


async def test_too_many_calls_in_an_object_are_left_out_too(build: Build) -> None:
    """A model without tool calling may ask for as many."""
    text = json.dumps({"calls": [{"name": "read", "arguments": {}}] * 9_000, "answer": ""})

    said, _ = await replied(build, text, native=False)

    assert (len(said.calls), said.calls_left_out) == (MOST_CALLS, 9_000 - MOST_CALLS)


async def test_other_providers_calls_are_left_out_alike(build: Build, use: Use) -> None:
    """Claude writes them among the parts of its text."""
    parts = [{"type": "tool_use", "id": f"c{at}", "name": "read", "input": {}} for at in range(999)]
    many = claude({"type": "text", "text": "I look."}, *parts, stop_reason="tool_use")
    with ScriptedEndpoint([many]) as server:
        use("ANTHROPIC", server)
        model: Any = build("anthropic/claude-sonnet-4-5")
        made = TurnActivities(model, model.abilities)
        said = await ActivityEnvironment().run(made.ask_step, step(seed=None))

    assert (said.text, len(said.calls), said.calls_left_out) == ("I look.", 64, 999 - 64)


def nested(depth: int, text: str = "") -> Any:
    """Arguments that nest so deeply, as an object or, with a text, as the JSON in it."""
    deep = '{"a":' * depth + "1" + ("" if "broken" in text else "}" * depth)
    body = calling(SHORT, ("read", "DEEP"), SHORT).payload("m").decode()
    return Scripted(body=body.replace('"DEEP"', json.dumps(deep) if text else deep).encode())


@pytest.mark.parametrize("text", ["", "as a text", "as a broken text"])
@pytest.mark.parametrize("depth", [150, 900, 5_000, 20_000])
async def test_arguments_that_nest_too_deeply_cost_their_call_alone(
    build: Build, depth: int, text: str
) -> None:
    """The calls beside it are read, and it is one that can't be used."""
    said, _ = await replied(build, nested(depth, text))

    read = [read_arguments(call.arguments) for call in said.calls]
    assert [isinstance(one, dict) for one in read] == [True, False, True]
    assert (said.error, said.calls_left_out) == (None, 0)


async def test_calls_nobody_offered_are_no_calls(build: Build) -> None:
    """Without tools a text counts, and calls alone are an error, after one request."""
    said, [sent] = await replied(build, calling(("read", "{}"), text="b"), tools=())
    alone, _ = await replied(build, calling(("read", "{}")), tools=())

    assert (said.text, said.calls, "tools" in sent) == ("b", (), False)
    assert (alone.calls, str(alone.error).partition(":")[0]) == ((), "BrokenToolCall")


FILTERED = "ContentPolicyViolationError: the provider's content filter took the reply$"
CUT = (
    "CutOff: the reply was cut off after 7 tokens, while the model was thinking:"
    " raise max_output_tokens$"
)
LARGE = r"TooLarge: .* answered 200 with a reply that is too large$"
LOST = {
    "refused": (Scripted(text=None, refusal="no"), "no", "Refusal: the model refused to answer$"),
    "filtered": (Scripted(finish_reason="content_filter"), "", FILTERED),
    "cut while thinking": (Scripted(text="", finish_reason="length"), "", CUT),
    "empty": (Scripted(text=None), "", "EmptyReply: "),
    "too large": (calling(*[WIDE] * 40), "", LARGE),
    "cut off": (Scripted("The answer is", finish_reason="length"), "The answer is", "None$"),
}


@pytest.mark.parametrize(("reply", "text", "error"), LOST.values(), ids=LOST)
async def test_a_lost_reply_is_an_error_to_go_on_with(
    build: Build, reply: Scripted, text: str, error: str
) -> None:
    """It is asked for once, and has no text but that of a refusal; what was cut off is kept."""
    said, [_] = await replied(build, reply)

    assert (said.text, said.attempts, said.spending is not None) == (text, 1, True)
    assert re.match(error, str(said.error))
    assert error != "None$" or said.finish_reason == "length"


async def test_what_a_model_refuses_with_is_content(
    build: Build, spans: InMemorySpanExporter
) -> None:
    """It is in the result alone: no span says it."""
    said = await observed(build, Scripted(text=None, refusal="I can't tell of quokkas"))

    assert said.text == "I can't tell of quokkas"
    assert "quokkas" not in "".join(span.to_json() for span in spans.get_finished_spans())


async def observed(build: Build, reply: Scripted, **changes: Any) -> StepReply:
    """Return what a step of a model with spans read of a reply."""
    with ScriptedEndpoint([reply]) as server:
        model: Any = build(NAME, redirect(server))
        made = TurnActivities(ObservedModel(model, NAME), model.abilities).ask_step
        return await ActivityEnvironment().run(made, step(**changes))


CALLED = '{"calls": [{"name": "read", "arguments": {"path": "a"}}], "answer": ""}'
ANSWERED = '{"calls": [], "answer": "b"}'


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_a_model_that_refuses_tools_gets_one_object(build: Build, status: int) -> None:
    """It is remembered for the worker's other turns, also for a step that must answer."""
    with ScriptedEndpoint([failing(status), CALLED, ANSWERED]) as server:
        made = activities(build, server)
        first = await ActivityEnvironment().run(made.ask_step, step())
        then = step(guidance=Guidance(must_answer=True))
        second = await ActivityEnvironment().run(made.ask_step, then)

    assert ["tools" in sent for sent in server.requests] == [True, False, False]
    assert '"schema": {' in server.requests[1]["messages"][0]["content"]
    assert (asked(first), first.left_out) == ([("read", '{"path": "a"}')], ("tools",))
    assert (second.text, second.calls, second.left_out) == ("b", (), ("tools",))


async def test_a_model_that_refuses_tools_and_calls_them_is_heard(build: Build) -> None:
    """Some servers read calls out of a text by themselves."""
    said, _ = await replied(build, failing(400), calling(("read", "{}")))

    assert (asked(said), said.left_out, said.error) == ([("read", "{}")], ("tools",), None)


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_turn_is_made_of_these_calls(build: Build, refuses: bool) -> None:
    """The model asks for a file, is told what is in it, and answers; with or without tools."""
    first = [failing(400), CALLED] if refuses else [calling(("read", '{"path": "a"}'))]
    turn = Turn(ToolTurnRequest(message="What is in a?"), started=NOW)
    with ScriptedEndpoint([*first, ANSWERED if refuses else "b"]) as server:
        made = activities(build, server)
        known = await ActivityEnvironment().run(
            made.describe_model, ModelTask(model=None, think_level="low")
        )
        turn.begin([FREE], [], known.thinking, native=known.native)
        while not (decision := turn.decide(NOW)).stop:
            if decision.next == "call_tools":
                turn.calls.admit(0, NOW)
                turn.calls.judge(0, NOW)
                turn.calls.finish(0, "ok", "It says b.")
                continue
            task = step(
                guidance=turn.guidance,
                messages=tuple(turn.messages),
                tools=tuple(turn.calls.tools.values()),
                native=turn.native,
                thinking=turn.thinking,
            )
            turn.replied(await ActivityEnvironment().run(made.ask_step, task))

    result, told = turn.result(), server.requests[-1]["messages"][-1]
    assert (result.answer, result.stop_reason, turn.native) == ("b", "answered", not refuses)
    assert told["role"] == ("user" if refuses else "tool")
    assert told["content"].endswith('(ok), as a JSON string: "It says b."')
    assert ["<think>" in sent["messages"][0]["content"] for sent in server.requests] == [True] * (
        3 if refuses else 2
    )


async def test_a_conversation_that_is_too_long_says_nothing_about_tools(build: Build) -> None:
    """It fails for good, after one request."""
    fault = failing(400, "context_length_exceeded", "This model's maximum context length is 8")
    with pytest.raises(ApplicationError) as raised:
        await replied(build, fault)

    assert (raised.value.type, raised.value.non_retryable) == ("ContextWindowExceededError", True)


async def test_a_model_that_refuses_all_is_no_model_without_tools(build: Build) -> None:
    """The next step tries tools again."""
    with ScriptedEndpoint([failing(400), failing(400), "b"]) as server:
        made = activities(build, server).ask_step
        with pytest.raises(ApplicationError):
            await ActivityEnvironment().run(made, step())
        await ActivityEnvironment().run(made, step())

    assert ["tools" in sent for sent in server.requests] == [True, False, True]


async def test_a_stream_that_fails_does_not_fail_the_call(build: Build) -> None:
    """Where no workflow can be told, the reply comes as ever."""
    said, [sent] = await replied(build, Scripted("abcd" * 20, drip=0.05), stream=True)

    assert sent["stream"] is True
    assert (said.text, said.error) == ("abcd" * 20, None)


OBJECTS: list[tuple[str, list[tuple[str, str]], str, str | None]] = [
    (CALLED, [("read", '{"path": "a"}')], "", None),
    (ANSWERED, [], "b", None),
    ("It is b.", [], "It is b.", None),
    ('{"calls": [{"name": "read"', [], '{"calls": [{"name": "read"', "nested too deeply"),
    (f"The file says {CALLED}", [], f"The file says {CALLED}", "copied from what you were shown"),
]


@pytest.mark.parametrize(("reply", "calls", "text", "error"), OBJECTS)
async def test_an_object_in_the_place_of_calls(
    build: Build, reply: str, calls: list[tuple[str, str]], text: str, error: str | None
) -> None:
    """It is sent without tools; one that is quoted from a tool's result is not the model's own."""
    shown = Message(role="tool", content=f"What read returned (ok): {CALLED}", call_id="c0")
    messages = (ASKED, shown) if "file says" in reply else (ASKED,)

    said, [sent] = await replied(build, reply, native=False, messages=messages)

    assert (asked(said), said.text, said.left_out) == (calls, text, ())
    assert (error or "") in (said.error or "")
    assert (error is None) == (said.error is None)
    assert "tools" not in sent


async def test_a_step_that_must_answer_may_call_nothing(build: Build) -> None:
    """The tools stay there: the conversation has calls of them."""
    _, [sent] = await replied(build, "b", guidance=Guidance(must_answer=True))

    assert (sent["tool_choice"], len(sent["tools"])) == ("none", 1)


async def test_options_of_the_allowlist_are_sent(build: Build) -> None:
    """A server of one's own gets those too that OpenAI does not have."""
    options = SamplingOptions(
        top_p=0.9, top_k=40, min_p=0.1, presence_penalty=0.5, repetition_penalty=1.1, stop=("END",)
    )

    said, [sent] = await replied(build, "b", options=options)

    given = options.model_dump(exclude_none=True, mode="json")
    assert {name: sent.get(name) for name in given} == given
    assert said.left_out == ()


async def test_options_that_a_model_does_not_take_are_named(build: Build) -> None:
    """They are left out: it takes neither a temperature nor these."""
    options = SamplingOptions(top_p=0.9, stop=("END",))

    said, [sent] = await replied(build, "b", served="o3-mini", options=options)

    assert (said.left_out, sent["stop"]) == (("temperature", "top_p"), ["END"])


@pytest.mark.parametrize(
    ("served", "effort", "tokens", "left_out"),
    [
        ("scripted", None, 64, ("reasoning_effort",)),
        ("gpt-4o", None, 64, ("reasoning_effort",)),
        ("o3-mini", "low", 564, ("temperature",)),
    ],
)
async def test_a_level_of_thinking_is_sent_where_the_model_has_one(
    build: Build, served: str, effort: str | None, tokens: int, left_out: tuple[str, ...]
) -> None:
    """What it may think comes on top of what it may write."""
    level = thinking("low", has_effort=True)

    said, [sent] = await replied(build, "b", served=served, thinking=level)

    limit = sent.get("max_completion_tokens", sent.get("max_tokens"))
    assert (sent.get("reasoning_effort"), limit) == (effort, tokens)
    assert said.left_out == left_out


@pytest.mark.parametrize(
    "level", [None, thinking("off", has_effort=True), thinking("low", has_effort=False)]
)
async def test_without_a_level_none_is_sent(build: Build, level: Any) -> None:
    """Nor with thinking by a prompt, whose prefix is in the guidance."""
    said, [sent] = await replied(build, "b", thinking=level)

    assert ("reasoning_effort" in sent, said.left_out) == (False, ())


PLAIN, THINKING = {"tools": True, "effort": False}, {"tools": True, "effort": True}
BARE = {"tools": False, "effort": False}
GEMINI = {"least_thinking": 128, "unasked": True, "least_effort": "minimal"}
ABLE: list[tuple[str, dict[str, Any]]] = [
    ("openai/gpt-4o", PLAIN),
    ("openai/o3-mini", THINKING | {"unasked": True, "least_effort": "low"}),
    ("openai/gpt-5.1", THINKING),
    ("anthropic/claude-sonnet-4-5", THINKING | {"least_thinking": 1024}),
    ("anthropic/claude-opus-4-6", THINKING),
    ("gemini/gemini-2.5-pro", THINKING | GEMINI),
    ("mistral/mistral-large-latest", PLAIN),
    ("ollama/llama2", BARE),
    ("perplexity/sonar", BARE),
    (NAME, PLAIN),
]


@pytest.mark.parametrize(("name", "able"), ABLE)
def test_what_a_model_takes(build: Build, name: str, able: dict[str, Any]) -> None:
    """LiteLLM's list says it, without a request."""
    model: Any = build(None, {NAME: Endpoint("scripted", "http://127.0.0.1:1/v1", KEY)})

    assert model.abilities(name) == Abilities(**able)


async def test_a_model_is_described_for_a_turn(build: Build) -> None:
    """A provider's own minimum raises the ceiling, a model without a setting gets a prompt."""
    model: Any = build("openai/gpt-4o")
    made, name = (
        TurnActivities(model, model.abilities).describe_model,
        "anthropic/claude-sonnet-4-5",
    )
    claudes, house, odd = [
        await ActivityEnvironment().run(made, ModelTask(model=name, think_level=level))
        for name, level in [(name, "low"), (None, "medium"), (None, "deep")]
    ]

    assert (claudes.native, claudes.thinking.tokens) == (True, 1024)
    assert "the provider takes no less" in claudes.thinking.warnings[0]
    assert (house.thinking.effort, "2,000 tokens" in house.thinking.prefix) == (None, True)
    assert odd.thinking.level == "off"
    with pytest.raises(ApplicationError, match="no provider for the model") as raised:
        await ActivityEnvironment().run(made, ModelTask(model="nosuch", think_level="off"))
    assert raised.value.non_retryable


async def test_a_budget_of_thinking_is_sent_to_claude(build: Build, use: Use) -> None:
    """Without what it takes beside none; and not after a tool's result, without its thoughts."""
    reply = claude({"type": "text", "text": "b"})
    level = thinking("low", has_effort=True, minimum=1024)
    with ScriptedEndpoint([reply, reply]) as server:
        use("ANTHROPIC", server)
        model: Any = build("anthropic/claude-sonnet-4-5")
        made = TurnActivities(model, model.abilities).ask_step
        first, second = [
            await ActivityEnvironment().run(made, step(thinking=level, seed=None, messages=some))
            for some in [(ASKED,), (ASKED, called("", "{}"), TOLD)]
        ]

    thought, plain = server.requests
    assert thought["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert (thought["max_tokens"], "temperature" in thought) == (1088, False)
    assert first.left_out == ("temperature",)
    assert ("thinking" in plain, plain["temperature"]) == (False, 0.7)
    assert second.left_out == ("reasoning_effort",)


async def test_a_reflection_has_its_system_message_and_no_tools(build: Build) -> None:
    """What came is returned with its cost; a lost reply is an error, a failure raises."""
    task = PromptTask(**BOUNDS | {"max_attempts": 1}, prompt="How is it going?")
    with ScriptedEndpoint(["Well.", Scripted(text=None, refusal="no"), failing(500)]) as server:
        made = activities(build, server).reflect_midturn
        said = await ActivityEnvironment().run(made, task)
        lost = await ActivityEnvironment().run(made, task)
        with pytest.raises(ApplicationError) as raised:
            await ActivityEnvironment().run(made, task)

    sent = server.requests[0]
    assert sent["messages"] == [
        {"role": "system", "content": midturn.SYSTEM},
        {"role": "user", "content": "How is it going?"},
    ]
    assert ("tools" in sent, sent["max_tokens"]) == (False, 64)
    assert (said.text, said.error, said.receipt.model) == ("Well.", None, NAME)
    assert (lost.text, lost.error) == (None, "Refusal: the model refused to answer")
    assert raised.value.non_retryable


async def test_a_summary_is_asked_for_by_its_prompt_alone(build: Build) -> None:
    """A long one is cut with a note."""
    with ScriptedEndpoint(["word " * 60_000]) as server:
        made = activities(build, server).compact_messages
        said = await ActivityEnvironment().run(made, PromptTask(**BOUNDS, prompt="Summarize."))

    assert server.requests[0]["messages"] == [{"role": "user", "content": "Summarize."}]
    assert said.text is not None
    assert len(said.text) <= 100_000


@pytest.mark.parametrize("shown", ["true", "false"])
async def test_messages_and_calls_are_in_the_span_where_content_is(
    build: Build, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    """In the form of the conventions, the calls and their results among them."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", shown)
    messages = (ASKED, called("I look.", "{}"), TOLD)

    await observed(build, calling(("read", '{"path": "b"}')), messages=messages)

    found = spans.get_finished_spans()[-1].attributes or {}
    assert found["mull.turn.step"] == 1
    assert found["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert ("gen_ai.input.messages" in found) == (shown == "true")
    if shown == "true":
        _, _, spoken, result = json.loads(str(found["gen_ai.input.messages"]))
        [said] = json.loads(str(found["gen_ai.output.messages"]))
        assert spoken["parts"] == [
            {"type": "text", "content": "I look."},
            {"type": "tool_call", "id": "c0", "name": "read", "arguments": "{}"},
        ]
        given = {"type": "tool_call_response", "id": "c0", "response": "It says b."}
        assert result == {"role": "tool", "parts": [given]}
        asked_for = {"id": "c0", "name": "read", "arguments": '{"path": "b"}'}
        assert said["parts"] == [{"type": "tool_call", **asked_for}]


async def test_an_error_shows_nothing_of_the_conversation(build: Build) -> None:
    """A provider that repeats a message has it masked."""
    echo = failing(401, message="refused: What is in a? The secret garden grows.")
    messages = (Message(role="user", content="The secret garden grows."),)
    with pytest.raises(ApplicationError) as raised:
        await replied(build, echo, messages=messages)

    assert "garden" not in str(raised.value)
