"""A request names models, and never an address."""

import json
from typing import Any

import pytest

from activities.language_model.port import may_name
from mull.agents.request import ReflexionRequest
from mull.agents.retroformer import RetroformerRequest
from mull.agents.training import RetroformerTrainingRequest
from mull.critique.request import ReflectOnResultRequest
from mull.multipath.request import MultiPathRequest
from mull.request import explain, parse_request
from mull.sampling.request import SelfConsistencyRequest
from mull.turn.request import ToolTurnRequest

ADDRESS = "oobabooga/http://127.0.0.1:8080/admin"
SAID = "an address (://) can't be part of a model's name: it is set where the worker runs"
TASK = {"environment": "code", "task": "1"}
TRAINING = {"environment": "code", "tasks": ["1"], "reflector": "m", "base_model": "m"}
REQUESTS: list[tuple[Any, dict[str, Any], list[str]]] = [
    (SelfConsistencyRequest, {"question": "Why?"}, ["model"]),
    (ReflectOnResultRequest, {"query": "Why?"}, ["model", "judges"]),
    (MultiPathRequest, {"question": "Why?"}, ["model", "judge"]),
    (ToolTurnRequest, {"message": "Why?"}, ["model"]),
    (ReflexionRequest, TASK, ["model", "judge", "reflector"]),
    (RetroformerRequest, TASK, ["model", "judge", "reflector", "reward_model"]),
    (RetroformerTrainingRequest, TRAINING, ["model", "reflector", "base_model", "tuned"]),
]


@pytest.mark.parametrize(
    ("kind", "fields", "name"),
    [(kind, fields, name) for kind, fields, names in REQUESTS for name in names],
)
def test_an_address_is_refused_wherever_a_model_is_named(
    kind: Any, fields: dict[str, Any], name: str
) -> None:
    """Of a writer, a judge, a panel, a reflector, a reward model and a base; in one line."""
    given = ["openai/m", ADDRESS] if name == "judges" else ADDRESS

    with pytest.raises(ValueError, match="address") as raised:
        parse_request(kind, json.dumps(fields | {name: given}))

    place = "judges.1" if name == "judges" else name
    assert f"{place}: {SAID}" in explain(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "gemini/../../v1/files",
        "azure/..",
        "azure/x?api-version=1",
        "bedrock/x#y",
        "gemini/%2e%2e/files",
        "azure/..\\x",
        "openai/x\r\ny",
        "gemini/x\x00",
    ],
)
def test_a_name_that_would_lead_to_another_address_is_refused(name: str) -> None:
    """With the worker's key: some providers have the name in the path of an address."""
    with pytest.raises(ValueError, match="can't be in a model's name"):
        parse_request(SelfConsistencyRequest, json.dumps({"question": "Why?", "model": name}))


@pytest.mark.parametrize(
    "name",
    [
        "bedrock/arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude",
        "ollama/hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M",
        "cloudflare/@cf/meta/llama-3-8b-instruct",
        "vertex_ai/claude-sonnet-4-5@20250929",
        "ft:gpt-4o-mini-2024-07-18:acme::A1b2C3",
        "hosted_vllm/./weights/v1..2",
    ],
)
def test_a_name_with_colons_and_slashes_is_one(name: str) -> None:
    """Names of Amazon's resources and of Hugging Face's models are honest."""
    fields = json.dumps({"question": "Why?", "model": name})

    assert parse_request(SelfConsistencyRequest, fields).model == name


@pytest.mark.parametrize(
    ("patterns", "model", "may"),
    [
        (None, "anything/at-all", True),
        ("", "openai/gpt-5", False),
        ("openai/*", "openai/gpt-5", True),
        ("openai/*", "OpenAI/gpt-5", False),
        ("openai/*", "gpt-5", False),
        ("ollama/* , openai/gpt-5", "openai/gpt-5", True),
        ("ollama/*", "ollama/hf.co/a/b:Q4", True),
        ("openai/gpt-?", "openai/gpt-5-mini", False),
        ("openai/gpt-?", "house/own", True),
        ("", "house/judge", True),
    ],
)
def test_a_worker_lists_what_requests_may_name(patterns: str | None, model: str, may: bool) -> None:
    """By patterns over the whole name, besides its own models; any where it has no list."""
    own = {"MULL_MODEL": "house/own", "MULL_JUDGE_MODEL": "house/judge"}
    listed = {} if patterns is None else {"MULL_MODELS": patterns}

    assert may_name(model, own | listed) is may
