"""A span and metrics for each call of an embedding model, by OpenTelemetry's GenAI conventions."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from activities.language_model.port import ModelError
from activities.retrieval.meaning.embedding import Embedded, Embedder
from telemetry import KIND, SPAN_EMBEDDINGS, TRACER


class ObservedEmbedder:
    """An embedding model whose every call is an `embeddings {model}` span, and in two metrics.

    Texts and vectors never stand in a span.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        meter = metrics.get_meter(TRACER)
        self._duration = meter.create_histogram("gen_ai.client.operation.duration", unit="s")
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", unit="{token}")

    async def embed(self, texts: Sequence[str], model: str, timeout_seconds: float) -> Embedded:
        """Make the call inside its span. Raises what the model raises."""
        with self._timed(model) as span:
            span.set_attributes({KIND: "EMBEDDING", **_labels(model), "mull.texts": len(texts)})
            found = await self._embedder.embed(texts, model, timeout_seconds)
            span.set_attributes(_described(found))
        if (tokens := found.spending.input_tokens) is not None:
            self._tokens.record(tokens, {**_labels(model), "gen_ai.token.type": "input"})
        return found

    @contextmanager
    def _timed(self, model: str) -> Iterator[Span]:
        started, failed = time.perf_counter(), {}
        tracer, name = trace.get_tracer(TRACER), SPAN_EMBEDDINGS.format(model=model)
        with tracer.start_as_current_span(
            name, kind=SpanKind.CLIENT, record_exception=False
        ) as span:
            try:
                yield span
            except (ModelError, asyncio.CancelledError) as error:
                kind = error.kind if isinstance(error, ModelError) else "cancelled"
                failed = {"error.type": kind}
                span.set_attributes(failed)
                span.set_status(Status(StatusCode.ERROR, str(error)))
                raise
            finally:
                seconds = time.perf_counter() - started
                self._duration.record(seconds, {**_labels(model), **failed})


def _labels(model: str) -> dict[str, str]:
    return {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": model}


def _described(found: Embedded) -> dict[str, str | int | float]:
    known = {
        "gen_ai.provider.name": found.provider,
        "gen_ai.embeddings.dimension.count": len(found.vectors[0]) if found.vectors else None,
        "gen_ai.usage.input_tokens": found.spending.input_tokens,
        "mull.cost.usd": found.spending.cost_usd,
    }
    return {name: value for name, value in known.items() if value is not None}
