"""Replies that come in events: what is told while they are written, and what is read in the end."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from activities.language_model.port import ModelError, ModelReply, SampleError, TransientModelError
from tests.activities.conftest import Use, claude
from tests.activities.scripted_calls import NAME, Build, ask, call, redirect
from tests.activities.test_turn_calls import READ, calling
from tests.scripted_endpoint import Scripted, ScriptedEndpoint, failing

LINE = "The tide table says: high water at nine.\n"


def function(name: object, arguments: object, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def events(*deltas: dict[str, Any], finish: str | None = "stop") -> Scripted:
    """One event for each delta, and those that end it."""
    choices: list[dict[str, Any]] = [{"delta": delta} for delta in deltas]
    choices += [{"delta": {}, "finish_reason": finish}] if finish else []
    return Scripted(events=[*({"choices": [one]} for one in choices), b"[DONE]"])


async def streamed(build: Build, reply: Scripted, **changes: Any) -> tuple[ModelReply, list[str]]:
    """Return a reply, and the texts that were told meanwhile."""
    told: list[str] = []
    return await ask(build, reply, on_text=told.append, **changes), told


SAME = {
    "a text": Scripted(LINE * 20),
    "no count": Scripted(usage=None),
    "cut off": Scripted("The answer is", finish_reason="length"),
    "calls": calling(("read", '{"path": "a"}'), ("read", '{"path": "b"}')),
    "a text and a broken call": calling(("read", "{broken"), text="I look."),
    "other letters": Scripted("Ölçü 🌊 \u2028 潮"),
}


@pytest.mark.parametrize("reply", SAME.values(), ids=SAME)
async def test_a_streamed_reply_is_the_same_reply(build: Build, reply: Scripted) -> None:
    """Its text, calls, tokens, cost and finish reason; and what is told grows into its text."""
    given: dict[str, Any] = {"tools": (READ,), "keep_cut": True}

    once = await ask(build, reply, **given)
    then, told = await streamed(build, reply, **given)

    assert then == once
    assert all(later.startswith(sooner) for sooner, later in pairwise([*told, once.text]))


async def test_a_stream_is_asked_for_with_its_usage(build: Build) -> None:
    """Only where somebody listens."""
    with ScriptedEndpoint(["a", "a"]) as server:
        model = build(NAME, redirect(server))
        await model.complete(call(on_text=lambda _: None))
        await model.complete(call())

    assert server.requests[0].pop("stream") is True
    assert server.requests[0].pop("stream_options") == {"include_usage": True}
    assert server.requests[0] == server.requests[1]


async def test_the_text_is_told_while_it_is_written(build: Build) -> None:
    """The first words long before the last."""
    loop, told = asyncio.get_running_loop(), list[float]()
    with ScriptedEndpoint([Scripted("abcd" * 10, drip=0.05)]) as server:
        model = build(NAME, redirect(server))
        await model.complete(call(on_text=lambda _: told.append(loop.time())))

    assert len(told) > 5
    assert loop.time() - told[0] > 0.3


CALLS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "no ids": (
        [
            {"index": 0, **function("read", "")},
            {"index": 0, "function": {"arguments": "{}"}},
            {"index": 1, **function("list", "{}")},
        ],
        [("read", "{}"), ("list", "{}")],
    ),
    "one index for all": (
        [{"index": 0, **function("read", "{}", id="a")},
         {"index": 0, **function("list", "{}", id="b")}],
        [("read", "{}"), ("list", "{}")],
    ),
    "no index": (
        [function("read", "{", id="a"), {"function": {"arguments": "}"}}, function("list", "{}")],
        [("read", "{}"), ("list", "{}")],
    ),
    "an id in each part": (
        [{"index": 0, **function("read", "{", id="a")},
         {"index": 0, "id": "b", "function": {"name": None, "arguments": "}"}}],
        [("read", "{}")],
    ),
    "arguments as an object": ([function("read", {"path": "a"})], [("read", '{"path": "a"}')]),
    "side by side": (
        [
            {"index": 1, **function("list", "{", id="b")},
            {"index": 0, **function("read", "{", id="a")},
            {"index": 1, "function": {"arguments": "}"}},
            {"index": 0, "function": {"arguments": "}"}},
        ],
        [("list", "{}"), ("read", "{}")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "calls"), CALLS.values(), ids=CALLS)
async def test_calls_are_put_together_however_they_come(
    build: Build, parts: list[dict[str, Any]], calls: list[tuple[str, str]]
) -> None:
    """With and without ids and indices, and each gets an id."""
    reply = events(*({"tool_calls": [part]} for part in parts), finish="tool_calls")

    said, _ = await streamed(build, reply, tools=(READ,))

    assert [(one.name, one.arguments) for one in said.calls] == calls
    assert len({one.id for one in said.calls} - {None}) == len(calls)


ERROR = {"error": {"message": "overloaded", "type": "server_error", "code": 500}}
BROKEN = {
    "without a finish reason": events({"content": "The answer is"}, finish=None),
    "cut in the middle": Scripted(LINE, cut=True),
    "nothing at all": Scripted(events=[b""]),
    "no JSON": Scripted(events=[b"{broken"]),
    "an error": Scripted(events=[{"choices": [{"delta": {"content": "The"}}]}, ERROR]),
    "a reset": Scripted(reset=True),
}


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
async def test_a_broken_stream_is_no_reply(build: Build, reply: Scripted) -> None:
    """A part of an answer never counts as one: it is asked for again."""
    with pytest.raises(TransientModelError):
        await streamed(build, reply)


@pytest.mark.parametrize(
    "reply",
    [
        events(*[{"content": "x" * 500_000}] * 3),
        events({"tool_calls": [function("read", '{"path": "a"}', id="c")] * 20_000}),
        Scripted(events=[b'{"a": "' + b"x" * 2**21 + b'"}']),
        Scripted(events=[b"[" * 200_000]),
    ],
    ids=["text", "calls in one event", "a long line", "brackets"],
)
async def test_more_than_a_reply_is_lost(build: Build, reply: Scripted) -> None:
    """It was paid for, and another one would be as large: it is not asked for again."""
    with pytest.raises(SampleError, match="a reply that is too large") as raised:
        await streamed(build, reply)

    assert raised.value.kind == "TooLarge"


LOST = [
    (Scripted(text=None, refusal="I can't"), "Refusal"),
    (Scripted(finish_reason="content_filter"), "ContentPolicyViolationError"),
    (Scripted(text=""), "EmptyReply"),
    (failing(401), "AuthenticationError"),
    (failing(429), "RateLimitError"),
    (failing(404, message="no such upstream"), "NotFoundError"),
    (Scripted("abcd" * 100, drip=0.1), "Timeout"),
]


@pytest.mark.parametrize(("reply", "kind"), LOST)
async def test_what_goes_wrong_has_the_same_name(build: Build, reply: Scripted, kind: str) -> None:
    """And takes one request, within the call's time."""
    with pytest.raises(ModelError) as streaming:
        await streamed(build, reply, timeout_seconds=1.0)
    with pytest.raises(ModelError) as plain:
        await ask(build, reply, timeout_seconds=1.0)

    assert streaming.value.kind == kind
    assert (streaming.value.kind, streaming.value.status) == (plain.value.kind, plain.value.status)


@pytest.mark.parametrize("status", [400, 404, 422, 501])
async def test_a_server_that_refuses_to_stream_is_asked_without(build: Build, status: int) -> None:
    """At once, and nothing is told."""
    told: list[str] = []
    refusing = failing(status, message="Streaming is not supported for this model")
    with ScriptedEndpoint([refusing, "fine"]) as server:
        reply = await build(NAME, redirect(server)).complete(call(on_text=told.append))

    assert ["stream" in sent for sent in server.requests] == [True, False]
    assert (reply.text, told) == ("fine", [])


async def test_a_server_that_knows_no_streams_is_heard(build: Build) -> None:
    """Its reply comes as a whole."""
    reply, told = await streamed(build, Scripted(LINE, events=None))

    assert (reply.text, told) == (LINE, [])


async def test_an_object_in_the_place_of_calls_is_not_told(build: Build) -> None:
    """A model that refuses tools writes JSON, which is nothing to show."""
    told: list[str] = []
    with ScriptedEndpoint([failing(400), '{"calls": [], "answer": "b"}']) as server:
        given = call(tools=(READ,), on_text=told.append)
        await build(NAME, redirect(server)).complete(given)

    assert told == []
    assert "stream" not in server.requests[1]


async def test_another_form_than_openais_is_not_streamed(build: Build, use: Use) -> None:
    """The reply comes as a whole."""
    with ScriptedEndpoint([claude({"type": "text", "text": "fine"})]) as server:
        use("ANTHROPIC", server)
        model = build("anthropic/claude-sonnet-4-5")
        reply = await model.complete(call(seed=None, on_text=lambda _: None))

    assert reply.text == "fine"
    assert "stream" not in server.requests[0]
