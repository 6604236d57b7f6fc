import pytest

from tests.activities.scripted_calls import Build


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
