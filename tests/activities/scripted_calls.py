"""Calls of models that a scripted endpoint answers."""

from collections.abc import Callable
from typing import Any

from activities.language_model.port import Endpoint, LanguageModel, ModelCall, ModelReply
from tests.scripted_endpoint import Scripted, ScriptedEndpoint

NAME = "house/scripted"
KEY = "opensesame-1234"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "minLength": 1}},
    "required": ["answer"],
    "additionalProperties": False,
}

Build = Callable[..., LanguageModel]


def call(**changes: Any) -> ModelCall:
    plain: dict[str, Any] = {
        "model": None,
        "prompt": "Is the moon made of cheese?",
        "temperature": 0.7,
        "seed": 7,
        "max_output_tokens": 64,
        "timeout_seconds": 60.0,
    }
    return ModelCall(**plain | changes)


def redirect(server: ScriptedEndpoint, *, free: bool = True) -> dict[str, Endpoint]:
    return {NAME: Endpoint("scripted", server.url, KEY, free)}


async def ask(build: Build, reply: str | Scripted, **changes: Any) -> ModelReply:
    with ScriptedEndpoint([reply]) as server:
        return await build(NAME, redirect(server)).complete(call(**changes))
