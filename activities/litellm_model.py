"""Language models through LiteLLM. The only file that imports litellm."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from activities.documents.retrieval import Embedded
from activities.embedded.endpoint import Endpoint
from activities.language_model import (
    ModelCall,
    ModelError,
    ModelReply,
    PermanentModelError,
    TransientModelError,
)
from activities.provider.embeddings import batches, read_vectors
from activities.provider.errors import read_error
from activities.provider.replies import read_reply, read_spending
from activities.provider.reply_format import JSON_OBJECT, schema_format, without_bounds
from activities.provider.routes import Route
from reflection.usage import Spending, total

# LiteLLM reads them while it is imported, and asks the network where they are not set.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")

import litellm
from litellm.exceptions import UnsupportedParamsError

litellm.suppress_debug_info = True
litellm.drop_params = False
# LiteLLM takes a 0 that an embedding is called with for no number at all.
litellm.DEFAULT_MAX_RETRIES = 0  # type: ignore[attr-defined]  # it is read there, not declared
# A cache would make the samples of a question alike, and their entropy 0.
litellm.cache = None

# These servers hold any model to a schema; LiteLLM knows it of models alone.
_CONSTRAINING_SERVERS = frozenset({"hosted_vllm", "ollama", "ollama_chat"})


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
        with _explained(route, call.prompt, call.timeout_seconds):
            options, left_out = _options(route, call)
            async with asyncio.timeout(call.timeout_seconds):
                response = await litellm.acompletion(**_arguments(route, call), **options)
            cost = _cost(response, route)
            provider = route.system
            return read_reply(
                response, route.name, provider, cost, left_out, keep_cut=call.keep_cut
            )

    async def embed(self, texts: Sequence[str], model: str, timeout_seconds: float) -> Embedded:
        """Embed texts by calls of at most 64, each made once and bounded by the seconds.

        Raises ModelError, and nothing else.
        """
        route = self._route(model)
        vectors: list[list[float]] = []
        spent: list[Spending] = []
        for batch in batches(texts):
            with _explained(route, "\n".join(batch), timeout_seconds):
                async with asyncio.timeout(timeout_seconds):
                    response = await litellm.aembedding(
                        input=list(batch), **route.arguments(timeout_seconds)
                    )
                vectors += read_vectors(response, len(batch))
                spent.append(read_spending(response, _cost(response, route)))
        return Embedded(vectors, total(spent), route.system)

    def _route(self, asked: str | None) -> Route:
        name = asked or self._default_model
        if not name:
            raise PermanentModelError(
                "no model: set MULL_MODEL where the worker runs, or name one with --model",
                "NoModel",
            )
        if endpoint := self._endpoints.get(name):
            return Route(name, f"openai/{endpoint.model}", "openai", endpoint)
        try:
            return Route(name, name, litellm.get_llm_provider(name)[1], None)
        except Exception as error:
            line = f"no provider for the model {name!r}: name it too, as in openai/{name}"
            raise PermanentModelError(line, type(error).__name__, 400) from None


def _arguments(route: Route, call: ModelCall) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": call.prompt}],
        "max_tokens": call.max_output_tokens,
        **route.arguments(call.timeout_seconds),
    }


def _options(route: Route, call: ModelCall) -> tuple[dict[str, Any], tuple[str, ...]]:
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
    route: Route, prompt: str, schema: dict[str, Any]
) -> tuple[dict[str, Any] | None, str | None]:
    if route.endpoint:
        return schema_format(schema), None
    if not _knows(route, "response_format", JSON_OBJECT):
        return None, "response_format"
    if route.provider in _CONSTRAINING_SERVERS or litellm.supports_response_schema(route.target):
        return schema_format(without_bounds(schema)), None
    # OpenAI refuses json_object, and others never end, where the prompt does not ask for JSON.
    return (JSON_OBJECT, "json_schema") if "json" in prompt.lower() else (None, "response_format")


def _knows(route: Route, name: str, value: object) -> bool:
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


def _cost(response: Any, route: Route) -> float | None:
    """LiteLLM's price of a call in US dollars. Its 0 also stands for a price not known."""
    if route.endpoint:
        return 0.0 if route.endpoint.free else None
    try:
        return litellm.completion_cost(response, model=route.target) or None
    except Exception:
        return None


@contextmanager
def _explained(route: Route, prompt: str, timeout_seconds: float) -> Iterator[None]:
    try:
        yield
    except ModelError:
        raise
    except TimeoutError:
        line = f"{route.name} did not reply within {timeout_seconds:g} seconds"
        raise TransientModelError(line, "Timeout") from None
    except Exception as error:
        raise _explain(error, route, prompt) from None


def _explain(error: Exception, route: Route, prompt: str) -> ModelError:
    failure = read_error(error, prompt, frozenset(route.secrets()))
    if failure.kind == "AuthenticationError" and not route.endpoint:
        missing = litellm.validate_environment(route.target)["missing_keys"]
        named = [name for name in missing if name.endswith("_API_KEY")] or missing
        if named:
            line = f"no key for {route.name}: set {' or '.join(named)} where the worker runs"
            return PermanentModelError(line, failure.kind, failure.status)
    return failure
