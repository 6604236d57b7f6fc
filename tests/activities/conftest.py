import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.port import Sandbox
from activities.sandbox.sandbox import ProcessSandbox
from mull.multipath.request import Limits
from tests.activities.documents.documents import Documents
from tests.activities.scripted_calls import KEY, Build
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint

Use = Callable[[str, ScriptedEndpoint], None]


@pytest.fixture(scope="session")
def adapter() -> Build:
    """LiteLLM takes seconds to import: once, and for the tests that need it."""
    from activities.language_model.litellm_model import LiteLLMModel

    return LiteLLMModel


@pytest.fixture
def build(adapter: Build, monkeypatch: pytest.MonkeyPatch) -> Build:
    """The adapter's class, where the environment has no key and no address in it."""
    for provider in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "MISTRAL", "GROQ"):
        for name in ("API_KEY", "API_BASE", "BASE_URL", "AUTH_TOKEN"):
            monkeypatch.delenv(f"{provider}_{name}", raising=False)
    return adapter


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Have a server take the calls for a provider, by the environment."""

    def set_up(provider: str, server: ScriptedEndpoint) -> None:
        base = server.url if provider == "OPENAI" else server.url.removesuffix("/v1")
        monkeypatch.setenv(f"{provider}_API_BASE", base)
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)

    return set_up


@pytest.fixture(scope="session")
def bubblewrap() -> Bubblewrap:
    """What the sandbox runs programs in."""
    return Bubblewrap.find()


@pytest.fixture
def sandbox(bubblewrap: Bubblewrap) -> Sandbox:
    """A real sandbox, as a worker has it, that runs four programs at once."""
    return ProcessSandbox(bubblewrap, Limits(), at_once=4)


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    """An empty folder of documents, and its retriever."""
    return Documents(tmp_path)


def claude(*parts: Body, **changes: Any) -> Scripted:
    """Reply with these parts as Anthropic does."""
    known: Body = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    known |= {"stop_reason": "end_turn", "usage": {"input_tokens": 11, "output_tokens": 7}}
    return Scripted(body=json.dumps(known | changes | {"content": parts}).encode())
