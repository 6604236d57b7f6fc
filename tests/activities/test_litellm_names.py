import pytest

from activities.language_model.port import PermanentModelError
from tests.activities.scripted_calls import Build, call


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("openai/gpt-4o", "no key for openai/gpt-4o: set OPENAI_API_KEY where the worker runs"),
        (
            "anthropic/claude-sonnet-4-5",
            "no key for anthropic/claude-sonnet-4-5: set ANTHROPIC_API_KEY where the worker runs",
        ),
        (
            "gemini/gemini-2.5-flash",
            (
                "no key for gemini/gemini-2.5-flash: "
                "set GOOGLE_API_KEY or GEMINI_API_KEY where the worker runs"
            ),
        ),
    ],
)
async def test_a_missing_key_is_named(build: Build, model: str, line: str) -> None:
    """Without its key a model fails for good, with the variable to set."""
    with pytest.raises(PermanentModelError) as raised:
        await build(model).complete(call())

    assert (str(raised.value), raised.value.kind) == (line, "AuthenticationError")


@pytest.mark.parametrize("model", ["nosuch", "foo/bar"])
async def test_an_unknown_name_fails_for_good(build: Build, model: str) -> None:
    """A name without a provider that LiteLLM knows is refused in one line."""
    with pytest.raises(PermanentModelError, match=f"no provider for the model '{model}'") as raised:
        await build(None).complete(call(model=model))

    assert raised.value.kind == "BadRequestError"


async def test_no_model_at_all_says_where_to_set_one(build: Build) -> None:
    """Without a default a call must name its model."""
    with pytest.raises(PermanentModelError, match=r"set MULL_MODEL .* --model") as raised:
        await build(None).complete(call())

    assert raised.value.kind == "NoModel"
