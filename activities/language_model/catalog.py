"""LiteLLM's facts about a model: its provider, its parameters, and its thinking.

LiteLLM is asked once, and its answers are cached: they do not change while a worker runs, and
asking again for each call would take up to a third of its CPU.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Any, get_args

import httpx
import litellm
from litellm.constants import openai_compatible_providers
from litellm.exceptions import UnsupportedParamsError
from litellm.types.utils import LlmProviders
from litellm.utils import ProviderConfigManager

from activities.language_model.port import Endpoint
from mull.keys import SHORTEST_SECRET, secrets
from mull.request import THINKING_TOKENS
from mull.turn.budget import Effort

# These servers hold any model to a schema, in a form of their own; LiteLLM only lists models.
_CONSTRAINING_SERVERS = frozenset({"ollama", "ollama_chat"})
# Patterns for names of models that think without LiteLLM knowing it, separated by commas.
REASONING_MODELS = "MULL_REASONING_MODELS"
# Among models whose provider passes an effort on, these take `low` from any provider.
_OPENAI = re.compile(r"(?:^|/)(?:o\d|gpt-)")
_BEYOND_OPENAI = frozenset({"top_k", "min_p", "repetition_penalty"})
_OPENAIS = ("openai", "text-completion-openai")
_HUB = "huggingface.co"
# The prefix of tuned reflectors' names, and the variable with the address that serves them.
TUNED, REFLECTORS = "reflector/", "MULL_REFLECTORS"
# LiteLLM calls these at OpenAI's address and with its key if it knows no other; some are Azure's.
_LIKE_OPENAI = frozenset({*openai_compatible_providers, "custom_openai", "openai", "scaleway"})


def reflector(name: str) -> Endpoint | None:
    """Return the server of a model named `reflector/…`; None for any other name."""
    if not name.startswith(TUNED):
        return None
    address = os.environ.get(REFLECTORS) or "http://127.0.0.1:8091/v1"
    key = os.environ.get(f"{REFLECTORS}_KEY") or "none"
    return Endpoint(name.removeprefix(TUNED), address, key, free=True)


@dataclass(frozen=True)
class Route:
    """The model behind a name: `target` is LiteLLM's name for it."""

    name: str
    target: str
    provider: str
    endpoint: Endpoint | None

    @property
    def model(self) -> str:
        """LiteLLM's name for it without the provider."""
        return self.target.removeprefix(f"{self.provider}/")

    @property
    def system(self) -> str:
        """The provider's name in spans."""
        return self.name.partition("/")[0] if self.endpoint else self.provider

    def arguments(self, timeout_seconds: float) -> dict[str, Any]:
        """Build the arguments of every LiteLLM call on this route."""
        arguments: dict[str, Any] = {"model": self.target, "timeout": timeout_seconds}
        # Temporal owns retries; by default a 429 would make three requests.
        arguments |= {"num_retries": 0, "max_retries": 0}
        if self.endpoint:
            arguments |= {"api_base": self.endpoint.api_base, "api_key": self.endpoint.api_key}
        elif self.provider in _LIKE_OPENAI and self._vendor not in _OPENAIS:
            given = {name: os.environ.get(self.variable(name)) for name in ("api_base", "api_key")}
            arguments |= {name: value for name, value in given.items() if value}
        return arguments

    @property
    def _vendor(self) -> str:
        named = self.name.partition("/")[0]
        return named if self.provider in _OPENAIS and named != self.name else self.provider

    def variable(self, setting: str) -> str:
        """Name the provider's variable for a setting such as `api_key`."""
        return re.sub(r"\W", "_", f"{self._vendor}_{setting}").upper()

    @property
    def _settings(self) -> dict[str, str]:
        """The provider's variables in this worker's environment."""
        begin = re.split(r"[\W_]", self._vendor)[0].upper() + "_"
        return {name: value for name, value in os.environ.items() if name.startswith(begin)}

    @property
    def addresses(self) -> dict[str, str]:
        """The provider's addresses in this worker's environment, by variable."""
        return {name: value for name, value in self._settings.items() if "_BASE" in name}

    def stray(self, request: httpx.Request) -> str:
        """Name what a request to another provider has of OpenAI's: its "address" or its "key".

        A "template" is one that LiteLLM would fetch from any user's model on the hub, and run.
        """
        if self.endpoint or self._vendor in _OPENAIS:
            return ""
        if request.url.host.rstrip(".") == _HUB and self.provider != "huggingface":
            return "template"
        url, key = str(request.url), os.environ.get("OPENAI_API_KEY", "").strip()
        bases = filter(None, map(os.environ.get, ("OPENAI_API_BASE", "OPENAI_BASE_URL")))
        falls = self.provider in _LIKE_OPENAI and any(map(url.startswith, bases))
        falls = falls and not (self.addresses or litellm.get_llm_provider(self.target)[3])
        if falls or f".{request.url.host.rstrip('.')}".endswith(".api.openai.com"):
            return "address"
        # An operator may have given both providers the same key.
        theirs = len(key) >= SHORTEST_SECRET and key not in self._settings.values()
        return "key" if theirs and key in f"{url} {request.headers.values()}" else ""

    def secrets(self) -> frozenset[str]:
        """Return the keys of this route and of the environment, which messages must not show."""
        return frozenset({*secrets(), *([self.endpoint.api_key] if self.endpoint else [])})


_remembered = lru_cache(maxsize=1_000)
_reasons = _remembered(litellm.supports_reasoning)
_supports_schemas = _remembered(litellm.supports_response_schema)
_listed = _remembered(litellm.get_supported_openai_params)


@_remembered
def _described(target: str) -> dict[str, Any]:
    try:
        return dict(litellm.get_model_info(target))
    except Exception:
        return {}


def thinks(route: Route) -> bool:
    """Tell whether a model can think: by LiteLLM's list, or by the operator's patterns."""
    patterns = os.environ.get(REASONING_MODELS, "").split(",")
    if any(fnmatchcase(route.name, pattern.strip()) for pattern in patterns):
        return True
    # For these LiteLLM would ask their server, which blocks the worker and does not tell.
    return route.provider not in _CONSTRAINING_SERVERS and _reasons(route.target)


def output_limit(route: Route, usual: int, thinking: int) -> int:
    """Return the default limit of a reply's tokens, without those of its thinking."""
    if not thinks(route):
        return usual
    most = _described(route.target).get("max_output_tokens")
    limit = min(THINKING_TOKENS, most) if isinstance(most, int) and most > 0 else THINKING_TOKENS
    return max(limit - thinking, usual)


def least_effort(route: Route) -> tuple[bool, Effort | None]:
    """Tell whether a model thinks unasked, and return the effort to make it think least, if any.

    If LiteLLM's list is wrong and the provider refuses the effort, the call is made without it.
    """
    known = _described(route.target) if thinks(route) else {}
    if not thinks(route) or known.get("default_reasoning_effort") == "none":
        return False, None
    none, low = _sent(route, reasoning_effort="none"), planned(route, "low")
    levels = [one for one in known.get("reasoning_effort_levels") or () if one in get_args(Effort)]
    if levels or not low:
        return True, levels[0] if levels else None
    if none is not None and "thinking" in low and "thinking" not in none:
        # Claude, which thinks only when asked, or always.
        always = bool((litellm.model_cost.get(route.model) or {}).get("thinking_always_on"))
        return always, "low" if always else None
    if none is not None and "reasoning_effort" not in none:
        # The provider has a setting of its own; Gemini 2.5 Pro takes no budget of 0.
        least: Effort = "minimal" if "gemini-2.5-pro" in route.model else "none"
        return True, None if none == low else least
    for effort in ("none", "minimal"):
        if known.get(f"supports_{effort}_reasoning_effort"):
            return True, effort
    refused = known.get("supports_low_reasoning_effort") is False
    return True, "low" if _OPENAI.search(route.target) and not refused else None


def lists(route: Route, name: str) -> bool:
    """Tell whether LiteLLM lists a parameter for a model."""
    return name in (_listed(route.model, route.provider) or ())


def _sent(route: Route, **wanted: object) -> dict[str, Any] | None:
    """Return what LiteLLM would send a provider for these parameters; None if it refuses one."""
    return _translated(route.model, route.provider, json.dumps(wanted))


@_remembered
def _translated(model: str, provider: str, wanted: str) -> dict[str, Any] | None:
    try:
        sent: dict[str, Any] = litellm.get_optional_params(
            model=model, custom_llm_provider=provider, **json.loads(wanted)
        )
    except UnsupportedParamsError:
        return None
    return sent


def knows(
    route: Route, name: str, value: object, thinking: Mapping[str, Any] = MappingProxyType({})
) -> bool:
    """Tell whether a model takes this value: LiteLLM lists temperature for some that only take 1.

    Parameters that OpenAI lacks go to servers of one's own, and where LiteLLM's settings name them.
    """
    if not lists(route, name):
        if name not in _BEYOND_OPENAI or route.endpoint:
            return name in _BEYOND_OPENAI
        provider = LlmProviders(route.provider)
        config = ProviderConfigManager.get_provider_chat_config(route.model, provider)
        return hasattr(type(config), name)
    # A model takes all seeds or none. Each sample has its own, so ask once, with 0.
    return _sent(route, **{**thinking, name: 0 if name == "seed" else value}) is not None


def takes_schemas(route: Route, form: dict[str, Any]) -> bool:
    """Tell if a schema may be sent: as it is, to an endpoint like OpenAI's, or to a known model."""
    if route.provider in _CONSTRAINING_SERVERS or _supports_schemas(route.target):
        return True
    return (_sent(route, response_format=form) or {}).get("response_format") == form


def planned(route: Route, effort: str | None) -> dict[str, Any]:
    """Return what LiteLLM would send a provider for a level of thinking; empty if it sends none."""
    if not (thinks(route) and lists(route, "reasoning_effort")):
        return {}
    return _sent(route, reasoning_effort=effort) or {}


def thinking_budget(planned: dict[str, Any]) -> int | None:
    """Return the tokens that a provider would be told to think, if it takes a number."""
    found = planned.get("thinking") or {}
    tokens = found.get("budget_tokens")
    tokens = (planned.get("thinkingConfig") or {}).get("thinkingBudget", tokens)
    return tokens if isinstance(tokens, int) else None
