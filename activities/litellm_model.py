"""Language models through LiteLLM. The only file that imports litellm."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from activities.embedded.endpoint import Endpoint
from activities.language_model import (
    ModelCall,
    ModelError,
    ModelReply,
    PermanentModelError,
    TransientModelError,
)
from activities.provider.errors import read_error
from activities.provider.replies import read_reply
from activities.provider.reply_format import JSON_OBJECT, schema_format, without_bounds

# LiteLLM reads them while it is imported, and asks the network where they are not set.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")

import litellm
from litellm.exceptions import UnsupportedParamsError

litellm.suppress_debug_info = True
litellm.drop_params = False
# A cache would make the samples of a question alike, and their entropy 0.
litellm.cache = None

# These servers hold any model to a schema; LiteLLM knows it of models alone.
_CONSTRAINING_SERVERS = frozenset({"hosted_vllm", "ollama", "ollama_chat"})
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SHORTEST_SECRET = 8


@dataclass(frozen=True)
class _Route:
    """Where a model's name leads: `target` is what LiteLLM is asked for."""

    name: str
    target: str
    provider: str
    endpoint: Endpoint | None


class LiteLLMModel:
    """A language model that LiteLLM reaches: `default_model`, or the one a call names.

    `endpoints` redirects names to OpenAI-compatible servers. A call is made once, is bounded by
    its time-out as a whole, and only sends what the provider knows.
    """

    def __init__(
        self,
        default_model: str | None,
        endpoints: Mapping[str, Endpoint] = MappingProxyType({}),
    ) -> None:
        self._default_model = default_model
        self._endpoints = dict(endpoints)

    async def complete(self, call: ModelCall) -> ModelReply:
        """Make one call, once. Raises ModelError, in one of its three kinds, and nothing else."""
        route = self._route(call.model)
        try:
            options, left_out = _options(route, call)
            async with asyncio.timeout(call.timeout_seconds):
                response = await litellm.acompletion(**_arguments(route, call), **options)
            cost = _cost(response, route)
            provider = _provider(route)
            return read_reply(
                response, route.name, provider, cost, left_out, keep_cut=call.keep_cut
            )
        except ModelError:
            raise
        except TimeoutError:
            line = f"{route.name} did not reply within {call.timeout_seconds:g} seconds"
            raise TransientModelError(line, "Timeout") from None
        except Exception as error:
            raise _explain(error, route, call) from None

    def _route(self, asked: str | None) -> _Route:
        name = asked or self._default_model
        if not name:
            raise PermanentModelError(
                "no model: set MULL_MODEL where the worker runs, or name one with --model",
                "NoModel",
            )
        if endpoint := self._endpoints.get(name):
            return _Route(name, f"openai/{endpoint.model}", "openai", endpoint)
        try:
            return _Route(name, name, litellm.get_llm_provider(name)[1], None)
        except Exception as error:
            line = f"no provider for the model {name!r}: name it too, as in openai/{name}"
            raise PermanentModelError(line, type(error).__name__, 400) from None


def _arguments(route: _Route, call: ModelCall) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": route.target,
        "messages": [{"role": "user", "content": call.prompt}],
        "max_tokens": call.max_output_tokens,
        "timeout": call.timeout_seconds,
        # Temporal owns retries; unsaid, a 429 would make three requests.
        "num_retries": 0,
        "max_retries": 0,
    }
    if route.endpoint:
        arguments |= {"api_base": route.endpoint.api_base, "api_key": route.endpoint.api_key}
    return arguments


def _options(route: _Route, call: ModelCall) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Choose what the provider knows of the call's options, and name what it does not."""
    wanted = {"temperature": call.temperature, "seed": call.seed}
    options: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    left_out = [name for name, value in options.items() if not _knows(route, name, value)]
    options = {name: value for name, value in options.items() if name not in left_out}
    if call.reply_schema is not None:
        shape, missing = _reply_format(route, call.prompt, call.reply_schema)
        options |= {"response_format": shape} if shape else {}
        left_out += [missing] if missing else []
    return options, tuple(left_out)


def _reply_format(
    route: _Route, prompt: str, schema: dict[str, Any]
) -> tuple[dict[str, Any] | None, str | None]:
    if route.endpoint:
        return schema_format(schema), None
    if not _knows(route, "response_format", JSON_OBJECT):
        return None, "response_format"
    if route.provider in _CONSTRAINING_SERVERS or litellm.supports_response_schema(route.target):
        return schema_format(without_bounds(schema)), None
    # OpenAI refuses json_object, and others never end, where the prompt does not ask for JSON.
    return (JSON_OBJECT, "json_schema") if "json" in prompt.lower() else (None, "response_format")


def _knows(route: _Route, name: str, value: object) -> bool:
    """LiteLLM's lists name temperature for models that take 1 alone: ask with the value too."""
    model = route.target.removeprefix(f"{route.provider}/")
    known = litellm.get_supported_openai_params(model, custom_llm_provider=route.provider)
    if name not in (known or ()):
        return False
    try:
        litellm.get_optional_params(
            model=model, custom_llm_provider=route.provider, **{name: value}
        )
    except UnsupportedParamsError:
        return False
    return True


def _provider(route: _Route) -> str:
    return route.name.partition("/")[0] if route.endpoint else route.provider


def _cost(response: Any, route: _Route) -> float | None:
    """LiteLLM's price of a call in US dollars. Its 0 also stands for a price not known."""
    if route.endpoint:
        return 0.0 if route.endpoint.free else None
    try:
        return litellm.completion_cost(response, model=route.target) or None
    except Exception:
        return None


def _explain(error: Exception, route: _Route, call: ModelCall) -> ModelError:
    failure = read_error(error, call.prompt, frozenset(_secrets(route)))
    if failure.kind == "AuthenticationError" and not route.endpoint:
        missing = litellm.validate_environment(route.target)["missing_keys"]
        named = [name for name in missing if name.endswith("_API_KEY")] or missing
        if named:
            line = f"no key for {route.name}: set {' or '.join(named)} where the worker runs"
            return PermanentModelError(line, failure.kind, failure.status)
    return failure


def _secrets(route: _Route) -> Iterator[str]:
    if route.endpoint:
        yield route.endpoint.api_key
    for name, value in os.environ.items():
        if name.endswith(_SECRET_NAMES) and len(value) >= _SHORTEST_SECRET:
            yield value
