"""The port to embedding models."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from reflection.run import Spending


class Embedded(NamedTuple):
    """One vector for each text, all of one length, what they cost, and whose model made them."""

    vectors: list[list[float]]
    spending: Spending
    provider: str | None = None


class Embedder(Protocol):
    """Whatever turns texts into vectors, near each other where the texts mean alike."""

    async def embed(self, texts: Sequence[str], model: str, timeout_seconds: float) -> Embedded:
        """Embed texts; the seconds bound each call. Raises ModelError, and nothing else."""
        ...
