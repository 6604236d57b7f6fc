"""LiteLLM's adapter against a scripted server: calls, faults and names."""

import asyncio
import gzip
import importlib
import json
from typing import Any

import pytest

from activities.language_model.port import (
    Endpoint,
    ModelError,
    PermanentModelError,
    SampleError,
    TransientModelError,
)
from mull.run import Spending
from tests.activities.conftest import Use
from tests.activities.scripted_calls import KEY, NAME, SCHEMA, Build, ask, call, redirect
from tests.activities.test_turn_calls import calling
from tests.patience import PATIENCE, Stopwatch
from tests.scripted_endpoint import Scripted, ScriptedEndpoint, failing


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
        async with asyncio.timeout(PATIENCE):
            while not server.hung_up:
                await asyncio.sleep(0.02)
    assert server.hung_up == 1


async def test_fifty_calls_are_in_flight_together(build: Build) -> None:
    """Fifty calls at once reach the server at once."""

    def said(seed: int) -> Scripted:
        return Scripted(f"seed {seed}", until=lambda: server.max_in_flight >= 50)

    with ScriptedEndpoint(by_seed=said) as server:
        model = build(NAME, redirect(server))
        replies = await asyncio.gather(*[model.complete(call(seed=seed)) for seed in range(50)])

    assert [reply.text for reply in replies] == [f"seed {seed}" for seed in range(50)]
    assert server.max_in_flight == 50


async def test_a_redirected_call_has_the_names_of_both_sides(build: Build) -> None:
    """The server sees its own name for the model, its key, and what the call asks for.

    The reply has the name that was asked for, and none of the model's reasoning.
    """
    message = {"role": "assistant", "content": "cheese", "reasoning_content": "it melts"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    with ScriptedEndpoint([Scripted(choices=[choice])]) as server:
        reply = await build(NAME, redirect(server)).complete(call(reply_schema=SCHEMA))

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
    assert reply.model_dump(exclude={"spending"}) == {
        "text": "cheese",
        "model": "house/scripted",
        "provider": "house",
        "finish_reason": "stop",
        "max_output_tokens": 64,
        "response_id": "chatcmpl-scripted",
        "left_out": (),
        "calls": (),
        "calls_left_out": 0,
    }


@pytest.mark.parametrize(
    ("counts", "spending"),
    [
        (None, Spending(calls=1)),
        ((5, 2), Spending(calls=1, input_tokens=5, output_tokens=2, cost_usd=0.0)),
        ((10**9 + 1, -5), Spending(calls=1)),
        ((10**9, 10**12), Spending(calls=1, input_tokens=10**9)),
        (
            (5, 2, 3),
            Spending(calls=1, input_tokens=5, output_tokens=2, cached_tokens=3, cost_usd=0.0),
        ),
    ],
    ids=["no usage", "usage", "out of the world", "one of them", "cached"],
)
async def test_what_the_server_counted_is_what_was_spent(
    build: Build, counts: tuple[int, ...] | None, spending: Spending
) -> None:
    """Tokens are the server's own count, and None where it counted nothing."""
    usage: dict[str, Any] | None = None
    if counts:
        usage = {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": 7}
        usage |= {"prompt_tokens_details": {"cached_tokens": counts[-1]}} if counts[2:] else {}

    assert (await ask(build, Scripted(usage=usage))).spending == spending


SPENT = Spending(calls=1, input_tokens=11, output_tokens=7, cost_usd=0.0)
UNCOUNTED = Spending(calls=1)
DATE = "Fri, 31 Dec 2099 23:59:59 GMT"
FILTERED = "ContentPolicyViolationError"
CONTEXT = "This model's maximum context length is 8 tokens"
BOOM = Scripted(body=b'{"object": "error", "message": "boom", "code": 500}')
# What a fault is called, and its status and wait in seconds if it may pass, its status if it
# stays, and what it cost if one reply is lost.
TRANSIENT: list[tuple[Scripted, str, int, float | None]] = [
    (failing(408), "Timeout", 408, None),
    (failing(409), "ConflictError", 409, None),
    (failing(429), "RateLimitError", 429, None),
    (failing(429, headers={"Retry-After": "3"}), "RateLimitError", 429, 3.0),
    (failing(429, headers={"Retry-After": "900"}), "RateLimitError", 429, 60.0),
    (failing(400, message="rate limited"), "RateLimitError", 429, None),
    (failing(500), "InternalServerError", 500, None),
    (failing(502), "BadGatewayError", 502, None),
    (failing(503, headers={"Retry-After": DATE}), "ServiceUnavailableError", 503, 60.0),
    (failing(529), "OverloadedError", 529, None),
    (Scripted(body=b"{nope"), "InternalServerError", 500, None),
    (Scripted(body=b""), "InternalServerError", 500, None),
    (Scripted(cut=True), "InternalServerError", 500, None),
    (Scripted(reset=True), "InternalServerError", 500, None),
    (BOOM, "InternalServerError", 500, None),
]
PERMANENT: list[tuple[Scripted, str, int]] = [
    (failing(400), "BadRequestError", 400),
    (failing(401), "AuthenticationError", 401),
    (failing(401, message="rate limited"), "AuthenticationError", 401),
    (failing(401, "insufficient_quota", "quota"), "AuthenticationError", 401),
    (failing(401, "content_filter"), "AuthenticationError", 401),
    (failing(401, message=CONTEXT), "AuthenticationError", 401),
    (failing(402), "PaymentRequiredError", 402),
    (failing(403), "PermissionDeniedError", 403),
    (failing(404, "model_not_found"), "NotFoundError", 404),
    (failing(413), "RequestTooLargeError", 413),
    (failing(422), "BadRequestError", 422),
    (failing(429, "insufficient_quota"), "insufficient_quota", 429),
    (failing(400, "context_length_exceeded", CONTEXT), "ContextWindowExceededError", 400),
]
LOST: list[tuple[Scripted, str, Spending, str | None]] = [
    (Scripted(finish_reason="content_filter"), FILTERED, SPENT, "content_filter"),
    (failing(400, "content_filter"), FILTERED, UNCOUNTED, "content_filter"),
    (failing(400, "content_policy_violation"), FILTERED, UNCOUNTED, "content_filter"),
    (Scripted(text=None, refusal="I can't"), "Refusal", SPENT, "stop"),
    (Scripted("The answer is", finish_reason="length"), "CutOff", SPENT, "length"),
    (Scripted(text=None), "EmptyReply", SPENT, "stop"),
    (Scripted(" \n"), "EmptyReply", SPENT, "stop"),
    (Scripted(choices=[]), "EmptyReply", SPENT, None),
    (calling(("f", "{broken")), "BrokenToolCall", SPENT, "tool_calls"),
]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        *((row[0], (TransientModelError, *row[1:])) for row in TRANSIENT),
        *((row[0], (PermanentModelError, *row[1:], None)) for row in PERMANENT),
        *((row[0], (SampleError, *row[1:])) for row in LOST),
    ],
)
async def test_an_error_is_of_its_class(
    build: Build, fault: Scripted, expected: tuple[object, ...]
) -> None:
    """What may pass keeps its status and a wait of at most 60 s; what stays is permanent.

    A reply that was filtered, refused, cut off or empty is lost, with its spending known. Neither
    LiteLLM nor the HTTP client tries again: that is Temporal's.
    """
    with ScriptedEndpoint([fault]) as server, pytest.raises(ModelError) as raised:
        await build(NAME, redirect(server)).complete(call())

    error: Any = raised.value
    lost = isinstance(error, SampleError)
    known = (error.spending, error.finish_reason) if lost else (error.status, error.retry_after)
    assert (type(error), error.kind, *known) == expected
    assert len(server.requests) == 1


UNUSABLE = "answered 200 with no usable reply: "
BLANKS = b" " * 200_000
BROKEN = "the reply is incomplete, or is not HTTP"
REDIRECTED = "and redirects are not followed: set the final address"
SAID: dict[str, tuple[Scripted, str]] = {
    "bad JSON": (Scripted(body=b"{nope"), f"{UNUSABLE}{{nope"),
    "HTML": (Scripted(body=b"<html>hello"), f"{UNUSABLE}<html>hello"),
    "empty body": (Scripted(body=b""), f"{UNUSABLE}an empty body"),
    "brackets": (Scripted(body=b"[" * 100_000), UNUSABLE + "[" * 120),
    "another shape": (Scripted(body=b'{"a": 1}'), f'{UNUSABLE}{{"a": 1}}'),
    "500": (failing(500, message="no such luck"), "answered 500: no such luck"),
    "500 empty": (Scripted(status=500, body=b""), "answered 500: an empty body"),
    "500 blanks": (Scripted(status=500, body=BLANKS), "answered 500: an empty body"),
    "500 traceback": (
        failing(500, message="Traceback (most recent call last):\n x.FooError: bad"),
        "answered 500: the provider gave no reason",
    ),
    "reset": (Scripted(reset=True), "can't be reached: [Errno 104] Connection reset by peer"),
    "half a reply": (Scripted(cut=True), f"broke off its reply: {BROKEN}"),
    "no HTTP": (Scripted(headers={"Content-Length": "abc"}), f"can't be reached: {BROKEN}"),
    "no gzip": (
        Scripted(headers={"Content-Encoding": "gzip"}),
        "broke off its reply: it can't be unpacked",
    ),
    "no choices": (Scripted(choices=[]), "answered 200: the provider replied without any choice"),
    "a coding that was not asked for": (
        Scripted(headers={"Content-Encoding": "br"}),
        "answered in the coding 'br', which was not asked for",
    ),
    "a million choices": (
        Scripted(choices=[{}] * 1_000_000),
        "answered 200 with a reply that is too large",
    ),
    "redirect nowhere": (
        Scripted(status=302, headers={"Location": "http://[::bad"}),
        f"answered 302, a redirect, {REDIRECTED}",
    ),
    "redirect": (
        Scripted(status=307, headers={"Location": "http://elsewhere.invalid/v1?key=1"}),
        f"answered 307, a redirect to elsewhere.invalid, {REDIRECTED}",
    ),
}


@pytest.mark.parametrize(("fault", "said"), SAID.values(), ids=SAID)
async def test_a_message_names_the_address_and_what_came(
    build: Build, fault: Scripted, said: str
) -> None:
    """Whatever comes, a person reads where it came from and how it begins."""
    with ScriptedEndpoint([fault]) as server, pytest.raises(ModelError) as raised:
        await build(NAME, redirect(server)).complete(call())

    assert str(raised.value) == f"{server.url}/chat/completions {said}"


async def test_a_redirect_is_not_followed(build: Build) -> None:
    """The prompt goes to the address that was set, and to no other."""
    with ScriptedEndpoint([]) as other:
        moved = Scripted(status=307, headers={"Location": f"{other.url}/chat/completions"})
        with pytest.raises(PermanentModelError) as raised:
            await ask(build, moved)

    assert (raised.value.kind, raised.value.status, other.requests) == ("Redirect", 307, [])


BOMB = gzip.compress(b" " * 300_000_000, 1)
HEAVY = {
    "gzip bomb": Scripted(body=BOMB, headers={"Content-Encoding": "gzip"}),
    "error of 30 MB": failing(500, message="a " * 15_000_000),
    "silent": Scripted(delay=5),
    "dripping": Scripted(drip=0.02),
    "dripping error": failing(500, message="slow " * 100, drip=0.02),
}


@pytest.mark.parametrize("heavy", HEAVY.values(), ids=HEAVY)
async def test_a_call_ends_within_its_time_out(build: Build, heavy: Scripted) -> None:
    """What is too large or too slow costs no more than the time-out and 2 seconds."""
    with ScriptedEndpoint(["warm", heavy]) as server:
        model = build(NAME, redirect(server))
        await model.complete(call())
        watch = Stopwatch()
        # What is too large has been paid for, and is not asked for again.
        with pytest.raises((TransientModelError, SampleError)):
            await model.complete(call(timeout_seconds=1.0))

        assert watch.seconds < 3.0


@pytest.mark.parametrize("count", ["NaN", "1e999", '"5"', "5.5", "true", "9" * 5_000, "[1]"])
async def test_a_count_that_is_none_is_unknown(build: Build, count: str) -> None:
    """A reply that was paid for is used, whatever stands where its tokens should."""
    whole = json.loads(Scripted("cheese").payload("scripted"))
    whole["usage"] = {"prompt_tokens": "COUNT", "completion_tokens": 4, "total_tokens": 9}

    reply = await ask(build, Scripted(body=json.dumps(whole).replace('"COUNT"', count).encode()))

    assert reply.text == "cheese"
    assert (reply.spending.input_tokens, reply.spending.output_tokens) == (None, None)


async def test_a_text_in_parts_is_joined(build: Build) -> None:
    """Some servers answer with a list of parts, their thinking among them."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = [thinking, {"type": "text", "text": "che"}, {"type": "text", "text": "ese"}]

    assert (await ask(build, Scripted(choices=[{"message": {"content": parts}}]))).text == "cheese"


WHERE = "where the worker runs$"
UNKEYED = "AuthenticationError"
CLAUDE, GEMINI = "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"


@pytest.mark.parametrize("password", ["secret", "se@cr/et"])
async def test_a_password_in_an_address_is_refused_in_words(
    build: Build, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    """It would be sent nowhere, and it stands in no message; a variable is named."""
    address = f"http://me:{password}@127.0.0.1:1/v1"
    monkeypatch.setenv("OPENAI_API_BASE", address)

    with pytest.raises(PermanentModelError, match="has a user or a password in it") as raised:
        await build(NAME, {NAME: Endpoint("scripted", address, KEY)}).complete(call())
    with pytest.raises(PermanentModelError, match="OPENAI_API_BASE of openai/gpt-4o has a user"):
        await build("openai/gpt-4o").complete(call())

    assert password not in str(raised.value)


@pytest.mark.parametrize(
    ("model", "said", "kind"),
    [
        ("openai/gpt-4o", f"^no key for openai/gpt-4o: set OPENAI_API_KEY {WHERE}", UNKEYED),
        (CLAUDE, f"^no key for {CLAUDE}: set ANTHROPIC_API_KEY {WHERE}", UNKEYED),
        (GEMINI, f"^no key for {GEMINI}: set GOOGLE_API_KEY or GEMINI_API_KEY {WHERE}", UNKEYED),
        ("nosuch", "no provider for the model 'nosuch'", "BadRequestError"),
        ("foo/bar", "no provider for the model 'foo/bar'", "BadRequestError"),
        (None, r"set MULL_MODEL .* --model", "NoModel"),
    ],
)
async def test_a_model_that_can_t_be_called_is_refused_for_good(
    build: Build, model: str | None, said: str, kind: str
) -> None:
    """In one line: the variable to set, or the name that no provider has."""
    for default, asked in ((None, model), (model, None)):
        with pytest.raises(PermanentModelError, match=said) as raised:
            await build(default).complete(call(model=asked))

        assert raised.value.kind == kind


async def test_a_model_that_is_not_listed_is_not_called(
    build: Build, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MULL_MODELS says what calls may name; the worker's own models may be named too."""
    monkeypatch.setenv("MULL_MODELS", "house/*")
    monkeypatch.setenv("MULL_MODEL", NAME)
    monkeypatch.setenv("MULL_JUDGE_MODEL", "openai/judge")
    with ScriptedEndpoint(["fine"] * 3) as server:
        use("OPENAI", server)
        model = build(NAME, redirect(server))
        for name in (None, NAME, "openai/judge"):
            await model.complete(call(model=name))
        with pytest.raises(PermanentModelError) as raised:
            await model.complete(call(model="openai/gpt-4o"))

    line = "MULL_MODELS, where this worker runs, lets requests name house/*, not openai/gpt-4o"
    assert (str(raised.value), raised.value.kind) == (line, "ModelNotAllowed")


@pytest.mark.parametrize("asked", [True, False])
async def test_a_name_with_an_address_is_not_called(build: Build, *, asked: bool) -> None:
    """Neither by a call that reached the worker, nor by the worker's own setting."""
    with ScriptedEndpoint([]) as server:
        name = f"oobabooga/{server.url}"
        model = build(None if asked else name)
        with pytest.raises(PermanentModelError, match="address"):
            await model.complete(call(model=name if asked else None))

    assert server.requests == []


async def test_litellm_is_asked_once_what_a_model_takes(
    build: Build, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call, with another seed, asks LiteLLM nothing that it has answered before."""
    adapter: Any = importlib.import_module("activities.language_model.litellm_model")
    asked, answers = list[object](), adapter.litellm.get_optional_params
    temperature = 0.123  # which no other test remembers

    def answered(**question: Any) -> Any:
        asked.append(question)
        return answers(**question)

    monkeypatch.setattr(adapter.litellm, "get_optional_params", answered)

    with ScriptedEndpoint(["fine"] * 2) as server:
        use("OPENAI", server)
        model = build("openai/gpt-4o-mini")
        for seed in (1, 2):
            await model.complete(call(seed=seed, temperature=temperature, reply_schema=SCHEMA))
            asked.append(None)

    assert asked[-2:] == [None, None]
    assert len(asked) > 2
