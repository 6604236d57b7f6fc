"""Models that think: how much room their replies have, and what they are told at `off`."""

from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.language_model.port import ModelReply, SampleError, Usual
from activities.turn import ModelTask, TurnActivities
from mull.turn.budget import thinking
from tests.activities.conftest import Use
from tests.activities.scripted_calls import Build, call
from tests.scripted_endpoint import Body, Reply, Scripted, ScriptedEndpoint, failing

GEMINI = "gemini/gemini-2.5-"


async def asked(
    build: Build, use: Use, name: str, *replies: Reply, **changes: Any
) -> tuple[ModelReply, list[Body]]:
    """Make a call whose bounds are the worker's to choose, and return what was sent for it."""
    with ScriptedEndpoint(replies or ["fine"]) as server:
        use("OPENAI", server)
        free: dict[str, Any] = {"max_output_tokens": None, "timeout_seconds": None}
        free |= {"model": name, "usual": Usual(tokens=1_024)}
        reply = await build(None).complete(call(**free | changes))
    return reply, server.requests


@pytest.mark.parametrize(
    ("name", "given", "limit"),
    [
        ("openai/gpt-4o-mini", None, 1_024),
        ("openai/gpt-5-mini", None, 16_384),
        ("o4-mini", None, 16_384),
        ("openai/computer-use-preview", None, 1_024),
        ("openai/house-thinker", None, 16_384),
        ("openai/other", None, 1_024),
        ("openai/gpt-5-mini", 64, 64),
    ],
)
async def test_a_model_that_thinks_has_room_for_it(
    build: Build,
    use: Use,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    given: int | None,
    limit: int,
) -> None:
    """By LiteLLM's list or the operator's patterns, at most what it can; and it is recorded."""
    monkeypatch.setenv("MULL_REASONING_MODELS", "x/*, openai/house-*")

    reply, [sent] = await asked(build, use, name, max_output_tokens=given)

    sent_limit = sent.get("max_completion_tokens") or sent["max_tokens"]
    assert (sent_limit, reply.max_output_tokens) == (limit, limit)


@pytest.mark.parametrize(
    ("name", "seconds"), [("openai/gpt-4o-mini", 120), ("openai/gpt-5-mini", 480)]
)
async def test_its_time_out_grows_with_it(
    build: Build, use: Use, monkeypatch: pytest.MonkeyPatch, name: str, seconds: float
) -> None:
    """A time-out that is not set is as long as the limit takes at the usual rate."""
    from activities.language_model import litellm_model

    given, bounded = list[float](), litellm_model._bounded

    def noted(*inputs: Any) -> Any:
        found = bounded(*inputs)
        given.append(found[1])
        return found

    monkeypatch.setattr(litellm_model, "_bounded", noted)
    await asked(build, use, name)

    assert given == [seconds]


@pytest.mark.parametrize("text", [None, "", "<think>Let me see"])
@pytest.mark.parametrize("keep_cut", [False, True])
async def test_a_reply_that_is_cut_while_thinking_says_so(
    build: Build, use: Use, text: str | None, keep_cut: bool
) -> None:
    """It is no draft either, and the option that helps is named."""
    usual = Usual(field="judge_max_output_tokens")
    cut = Scripted(text, finish_reason="length")

    with pytest.raises(SampleError, match=f"was thinking: raise {usual.field}"):
        await asked(build, use, "o4-mini", cut, keep_cut=keep_cut, usual=usual)


OFF: list[tuple[str, str | None, bool]] = [
    ("openai/gpt-4o", None, False),
    ("openai/gpt-5-mini", "minimal", False),
    ("openai/gpt-5.1", None, False),
    ("o4-mini", "low", False),
    ("gpt-5.5-pro", None, True),
    ("anthropic/claude-sonnet-4-5", None, False),
    ("claude-opus-5-5", "low", False),
    (f"{GEMINI}flash", "none", False),
    (f"{GEMINI}pro", "minimal", False),
    ("deepseek/deepseek-reasoner", "none", False),
    ("groq/openai/gpt-oss-20b", "low", False),
    ("mistral/magistral-medium-latest", None, True),
    ("mistral/mistral-medium-3", "none", False),
    ("ollama/house-thinker", "none", False),
    ("openai/house-thinker", None, True),
]


@pytest.mark.parametrize(("name", "effort", "warned"), OFF)
async def test_at_off_a_model_is_told_to_think_least(
    build: Build, monkeypatch: pytest.MonkeyPatch, name: str, effort: str | None, warned: bool
) -> None:
    """Those that think unasked are told their provider's least effort; else a warning says so."""
    monkeypatch.setenv("MULL_REASONING_MODELS", "*/house-*")
    model: Any = build(None)
    describe = TurnActivities(model, model.abilities).describe_model

    known = await ActivityEnvironment().run(describe, ModelTask(model=name, think_level="off"))

    assert (known.thinking.level, known.thinking.tokens) == ("off", 0)
    assert known.thinking.effort == effort
    assert len(known.thinking.warnings) == warned
    assert all("may think all the same" in word for word in known.thinking.warnings)


async def test_the_least_effort_is_sent_and_left_out_where_it_is_refused(
    build: Build, use: Use
) -> None:
    """LiteLLM's list may be wrong: then the model thinks, which is told, and no turn is lost."""
    least = thinking("off", has_effort=True, unasked=True, least="minimal")
    more: dict[str, Any] = {"effort": least.effort, "thinking_tokens": least.tokens}
    name, bad = "openai/gpt-5-mini", failing(400, message="bad effort")

    told, [sent] = await asked(build, use, name, **more)
    refused, [first, second] = await asked(build, use, name, bad, "fine", **more)

    assert (sent["reasoning_effort"], "reasoning_effort" in told.left_out) == ("minimal", False)
    assert (first["reasoning_effort"], "reasoning_effort" in second) == ("minimal", False)
    assert "reasoning_effort" in refused.left_out
