"""Names of spans, attributes and search attributes, and the tracer and meter providers.

All names are in this file, since the GenAI conventions are still in development. The OpenTelemetry
SDK is imported only where a provider is created, so that workflows can import the names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from temporalio.common import SearchAttributeKey

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter
    from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider

TRACER = "mull"

SPAN_RUN = "invoke_workflow {type}"
SPAN_WAVE = "mull.wave"
SPAN_DECISION = "mull.decision"
SPAN_CHAT = "chat {model}"
SPAN_EVALUATION = "evaluate {criteria}"
SPAN_REFLECTION = "mull.reflect"
SPAN_TOOL = "execute_tool {tool}"
SPAN_TURN_REFLECTION = "mull.turn.reflect"

NODE_KINDS = {
    "retrieve": "RETRIEVER",
    "route": "CHAIN",
    "write_tests": "LLM",
    "generate_report": "LLM",
    "reflect_on_report": "EVALUATOR",
    "generate_code": "LLM",
    "test_code": "TOOL",
}
"""The multi-path agent's nodes: each is a span with this name and OpenInference kind."""

EVENT_EVALUATION = "gen_ai.evaluation.result"

KIND = "openinference.span.kind"
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

STOP_REASON = SearchAttributeKey.for_keyword("MullStopReason")
CONSENSUS = SearchAttributeKey.for_keyword("MullConsensus")
UNCERTAINTY = SearchAttributeKey.for_keyword("MullUncertainty")
ENTROPY_LEVEL = SearchAttributeKey.for_keyword("MullEntropyLevel")
MODEL = SearchAttributeKey.for_keyword("MullModel")
CONFIDENCE = SearchAttributeKey.for_float("MullConfidence")
SCORE = SearchAttributeKey.for_float("MullScore")
COST_USD = SearchAttributeKey.for_float("MullCostUsd")
SAMPLES = SearchAttributeKey.for_int("MullSamples")
REVISIONS = SearchAttributeKey.for_int("MullRevisions")
TOKENS = SearchAttributeKey.for_int("MullTokens")
NEEDS_REVIEW = SearchAttributeKey.for_bool("MullNeedsReview")

_KEYWORDS = (STOP_REASON, CONSENSUS, UNCERTAINTY, ENTROPY_LEVEL, MODEL)
_NUMBERS = (CONFIDENCE, SCORE, COST_USD, SAMPLES, REVISIONS, TOKENS)
SEARCH_ATTRIBUTES: dict[str, str] = {
    key.name: key.indexed_value_type.name.title() for key in (*_KEYWORDS, *_NUMBERS, NEEDS_REVIEW)
}
"""Each search attribute's name and type, as `temporal operator search-attribute` takes them."""


def captures_content(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if spans may contain prompts and replies, which is off by default."""
    return environment.get(CONTENT_VARIABLE, "").lower() in {"true", "1", "span_only"}


def set_up(traces: Path | None, more: Sequence[SpanProcessor] = ()) -> ReplaySafeTracerProvider:
    """Create the process's tracer provider and register it.

    Spans go to the endpoint of the standard OTEL_* variables, to the file `traces` (one JSON object
    a line) and to the processors `more`; without any of these, spans are off. Batches are exported
    every 200 ms, which limits what a killed worker loses.
    """
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import sampling
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    from temporalio.contrib.opentelemetry import create_tracer_provider

    exporters: list[SpanExporter] = []
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporters.append(OTLPSpanExporter())
    if traces is not None:
        # A batch is written at once, and whole: other processes append to the same file.
        lines = traces.open("a", encoding="utf-8", buffering=2**20)
        exporters.append(
            ConsoleSpanExporter(out=lines, formatter=lambda span: f"{span.to_json(indent=None)}\n")
        )
    batches = [BatchSpanProcessor(exporter, schedule_delay_millis=200) for exporter in exporters]
    processors = [*batches, *more]
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "mull")})
    # Each span's line has it, and it never changes.
    resource.to_json = cache(resource.to_json)  # type: ignore[method-assign]
    provider = create_tracer_provider(
        resource=resource,
        sampler=None if processors else sampling.ALWAYS_OFF,
    )
    # The plugin asks for a tracer at each call of an activity; to make one takes as long as a span.
    provider.get_tracer = cache(provider.get_tracer)  # type: ignore[method-assign]
    for processor in processors:
        provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)
    return provider


def measure() -> MeterProvider | None:
    """Create the process's meter provider, if the standard OTEL_* variables name an endpoint."""
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return None
    from opentelemetry import metrics
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
    metrics.set_meter_provider(provider)
    return provider
