import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest

from activities.language_model.port import TransientModelError
from reflection.run import Spending
from tests.activities.scripted_calls import KEY, NAME, SCHEMA, Build, ask, call, redirect
from tests.scripted_endpoint import Scripted, ScriptedEndpoint, failing


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
async def test_a_call_is_made_once(build: Build, status: int) -> None:
    """Neither LiteLLM nor the HTTP client tries again: that is Temporal's."""
    with ScriptedEndpoint([failing(status)]) as server, pytest.raises(TransientModelError):
        await build(NAME, redirect(server)).complete(call())

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "slow", [Scripted(delay=5), Scripted(drip=0.02)], ids=["silent", "dripping"]
)
async def test_the_whole_call_is_bounded(build: Build, slow: Scripted) -> None:
    """A silent server and a dripping one, which would take 6 s, end a call within its second."""
    started = time.monotonic()

    with pytest.raises(TransientModelError) as raised:
        await ask(build, slow, timeout_seconds=1.0)

    assert raised.value.kind == "Timeout"
    assert time.monotonic() - started < 2.0


async def test_a_cancelled_call_hangs_up(build: Build) -> None:
    """Cancelling passes through, and leaves no request behind."""
    with ScriptedEndpoint([Scripted(delay=0.5)]) as server:
        asking = asyncio.create_task(build(NAME, redirect(server)).complete(call()))
        while not server.requests and not asking.done():
            await asyncio.sleep(0.01)

        assert not asking.done(), asking.exception()
        asking.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.sleep(0.6)
    assert server.hung_up == 1


async def test_fifty_calls_are_in_flight_together(build: Build) -> None:
    """Fifty calls at once reach the server at once."""
    with ScriptedEndpoint(by_seed=lambda seed: Scripted(f"seed {seed}", delay=1.0)) as server:
        model = build(NAME, redirect(server))
        replies = await asyncio.gather(*[model.complete(call(seed=seed)) for seed in range(50)])

    assert [reply.text for reply in replies] == [f"seed {seed}" for seed in range(50)]
    assert server.max_in_flight == 50


async def test_a_reply_bears_the_outside_name(build: Build) -> None:
    """A redirected model is reported by the name it was asked for."""
    reply = await ask(build, "cheese")

    assert reply.model_dump(exclude={"spending"}) == {
        "text": "cheese",
        "model": "house/scripted",
        "provider": "house",
        "finish_reason": "stop",
        "response_id": "chatcmpl-scripted",
        "left_out": (),
    }


async def test_the_reasoning_of_a_model_is_no_part_of_its_reply(build: Build) -> None:
    """`reasoning_content` stays out of the text."""
    message = {"role": "assistant", "content": "no", "reasoning_content": "cheese melts"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}

    reply = await ask(build, Scripted(choices=[choice]))

    assert reply.text == "no"


async def test_a_redirected_call_sends_the_endpoints_names(build: Build) -> None:
    """The server sees its own name for the model, its key, and what the call asks for."""
    with ScriptedEndpoint(["ok"]) as server:
        await build(NAME, redirect(server)).complete(call(reply_schema=SCHEMA))

    assert server.authorizations == [f"Bearer {KEY}"]
    assert server.requests == [
        {
            "model": "scripted",
            "messages": [{"role": "user", "content": "Is the moon made of cheese?"}],
            "temperature": 0.7,
            "seed": 7,
            "max_tokens": 64,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
            },
        }
    ]


async def test_a_call_without_a_seed_sends_none(build: Build) -> None:
    """What a call leaves open is not sent, and was not left out."""
    with ScriptedEndpoint(["ok"]) as server:
        reply = await build(NAME, redirect(server)).complete(call(seed=None))

    assert set(server.requests[0]) == {"model", "messages", "temperature", "max_tokens"}
    assert reply.left_out == ()


@pytest.mark.parametrize(
    ("usage", "spending"),
    [
        (None, Spending(calls=1)),
        (
            {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
            Spending(calls=1, input_tokens=5, output_tokens=2, cost_usd=0.0),
        ),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 2,
                "total_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 3},
            },
            Spending(calls=1, input_tokens=5, output_tokens=2, cached_tokens=3, cost_usd=0.0),
        ),
    ],
    ids=["no usage", "usage", "cached"],
)
async def test_what_the_server_counted_is_what_was_spent(
    build: Build, usage: dict[str, Any] | None, spending: Spending
) -> None:
    """Tokens are the server's own count, and None where it counted nothing."""
    reply = await ask(build, Scripted(usage=usage))

    assert reply.spending == spending


def test_the_port_does_not_import_litellm() -> None:
    """What workflows import of the activities never reaches litellm, nor an HTTP client."""
    program = "import sys, activities.language_model.port; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert not {"litellm", "httpx", "openai"} & set(done.stdout.split())
