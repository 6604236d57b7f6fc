from typing import Any

import pytest

from activities.language_model.port import PermanentModelError, TransientModelError
from tests.activities.conftest import Use, claude
from tests.activities.scripted_calls import KEY, NAME, SCHEMA, Build, call, redirect
from tests.scripted_endpoint import Scripted, ScriptedEndpoint, failing

UNBOUNDED = SCHEMA | {"properties": {"answer": {"type": "string"}}}
ANTHROPIC = "anthropic/claude-sonnet-4-5"
WAIT = {"Retry-After": "7"}


def anthropic_error(status: int, kind: str, **more: Any) -> Scripted:
    body = f'{{"type": "error", "error": {{"type": "{kind}", "message": "rate limit"}}}}'
    return Scripted(status=status, body=body.encode(), **more)


@pytest.mark.parametrize(
    ("model", "usd"), [("openai/gpt-4o", 0.0000975), ("openai/scripted", None)]
)
async def test_a_call_costs_what_is_listed(
    build: Build, use: Use, model: str, usd: float | None
) -> None:
    """11 tokens at 2.5 and 7 at 10 dollars a million; a model without a price costs None."""
    with ScriptedEndpoint(["ok"]) as server:
        use("OPENAI", server)
        reply = await build(model).complete(call())

    assert reply.spending.cost_usd == (usd if usd is None else pytest.approx(usd))


@pytest.mark.parametrize(
    ("model", "left_out"),
    [("openai/gpt-4o", ()), ("openai/scripted", ()), ("openai/gpt-5", ("temperature",))],
)
async def test_a_model_gets_what_it_is_known_to_take(
    build: Build, use: Use, model: str, left_out: tuple[str, ...]
) -> None:
    """A strict schema to what is known to take one, and to any endpoint like OpenAI's."""
    with ScriptedEndpoint(["ok"]) as server:
        use("OPENAI", server)
        reply = await build(model).complete(call(prompt="Why?", reply_schema=SCHEMA))

    sent = server.requests[0]["response_format"]
    # A provider's schema has no minLength in it: some answer 400 to it.
    assert (sent["type"], sent["json_schema"]["schema"]) == ("json_schema", UNBOUNDED)
    assert reply.left_out == left_out


NONE = ("response_format",)
SCHEMA_REFUSED = failing(400, message="This response_format type is unavailable now")
JSON = "Why? In JSON."
FORMS: list[tuple[str, list[str | Scripted], list[str | None], tuple[str, ...]]] = [
    (JSON, [SCHEMA_REFUSED, "a", "b"], ["json_schema", "json_object"], ("json_schema",)),
    (JSON, [SCHEMA_REFUSED] * 2 + ["a", "b"], ["json_schema", "json_object", None], NONE),
    ("Why?", [failing(422), "a", "b"], ["json_schema", None], NONE),
]


@pytest.mark.parametrize(("prompt", "replies", "asked", "left_out"), FORMS)
async def test_a_form_that_is_refused_is_not_asked_for_again(
    build: Build,
    use: Use,
    prompt: str,
    replies: list[str | Scripted],
    asked: list[str | None],
    left_out: tuple[str, ...],
) -> None:
    """The same call is made in a looser form, and the next one begins with that."""
    with ScriptedEndpoint(replies) as server:
        use("OPENAI", server)
        model = build("openai/scripted")
        texts = [await model.complete(call(prompt=prompt, reply_schema=SCHEMA)) for _ in "ab"]

    assert [(reply.text, reply.left_out) for reply in texts] == [("a", left_out), ("b", left_out)]
    assert sent_forms(server) == [*asked, asked[-1]]


async def test_a_call_that_fails_in_any_form_says_nothing_about_forms(
    build: Build, use: Use
) -> None:
    """The next one asks for the strictest again."""
    with ScriptedEndpoint([failing(400)] * 2 + ["fine"]) as server:
        use("OPENAI", server)
        model = build("openai/scripted")
        with pytest.raises(PermanentModelError):
            await model.complete(call(reply_schema=SCHEMA))
        await model.complete(call(reply_schema=SCHEMA))

    assert sent_forms(server) == ["json_schema", None, "json_schema"]


def sent_forms(server: ScriptedEndpoint) -> list[str | None]:
    return [request.get("response_format", {}).get("type") for request in server.requests]


async def test_a_provider_without_seeds_is_sent_none(build: Build, use: Use) -> None:
    """Anthropic knows no seed: it is left out and named, and the rest is sent."""
    with ScriptedEndpoint([claude({"type": "text", "text": "no"})]) as server:
        use("ANTHROPIC", server)
        reply = await build(ANTHROPIC).complete(call())

    assert reply.left_out == ("seed",)
    assert set(server.requests[0]) == {"model", "messages", "temperature", "max_tokens"}
    assert reply.spending.cost_usd == pytest.approx(0.000138)


@pytest.mark.parametrize(
    ("fault", "expected", "wait"),
    [
        (anthropic_error(529, "overloaded_error"), "OverloadedError", None),
        (anthropic_error(429, "rate_limit_error", headers=WAIT), "RateLimitError", 7.0),
        (anthropic_error(401, "authentication_error"), "AuthenticationError", None),
        (anthropic_error(413, "request_too_large"), "RequestTooLargeError", None),
    ],
    ids=["529", "429", "401", "413"],
)
async def test_other_providers_faults_are_read_alike(
    build: Build, use: Use, fault: Scripted, expected: str, wait: float | None
) -> None:
    """Anthropic's own statuses decide, though LiteLLM changes them."""
    kind = TransientModelError if fault.status in {429, 529} else PermanentModelError
    with ScriptedEndpoint([fault]) as server:
        use("ANTHROPIC", server)
        with pytest.raises(kind) as raised:
            await build(ANTHROPIC).complete(call())

    assert vars(raised.value)["kind"] == expected
    assert vars(raised.value).get("retry_after") == wait


async def test_a_message_shows_neither_key_nor_prompt(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server echoes of the endpoint's key, any key at hand and the prompt is masked."""
    monkeypatch.setenv("HOUSE_API_KEY", "hunter2-hunter2")
    echo = failing(400, message=f"refused {KEY} and hunter2-hunter2 for '{call().prompt}'")

    with ScriptedEndpoint([echo]) as server, pytest.raises(PermanentModelError) as raised:
        await build(NAME, redirect(server)).complete(call())

    said = "answered 400: refused [key] and [key] for '[prompt]?'"
    assert str(raised.value) == f"{server.url}/chat/completions {said}"
