"""Vectors in a provider's response, in OpenAI's form."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from activities.documents.retrieval import EMBEDDING_BATCH
from activities.language_model import TransientModelError


def batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Divide texts into lists of at most 64, which every provider takes at once."""
    for start in range(0, len(texts), EMBEDDING_BATCH):
        yield texts[start : start + EMBEDDING_BATCH]


def read_vectors(response: Any, count: int) -> list[list[float]]:
    """Read as many vectors as there were texts, in the order of their `index`.

    Raises TransientModelError where some are missing, empty, of another length, or no numbers.
    """
    rows = sorted(response.data or [], key=lambda row: row.get("index") or 0)
    vectors = [row.get("embedding") for row in rows]
    sizes = {len(each) for each in vectors if isinstance(each, list)}
    if len(vectors) != count or len(sizes) != 1 or not all(map(_is_vector, vectors)):
        raise TransientModelError("the provider replied without one vector a text", "EmptyReply")
    return vectors


def _is_vector(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, int | float) and isfinite(each) for each in value)
    )
