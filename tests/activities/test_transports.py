"""No setting of LiteLLM leads a call around the bounds of an exchange."""

import gzip
from collections.abc import AsyncIterator

import pytest

from activities.language_model.exchange import pieces
from activities.language_model.port import ModelError, PermanentModelError
from tests.activities.conftest import Use
from tests.activities.scripted_calls import NAME, Build, call, redirect
from tests.activities.test_litellm_model import BOMB, SAID
from tests.scripted_endpoint import Scripted, ScriptedEndpoint

FAULTS = {
    "HTML": SAID["HTML"],
    "redirect": (SAID["redirect"][0], "redirects are not followed"),
    "bomb": (
        Scripted(body=BOMB, headers={"Content-Encoding": "gzip"}),
        "answered 200 with a reply that is too large",
    ),
    "reset": (Scripted(reset=True), "can't be reached: "),
}


async def test_what_comes_after_the_end_of_a_packed_reply_is_not_read() -> None:
    """It would be kept and copied for as long as it comes."""
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        yield gzip.compress(b"x")
        while True:
            read += 1
            yield bytes(65_536)

    found = [piece async for piece in pieces(endless(), {"Content-Encoding": "gzip"}, 1_000)]

    assert (found, read) == ([b"x"], 0)


@pytest.mark.parametrize("variable", ["DISABLE_AIOHTTP_TRANSPORT", "LITELLM_HTTP2"])
@pytest.mark.parametrize(("fault", "said"), FAULTS.values(), ids=FAULTS)
async def test_another_transport_has_the_same_bounds(
    build: Build, monkeypatch: pytest.MonkeyPatch, variable: str, fault: Scripted, said: str
) -> None:
    """What is too large, packed, moved or broken off is told as it is by default."""
    monkeypatch.setenv(variable, "True")

    with ScriptedEndpoint([fault]) as server, pytest.raises(ModelError) as raised:
        await build(NAME, redirect(server)).complete(call(timeout_seconds=20.0))

    assert said in str(raised.value)
    assert f":{server.port}/v1/chat/completions" in str(raised.value)


async def test_a_client_that_nothing_bounds_is_refused(build: Build, use: Use) -> None:
    """LiteLLM has one more client of OpenAI's servers, and no call is made by it."""
    with ScriptedEndpoint([]) as server:
        use("OPENAI", server)
        with pytest.raises(PermanentModelError, match="name it openai/"):
            await build("aiohttp_openai/gpt-4o").complete(call())

    assert server.requests == []
