"""A span and metrics for every call of a model, by OpenTelemetry's GenAI conventions."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from activities.language_model.port import (
    LanguageModel,
    ModelCall,
    ModelError,
    ModelReply,
    SampleError,
)
from reflection.run import Spending
from telemetry import KIND, SPAN_CHAT, TRACER, captures_content


@contextmanager
def observed(operation: str, span_name: str, model: str) -> Iterator[Span]:
    """Span one call of a model, with its error if it fails, and record how long it took."""
    labels, started = _labels(operation, model), time.perf_counter()
    with trace.get_tracer(TRACER).start_as_current_span(
        span_name.format(model=model), kind=SpanKind.CLIENT, record_exception=False
    ) as span:
        span.set_attributes(labels)
        try:
            yield span
        except (ModelError, asyncio.CancelledError) as error:
            kind = error.kind if isinstance(error, ModelError) else "cancelled"
            labels["error.type"] = kind
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, str(error)))
            raise
        finally:
            meter = metrics.get_meter(TRACER)
            duration = meter.create_histogram("gen_ai.client.operation.duration", unit="s")
            duration.record(time.perf_counter() - started, labels)


def record_spending(span: Span, operation: str, model: str, spending: Spending) -> None:
    """Record what is known of a call's tokens and cost."""
    if spending.cost_usd is not None:
        span.set_attribute("mull.cost.usd", spending.cost_usd)
    meter = metrics.get_meter(TRACER)
    used = meter.create_histogram("gen_ai.client.token.usage", unit="{token}")
    for side, tokens in (("input", spending.input_tokens), ("output", spending.output_tokens)):
        if tokens is not None:
            span.set_attribute(f"gen_ai.usage.{side}_tokens", tokens)
            used.record(tokens, {**_labels(operation, model), "gen_ai.token.type": side})


class ObservedModel:
    """A language model whose every call makes a `chat {model}` span and counts in two metrics.

    Prompts and replies are in the span only if content is switched on.
    """

    def __init__(self, model: LanguageModel, default_model: str | None) -> None:
        self._model = model
        self._default_model = default_model

    async def complete(self, call: ModelCall) -> ModelReply:
        """Make the call inside its span. Raises what the model raises."""
        name = call.model or self._default_model or "unknown"
        with observed("chat", SPAN_CHAT, name) as span:
            _describe_call(span, call)
            try:
                reply = await self._model.complete(call)
            except SampleError as error:
                record_spending(span, "chat", name, error.spending)
                raise
            _describe_reply(span, call, reply)
            record_spending(span, "chat", name, reply.spending)
        return reply


def _labels(operation: str, model: str) -> dict[str, str]:
    return {"gen_ai.operation.name": operation, "gen_ai.request.model": model}


def _describe_call(span: Span, call: ModelCall) -> None:
    bound = {"gen_ai.request.max_tokens": call.max_output_tokens}
    span.set_attributes({KIND: "LLM", **bound, **call.labels})
    if captures_content():
        span.set_attribute("gen_ai.input.messages", _messages("user", call.prompt))


def _describe_reply(span: Span, call: ModelCall, reply: ModelReply) -> None:
    known: dict[str, str | float | None] = {
        "gen_ai.provider.name": reply.provider,
        "gen_ai.response.model": reply.model,
        "gen_ai.response.id": reply.response_id,
        "gen_ai.request.temperature": call.temperature,
        "gen_ai.request.seed": call.seed,
    }
    for name, value in known.items():
        if value is not None and name.rpartition(".")[2] not in reply.left_out:
            span.set_attribute(name, value)
    span.set_attribute("gen_ai.response.finish_reasons", [reply.finish_reason])
    if captures_content():
        span.set_attribute("gen_ai.output.messages", _messages("assistant", reply.text))


def _messages(role: str, text: str) -> str:
    parts = [{"type": "text", "content": text}]
    return json.dumps([{"role": role, "parts": parts}])
