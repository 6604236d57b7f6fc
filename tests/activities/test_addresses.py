"""A prompt goes to its own provider or nowhere, and OpenAI's key to OpenAI alone."""

import asyncio
import importlib
import os
import re
from contextlib import suppress
from typing import Any

import aiohttp
import httpcore
import httpx
import pytest

from activities.language_model.port import ModelError, PermanentModelError
from tests.activities.scripted_calls import Build, call

OPENAI_KEY = "sk-the-key-of-openai"
OPENAIS = {"openai", "text-completion-openai"}
ELSEWHERE = "http://127.0.0.1:9/v1"
AZURE = {"AZURE_API_VERSION": "2024-10-21"}


class Wire:
    """What would have been sent: each address, with the values of its headers."""

    def __init__(self) -> None:
        self.sent: list[tuple[httpx.URL, list[str]]] = []

    def note(self, url: str, headers: list[str]) -> None:
        self.sent.append((httpx.URL(url), headers))
        raise httpcore.ConnectError("nothing is sent from here")

    def leaked(self) -> bool:
        hosts = [f".{url.host}" for url, _ in self.sent]
        keys = [value for _, values in self.sent for value in values if OPENAI_KEY in value]
        return bool(keys) or any(host.endswith(".api.openai.com") for host in hosts)


@pytest.fixture
def wire(build: Build, monkeypatch: pytest.MonkeyPatch) -> Wire:  # noqa: ARG001 - made first
    """The wire below every client that LiteLLM has, with no setting but OpenAI's key."""
    noted = Wire()

    def core(_: object, request: httpcore.Request) -> None:
        url = request.url
        place = f"{url.scheme.decode()}://{url.host.decode()}{url.target.decode()}"
        noted.note(place, [value.decode("latin-1") for _, value in request.headers])

    async def core_in_turn(pool: object, request: httpcore.Request) -> None:
        core(pool, request)

    async def session(_: object, __: str, url: Any, **options: Any) -> None:
        noted.note(str(url), [*map(str, dict(options.get("headers") or {}).values())])

    for name in list(os.environ):
        if name.endswith(("_KEY", "_TOKEN", "_BASE", "_BASE_URL", "_CREDENTIALS")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    monkeypatch.setattr(httpcore.ConnectionPool, "handle_request", core)
    monkeypatch.setattr(httpcore.AsyncConnectionPool, "handle_async_request", core_in_turn)
    monkeypatch.setattr(aiohttp.ClientSession, "_request", session)
    return noted


# Refused by LiteLLM before anything is sent: no chat, no package, more settings than a key.
UNRESOLVED = """
a2a a2a_agent aiohttp_openai amazon_nova auto_router aws_polly aws_textract azure azure_ai
azure_speech azure_text bedrock bedrock_mantle black_forest_labs bytez chatgpt clarifai
cloudflare cursor custom databricks deepgram dotprompt elevenlabs fal_ai gdc gigachat
github_copilot gradient_ai heroku humanloop infinity jina_ai langflow langfuse langgraph
litellm_agent manus maritalk milvus mongodb morph nvidia_riva oci oobabooga openai_like
pg_vector petals predibase ragflow recraft reducto runwayml s3_vectors sagemaker
sagemaker_chat sagemaker_nova sap snowflake soniox stability strands_decider topaz transcribe
triton typesafe v0 valkey vertex_ai vertex_ai_beta vllm voyage watsonx watsonx_text
"""


async def test_a_prompt_goes_to_its_own_provider_or_nowhere(
    wire: Wire, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all that LiteLLM knows; once the variable is set that a refusal names, it is sent."""
    known = {
        str(getattr(one, "value", one)) for one in importlib.import_module("litellm").provider_list
    }
    astray, unresolved = set(), set()
    for name in sorted(known - OPENAIS):
        wire.sent.clear()
        for _ in range(3):
            said = await ask(build, f"{name}/m")
            found = re.search(r"set (\w+_API_(?:KEY|BASE))(?: or \w+)? where", said)
            if found is None or wire.sent:
                break
            its_own = f"the-key-of-{name}" if found[1].endswith("KEY") else ELSEWHERE
            monkeypatch.setenv(found[1], its_own)
        if wire.leaked():
            astray.add(name)
        if not wire.sent:
            unresolved.add(name)

    assert astray == set()
    assert unresolved == set(UNRESOLVED.split())


@pytest.mark.parametrize("model", ["petals/evil/m", "replicate/evil/m"])
async def test_no_template_is_taken_from_anybody_s_model(
    wire: Wire, build: Build, model: str
) -> None:
    """LiteLLM would run it here, for as long as it likes, in a thread that other calls wait for."""
    await ask(build, model)

    assert [str(url) for url, _ in wire.sent if "huggingface" in url.host] == []


@pytest.mark.parametrize("variable", ["LITELLM_HTTP2", "DISABLE_AIOHTTP_TRANSPORT"])
@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        ("xinference/m", {}, "xinference/m has no address, so its calls would go to OpenAI: set X"),
        ("azure/mistral-small", {}, "azure/mistral-small has no address, so its calls would go"),
        ("cerebras/m", {}, "no key for cerebras/m: set CEREBRAS_API_KEY where the worker runs"),
        ("lm_studio/m", {"OPENAI_API_BASE": ELSEWHERE}, "lm_studio/m has no address, so its"),
        ("custom_openai/m", {"OPENAI_API_BASE": ELSEWHERE}, "custom_openai/m has no address, so"),
        ("xinference/m", {"XINFERENCE_API_BASE": ELSEWHERE}, "no key for xinference/m: set XINF"),
    ],
)
async def test_a_refusal_is_for_good_and_names_what_to_set(
    wire: Wire,
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    model: str,
    settings: dict[str, str],
    said: str,
) -> None:
    """By every client, whether the address or the key would be OpenAI's, or its operator's own."""
    monkeypatch.setenv(variable, "True")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(PermanentModelError) as raised:
        await build(None).complete(call(model=model))

    assert str(raised.value).startswith(said)
    assert not raised.value.answered
    assert wire.sent == []


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("openai/m", {}),
        ("gpt-4o", {}),
        ("openai/m", {"OPENAI_API_BASE": ELSEWHERE}),
        ("lm_studio/m", {"LM_STUDIO_API_BASE": ELSEWHERE, "OPENAI_API_BASE": ELSEWHERE}),
        (
            "litellm_proxy/m",
            {"LITELLM_PROXY_API_BASE": ELSEWHERE, "LITELLM_PROXY_API_KEY": OPENAI_KEY},
        ),
        ("ollama_chat/m", {"OPENAI_API_BASE": "http://localhost:11434/v1"}),
        (
            "groq/m",
            {"OPENAI_API_BASE": "https://api.groq.com/openai/v1", "GROQ_API_KEY": "its-key"},
        ),
        ("azure/m", {"AZURE_API_BASE": ELSEWHERE, "AZURE_OPENAI_API_KEY": OPENAI_KEY} | AZURE),
        ("nano-gpt/m", {"NANO_GPT_API_KEY": OPENAI_KEY}),
    ],
)
async def test_what_an_operator_has_set_is_sent(
    wire: Wire, build: Build, monkeypatch: pytest.MonkeyPatch, model: str, settings: dict[str, str]
) -> None:
    """To OpenAI or its address by its models, and elsewhere with a key that is set for it too."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    await ask(build, model)

    assert wire.sent


async def test_what_is_read_in_a_thread_is_bounded(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some clients send in a thread: of a body of 50 MB they take about one, and hang up."""
    written = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
        with suppress(ConnectionError):
            while written < 50_000_000:
                writer.write(b"x" * 50_000)
                await writer.drain()
                written += 50_000
        writer.close()

    async with await asyncio.start_server(flood, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("NLP_CLOUD_API_BASE", f"http://127.0.0.1:{port}/")
        monkeypatch.setenv("NLP_CLOUD_API_KEY", "a-key-of-its-own")
        said = await ask(build, "nlp_cloud/m")

    assert "the reply is too large" in said
    assert written < 25_000_000


async def ask(build: Build, model: str) -> str:
    """Call a model, and return what was said of it."""
    with pytest.raises(ModelError) as raised:
        await build(None).complete(call(model=model, timeout_seconds=20.0))
    return str(raised.value)
