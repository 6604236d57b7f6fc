"""Where a model name leads that is no provider's own."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server that answers for one model name.

    `model` is what the server calls it, `api_base` ends in /v1. `free`: its calls cost 0 dollars;
    otherwise their cost is unknown. Such a server is trusted to hold a reply to a JSON schema.
    """

    model: str
    api_base: str
    api_key: str = field(repr=False)
    free: bool = False
