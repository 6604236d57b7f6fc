"""Replies that are small, and heavy to read: none holds a worker up."""

import time
from typing import Any

import pytest

from activities.language_model.port import ModelError
from tests.activities.scripted_calls import NAME, Build, ask, call, redirect
from tests.scripted_endpoint import Scripted, ScriptedEndpoint

MANY = 300_000


def choice(**more: Any) -> list[dict[str, Any]]:
    message = {"role": "assistant", "content": "fine", **more.pop("message", {})}
    return [{"index": 0, "message": message, "finish_reason": "stop", **more}]


HEAVY = {
    "choices of nothing": Scripted(body=b'{"choices": [' + b"[]," * MANY + b"[]]}"),
    "choices of numbers": Scripted(body=b'{"choices": [' + b"1," * MANY + b"1]}"),
    "log probabilities": Scripted(choices=choice(logprobs={"content": [1] * MANY})),
    "calls of tools": Scripted(choices=choice(message={"tool_calls": [1] * MANY})),
    "names": Scripted(
        body=b'{"choices": [], ' + b",".join(b'"k%d": 1' % at for at in range(MANY)) + b"}"
    ),
}


@pytest.mark.parametrize("heavy", HEAVY.values(), ids=HEAVY)
async def test_a_heavy_reply_is_refused_at_once(build: Build, heavy: Scripted) -> None:
    """LiteLLM would read these for a minute, in which no other run goes on."""
    with ScriptedEndpoint([Scripted(body=b"warm"), heavy]) as server:
        model = build(NAME, redirect(server))
        with pytest.raises(ModelError):
            await model.complete(call(timeout_seconds=20.0))
        started = time.monotonic()
        with pytest.raises(ModelError, match="answered 200 with more than a reply can be"):
            await model.complete(call())

    assert time.monotonic() - started < 3


@pytest.mark.parametrize("coding", ["", "Identity", "identity"])
async def test_a_reply_that_is_not_packed_may_say_so(build: Build, coding: str) -> None:
    """However it is written."""
    reply = await ask(build, Scripted("cheese", headers={"Content-Encoding": coding}))

    assert reply.text == "cheese"


async def test_headers_that_are_no_ascii_are_told_in_words(build: Build) -> None:
    """And not by a codec's."""
    with pytest.raises(ModelError, match="can't be reached: its headers can't be read"):
        await ask(build, Scripted(headers={"X-Name": "é"}))
