import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from activities.documents import WordsAloneError
from activities.language_model.port import TransientModelError
from activities.retrieval.meaning.embedding import Embedded
from reflection.run import Spending
from tests.activities.retrieval.documents import Documents
from tests.activities.retrieval.embedding import MODEL, ScriptedEmbedder


class Waiting:
    """An embedding model that never replies."""

    async def embed(self, texts: Sequence[str], model: str, timeout_seconds: float) -> Embedded:
        await asyncio.Event().wait()
        raise AssertionError((texts, model, timeout_seconds))


def embeddings(spans: InMemorySpanExporter) -> list[ReadableSpan]:
    return [
        each for each in spans.get_finished_spans() if each.name == "embeddings house/embedding"
    ]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_each_call_is_a_span(documents: Documents, spans: InMemorySpanExporter) -> None:
    """A span has the operation, provider, model, dimensions, tokens and cost, and no text."""
    spans.clear()
    documents.write("a.txt", "a secret apple")
    documents.retriever = documents.worker(ScriptedEmbedder())

    await documents.find("a secret fruit", embedding_model=MODEL)

    query, passages = embeddings(spans)
    assert query.kind == passages.kind == SpanKind.CLIENT
    assert attributes(query) == {
        "openinference.span.kind": "EMBEDDING",
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "house",
        "gen_ai.request.model": "house/embedding",
        "gen_ai.embeddings.dimension.count": 2,
        "gen_ai.usage.input_tokens": 10,
        "mull.cost.usd": 0.001,
        "mull.texts": 1,
    }
    assert "secret" not in query.to_json() + passages.to_json()


async def test_a_span_leaves_out_what_is_not_known(
    documents: Documents, spans: InMemorySpanExporter
) -> None:
    """Without a price and tokens the span has neither, and no 0 for them."""
    spans.clear()
    documents.write("a.txt", "apple")
    documents.retriever = documents.worker(ScriptedEmbedder(spending=Spending(calls=1)))

    await documents.find("fruit", embedding_model=MODEL)

    names = set(attributes(embeddings(spans)[0]))
    assert names.isdisjoint({"gen_ai.usage.input_tokens", "mull.cost.usd"})


async def test_a_call_that_fails_is_a_span_in_error(
    documents: Documents, spans: InMemorySpanExporter
) -> None:
    """The span of a failed call has the provider's class name as its error's type."""
    spans.clear()
    documents.write("a.txt", "apple")
    busy = TransientModelError("the provider is busy", "RateLimitError", 429)
    documents.retriever = documents.worker(ScriptedEmbedder(busy))

    with pytest.raises(WordsAloneError):
        await documents.find("fruit", embedding_model=MODEL)

    [failed] = embeddings(spans)
    assert failed.status.status_code == StatusCode.ERROR
    assert attributes(failed)["error.type"] == "RateLimitError"


async def test_a_call_that_is_cancelled_is_a_span_in_error(
    documents: Documents, spans: InMemorySpanExporter
) -> None:
    """A search that nobody waits for any more ends its call at once, and the span says so."""
    spans.clear()
    documents.write("a.txt", "apple")
    documents.retriever = documents.worker(Waiting())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await documents.find("fruit", embedding_model=MODEL)

    assert [attributes(each)["error.type"] for each in embeddings(spans)] == ["cancelled"]
