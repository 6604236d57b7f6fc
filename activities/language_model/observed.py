"""A span and metrics for every call of a model, by OpenTelemetry's GenAI conventions."""

import asyncio
import json
import time

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


class ObservedModel:
    """A language model whose every call makes a `chat {model}` span and counts in two metrics.

    Prompts and replies are in the span only if content is switched on.
    """

    def __init__(self, model: LanguageModel, default_model: str | None) -> None:
        self._model = model
        self._default_model = default_model
        meter = metrics.get_meter(TRACER)
        self._duration = meter.create_histogram("gen_ai.client.operation.duration", unit="s")
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", unit="{token}")

    async def complete(self, call: ModelCall) -> ModelReply:
        """Make the call inside its span. Raises what the model raises."""
        name = call.model or self._default_model or "unknown"
        started = time.perf_counter()
        tracer = trace.get_tracer(TRACER)
        with tracer.start_as_current_span(
            SPAN_CHAT.format(model=name), kind=SpanKind.CLIENT, record_exception=False
        ) as span:
            _describe_call(span, name, call)
            try:
                reply = await self._model.complete(call)
            except (ModelError, asyncio.CancelledError) as error:
                kind = error.kind if isinstance(error, ModelError) else "cancelled"
                span.set_attribute("error.type", kind)
                span.set_status(Status(StatusCode.ERROR, str(error)))
                seconds = time.perf_counter() - started
                self._duration.record(seconds, {**_labels(name), "error.type": kind})
                if isinstance(error, SampleError):
                    self._spent(span, name, error.spending)
                raise
            _describe_reply(span, call, reply)
            self._spent(span, name, reply.spending)
        self._duration.record(time.perf_counter() - started, _labels(name))
        return reply

    def _spent(self, span: Span, name: str, spending: Spending) -> None:
        if spending.cost_usd is not None:
            span.set_attribute("mull.cost.usd", spending.cost_usd)
        sides = (("input", spending.input_tokens), ("output", spending.output_tokens))
        for side, tokens in sides:
            if tokens is not None:
                span.set_attribute(f"gen_ai.usage.{side}_tokens", tokens)
                self._tokens.record(tokens, {**_labels(name), "gen_ai.token.type": side})


def _labels(name: str) -> dict[str, str]:
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": name}


def _describe_call(span: Span, name: str, call: ModelCall) -> None:
    bound = {"gen_ai.request.max_tokens": call.max_output_tokens}
    span.set_attributes({KIND: "LLM", **_labels(name), **bound, **call.labels})
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
