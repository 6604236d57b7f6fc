"""Replies that are heavy to read: none holds a worker up, however it is made."""

import asyncio
import gc
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from activities.language_model.port import ModelError
from tests.activities.scripted_calls import NAME, Build, ask, call, redirect
from tests.scripted_endpoint import Scripted, ScriptedEndpoint

LARGE = 2**20 - 2_000
TOO_MUCH = "answered 200 with a reply that is too large"
UNUSABLE = "answered 200 with no usable reply"
FINE = ""
CUT = f"broke off its reply|{TOO_MUCH}"


def filled(begin: bytes, item: bytes, end: bytes, count: int = LARGE) -> Scripted:
    """As many items as there is room for."""
    return Scripted(body=begin + item * min(count, LARGE // len(item)) + end)


def listed(item: bytes, count: int = LARGE) -> Scripted:
    return filled(b'{"id": "x", "choices": [', item + b",", b"1]}", count)


def choice(**more: Any) -> list[dict[str, Any]]:
    message = {"role": "assistant", "content": "fine", **more.pop("message", {})}
    return [{"index": 0, "message": message, "finish_reason": "stop", **more}]


WHOLE = json.dumps({"choices": choice()}).encode()
BEFORE, _, AFTER = WHOLE.partition(b"fine")
HEAVY = {
    "choices of nothing": (listed(b"[]"), TOO_MUCH),
    "choices of objects": (listed(b"{}", 49_999), TOO_MUCH),
    "choices of texts": (listed(b'""'), TOO_MUCH),
    "numbers elsewhere": (filled(b'{"data": [', b"1,", b"1]}"), TOO_MUCH),
    "numbers within bounds": (filled(b'{"data": [', b"1,", b"1]}", 99_000), UNUSABLE),
    "long numbers": (listed(b"9" * 90), TOO_MUCH),
    "one number": (filled(b'{"choices": [', b"9", b"]}"), UNUSABLE),
    "names": (filled(b"{", b'"k": 1, ', b'"choices": []}'), TOO_MUCH),
    "brackets": (filled(b"", b"[", b""), TOO_MUCH),
    "brackets within bounds": (filled(b'{"choices": ', b"[", b"", 99_000), UNUSABLE),
    "log probabilities": (Scripted(choices=choice(logprobs={"content": [1] * 9_000})), TOO_MUCH),
    "calls of tools": (Scripted(choices=choice(message={"tool_calls": [1] * 9_000})), TOO_MUCH),
    "values within bounds": (Scripted(choices=choice() * 300), FINE),
    "one text": (filled(BEFORE, b"a", AFTER), FINE),
    "escapes": (filled(BEFORE, b"\\u00e9", AFTER), FINE),
    "a long model": (filled(b'{"model": "', b"m", b'", ' + WHOLE[1:]), FINE),
    "a long id": (filled(b'{"id": "', b"m", b'", ' + WHOLE[1:]), FINE),
    "blanks": (filled(b"", b" ", WHOLE), FINE),
    "too long a text": (Scripted("a" * 2**20), TOO_MUCH),
    "an error of brackets": (Scripted(status=500, body=b"[" * 100_000), "answered 500"),
}


def event(**delta: object) -> bytes:
    return json.dumps({"choices": [{"delta": delta}]}).encode() + b"\ndata: "


def called(arguments: str) -> dict[str, object]:
    return {"tool_calls": [{"index": 0, "function": {"name": None, "arguments": arguments}}]}


LONG = "x" * (2**20 - 5_000)
STREAMS = {
    "a letter in each event": event(content=LONG) + event(content="a") * 40_000,
    "a letter of a refusal": event(refusal=LONG) + event(refusal="a") * 40_000,
    "a letter of a call": event(**called(LONG)) + event(**called("a")) * 20_000,
    "names of a stream": b"".join(b'{"k%d": 1}\ndata: ' % number for number in range(150_000)),
    "marks": (b'{"a": [' + b"1," * 90_000 + b"1]}\ndata: ") * 20,
    "no line end": b"x" * 16 * 2**20,
}
HEAVY |= {name: (Scripted(events=[raw]), CUT) for name, raw in STREAMS.items()}


@pytest.fixture(autouse=True)
def _frozen() -> Iterator[None]:
    """Leave what other tests made to no collection of garbage, as a worker does after its start."""
    gc.freeze()
    yield
    gc.unfreeze()


async def longest_hold(found: list[float]) -> None:
    """Note the seconds of this thread that each turn of the event loop takes."""
    before = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        found.append(now - before)
        before = now


@pytest.mark.parametrize(("heavy", "said"), HEAVY.values(), ids=HEAVY)
async def test_no_reply_holds_a_worker_up(build: Build, heavy: Scripted, said: str) -> None:
    """What would be read for long is refused at once; other calls go on meanwhile."""
    found: list[float] = []
    streaming: dict[str, Any] = {"on_text": lambda _: None} if heavy.events else {}
    with ScriptedEndpoint(["warm", heavy]) as server:
        model = build(NAME, redirect(server))
        await model.complete(call())
        watching = asyncio.create_task(longest_hold(found))
        try:
            reply = await model.complete(call(timeout_seconds=30, **streaming))
            came = "" if reply.text else "no text"
        except ModelError as error:
            came = str(error)
        for _ in range(2):
            await asyncio.sleep(0)
        watching.cancel()

    assert (bool(re.search(said, came)), bool(said)) == (True, bool(came))
    assert max(found) < 0.3


@pytest.mark.parametrize("coding", ["", "Identity", "identity"])
async def test_a_reply_that_is_not_packed_may_say_so(build: Build, coding: str) -> None:
    """However it is written."""
    reply = await ask(build, Scripted("cheese", headers={"Content-Encoding": coding}))

    assert reply.text == "cheese"


async def test_headers_that_are_no_ascii_are_told_in_words(build: Build) -> None:
    """And not by a codec's."""
    with pytest.raises(ModelError, match="can't be reached: its headers can't be read"):
        await ask(build, Scripted(headers={"X-Name": "é"}))
