"""Where a model's name leads."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from activities.embedded.endpoint import Endpoint

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SHORTEST_SECRET = 8


@dataclass(frozen=True)
class Route:
    """Where a model's name leads: `target` is what LiteLLM is asked for."""

    name: str
    target: str
    provider: str
    endpoint: Endpoint | None

    @property
    def system(self) -> str:
        """The provider's name, as spans show it."""
        return self.name.partition("/")[0] if self.endpoint else self.provider

    def arguments(self, timeout_seconds: float) -> dict[str, Any]:
        """Say what every call of LiteLLM on this route is called with."""
        arguments: dict[str, Any] = {
            "model": self.target,
            "timeout": timeout_seconds,
            # Temporal owns retries; unsaid, a 429 would make three requests.
            "num_retries": 0,
            "max_retries": 0,
        }
        if self.endpoint:
            arguments |= {"api_base": self.endpoint.api_base, "api_key": self.endpoint.api_key}
        return arguments

    def secrets(self) -> Iterator[str]:
        """Yield what no message may show: keys of this route, and of the environment."""
        if self.endpoint:
            yield self.endpoint.api_key
        for name, value in os.environ.items():
            if name.endswith(_SECRET_NAMES) and len(value) >= _SHORTEST_SECRET:
                yield value
