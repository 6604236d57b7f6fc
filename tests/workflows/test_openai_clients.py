"""Clients of OpenAI's interface that others wrote, unchanged but for the address and the model."""

from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from temporalio.client import Client

from tests.conftest import served
from tests.scripted import ScriptedModel
from tests.workflows.serving import HELLO, KEYS, bearers, listening

MODELS = {"mull/ask": {"max_responses": 3}, "mull/turn": {"tools": []}}
SAID = {"mull/ask": "5", "mull/turn": "It is 5."}


@pytest.fixture
async def address(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    model = ScriptedModel(sample=["5"] * 3, step=["It is 5."] * 2)
    async with served(client, model), listening(client, bearers()) as found:
        yield found


@pytest.mark.parametrize("model", MODELS)
async def test_langchain(address: str, model: str) -> None:
    """Its settings for the loop are its own `extra_body`; it counts tokens in both ways."""
    more: dict[str, Any] = {"extra_body": {"mull": MODELS[model]}, "temperature": 0.3}
    chat = ChatOpenAI(model=model, base_url=address, api_key=KEYS["ann"], **more)
    messages = [("system", "Be brief."), ("human", "How much?")]
    whole = await chat.ainvoke(messages)
    parts = [part async for part in chat.astream(messages, stream_usage=True)]

    assert whole.content == SAID[model]
    assert "".join(str(part.content) for part in parts) == SAID[model]
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["input_tokens"] > 0
    usage = [part.usage_metadata for part in parts if part.usage_metadata]
    assert [one["output_tokens"] for one in usage] == [whole.usage_metadata["output_tokens"]]


@pytest.mark.parametrize("model", MODELS)
async def test_litellm(address: str, model: str) -> None:
    """It takes the name after its own prefix as the model."""
    litellm = import_module("litellm")
    known: dict[str, Any] = {"api_base": address, "api_key": KEYS["ann"]}
    known |= {"model": f"openai/{model}"}
    known |= {"extra_body": {"mull": MODELS[model]}, "messages": HELLO}
    whole = await litellm.acompletion(**known)
    parts = [part async for part in await litellm.acompletion(**known, stream=True)]

    assert whole.choices[0].message.content == SAID[model]
    assert whole.usage.prompt_tokens > 0
    said = [part.choices[0].delta.content for part in parts if part.choices]
    assert "".join(one or "" for one in said) == SAID[model]


async def test_litellm_says_why_it_was_refused(address: str) -> None:
    litellm = import_module("litellm")
    known = {"api_base": address, "model": "openai/mull/ask", "messages": HELLO}
    with pytest.raises(litellm.AuthenticationError, match="this server's keys"):
        await litellm.acompletion(**known, api_key="wrong")
    with pytest.raises(litellm.BadRequestError, match="n: not taken"):
        await litellm.acompletion(**known, api_key=KEYS["ann"], n=2)
