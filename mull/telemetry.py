"""Names of spans, attributes and metrics, their providers, and a server's search attributes.

All names are in this file, since the GenAI conventions are still in development. The OpenTelemetry
SDK is imported only where a provider is created, so that workflows can import the names.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import SpanContext
from temporalio import activity
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.common import MetricMeter, RawValue, SearchAttributeKey
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from mull.request import Record
from mull.sampling.probability import CalibrationMap, Setup, nearest

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from temporalio.client import Client
    from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider

TRACER = "mull"
FREED_SECONDS = 10.0

SPAN_RUN = "invoke_workflow {type}"
SPAN_WAVE = "mull.wave"
SPAN_DECISION = "mull.decision"
SPAN_CHAT = "chat {model}"
SPAN_EVALUATION = "evaluate {criteria}"
SPAN_REFLECTION = "mull.reflect"
SPAN_TOOL = "execute_tool {tool}"
SPAN_TURN_REFLECTION = "mull.turn.reflect"
SPAN_EPISODE = "mull.episode"
SPAN_STEP = "mull.step"
SPAN_PLAN = "mull.plan"
SPAN_EXECUTE = "mull.execute"
SPAN_EVALUATE = "mull.evaluate"
SPAN_TRAINING = "mull.train {stage}"

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
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages")

# In the metadata of an activity's result: the spans of its model calls, as JSON that zlib packed.
CALL_SPANS = "mull-spans"

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

KEYWORD_CHARACTERS = 160  # of up to 12 bytes: the server ends a run whose keyword has over 2,048
_KEYWORDS = (STOP_REASON, CONSENSUS, UNCERTAINTY, ENTROPY_LEVEL, MODEL)
_NUMBERS = (CONFIDENCE, SCORE, COST_USD, SAMPLES, REVISIONS, TOKENS)
SEARCH_ATTRIBUTES: dict[str, str] = {
    key.name: key.indexed_value_type.name.title() for key in (*_KEYWORDS, *_NUMBERS, NEEDS_REVIEW)
}
"""Each search attribute's name and type, as `temporal operator search-attribute` takes them."""


class Metric(NamedTuple):
    """A metric on the SDK's meter, which records nothing during a replay.

    `labels` are Mull's own; the SDK adds `namespace`, `task_queue` and the type of the workflow or
    activity. `buckets`, if any, are the bounds of a histogram's buckets.
    """

    kind: Literal["counter", "gauge", "histogram_float"]
    name: str
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def record(self, meter: MetricMeter, value: float = 1, **labels: str) -> None:
        """Add to a counter, set a gauge, or put a value into a histogram."""
        if self.kind == "counter":
            meter.create_counter(self.name, self.description).add(int(value), labels)
        elif self.kind == "gauge":
            meter.create_gauge(self.name, self.description).set(int(value), labels)
        else:
            meter.create_histogram_float(self.name, self.description).record(value, labels)


_SHARES = tuple(round(0.05 * step, 2) for step in range(1, 21))
_DOLLARS = (0.00001, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)

RUNS = Metric("counter", "mull_runs", "Runs that ended", ("stop_reason",))
CALLS_SAVED = Metric("counter", "mull_calls_saved", "Calls that stopping early saved")
CONFIDENCES = Metric("histogram_float", "mull_confidence", "Agreement, 0 to 1", (), _SHARES)
PROBABILITIES = Metric(
    "histogram_float", "mull_probability", "Probability of being right, 0 to 1", (), _SHARES
)
SCORES = Metric("histogram_float", "mull_score", "Scores of results, 0 to 1", (), _SHARES)
_RETURNS = (0.0, *_SHARES, 2.0, 5.0, 10.0, 100.0)
RETURNS = Metric("histogram_float", "mull_return", "Returns of agents' best episodes", (), _RETURNS)
USED_TOKENS = Metric("counter", "mull_tokens", "Tokens of model calls", ("model", "direction"))
COSTS = Metric("histogram_float", "mull_cost_usd", "US dollars of a call", ("model",), _DOLLARS)
FAILURES = Metric(
    "counter", "mull_activity_failures", "Failed attempts of activities", ("error_type",)
)
OUTCOMES = Metric("counter", "mull_sandbox_outcomes", "How programs ended", ("outcome",))
REVIEWS_WAITING = Metric("gauge", "mull_reviews_waiting", "Runs that wait for a person")
UNSERVED = Metric(
    "gauge", "mull_version_unserved", "1: a version's calls on a queue wait", ("build_id",)
)

_SECONDS = (1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
STAGES = Metric(
    "histogram_float",
    "mull_training_seconds",
    "Seconds of a training's stage",
    ("stage",),
    _SECONDS,
)

MEASURES = {
    "confidence": CONFIDENCES,
    "probability_right": PROBABILITIES,
    "score": SCORES,
    "return": RETURNS,
}
"""The measures of a result, by their names in its memo."""

METRICS = (
    RUNS, CALLS_SAVED, CONFIDENCES, PROBABILITIES, SCORES, RETURNS, USED_TOKENS, COSTS, FAILURES,
    OUTCOMES, REVIEWS_WAITING, UNSERVED, STAGES,
)  # fmt: skip
"""All of Mull's metrics on the SDK's meter; the OTLP metrics of GenAI are apart from these."""


def activity_meter() -> MetricMeter:
    """Return the meter of the current activity; outside of activities, one that does not record."""
    return activity.metric_meter() if activity.in_activity() else MetricMeter.noop


failed_in: ContextVar[SpanContext | None] = ContextVar("failed_in", default=None)
"""The span in which the current activity failed, for log lines after its end."""


class Attempts(Interceptor):
    """Counts failed attempts of activities, and spares runs the wait for a dead worker."""

    def __init__(self, client: Client) -> None:
        self._client, self._freed = client, dict[str, float]()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """Return the interceptor of one attempt."""
        attempt = _Attempt(next)
        attempt.free = self.free
        return attempt

    async def free(self) -> None:
        """Let any worker take the next task of this call's run, and of its parent.

        The server offers it first to the worker that had the run last. If the last attempt timed
        out, that worker is dead or cut off, and would not take it. Raises RPCError.
        """
        info, client = activity.info(), self._client
        run = client.get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
        seen = (await run.describe()).raw_description
        mine = [one for one in seen.pending_activities if one.activity_id == info.activity_id]
        if not any(one.last_failure.HasField("timeout_failure_info") for one in mine):
            return
        now, about = time.monotonic(), seen.workflow_execution_info
        # Free a parent of many runs once, or it would be replayed for each of them.
        self._freed = {one: at for one, at in self._freed.items() if now < at + FREED_SECONDS}
        for each in (about.execution, about.parent_execution):
            if each.run_id and each.run_id not in self._freed:
                self._freed[each.run_id] = now
                request = ResetStickyTaskQueueRequest(namespace=client.namespace, execution=each)
                await client.workflow_service.reset_sticky_task_queue(request)


class _Attempt(ActivityInboundInterceptor):
    free: Callable[[], Awaitable[None]]

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        """Free the run before a retry; count failures, but not cancellations."""
        if activity.info().attempt > 1:
            with suppress(RPCError):
                await self.free()
        try:
            return await super().execute_activity(call)
        except Exception as error:
            kind = error.type if isinstance(error, ApplicationError) else None
            FAILURES.record(activity.metric_meter(), error_type=kind or type(error).__name__)
            failed_in.set(trace.get_current_span().get_span_context())
            raise


def captures_content(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if spans may contain prompts and replies, which is off by default."""
    return environment.get(CONTENT_VARIABLE, "").lower() in {"true", "1", "span_only"}


# The ids of the next spans in this context; without them ids are random.
SPAN_IDS: ContextVar[Iterator[int] | None] = ContextVar("span_ids", default=None)


def span_ids(run_id: str, activity_id: str, attempt: int) -> Iterator[int]:
    """Make ids for the spans of one attempt of an activity: the same ones each time."""
    for number in count():
        said = f"{run_id}/{activity_id}/{attempt}/{number}".encode()
        yield int.from_bytes(blake2b(said, digest_size=8).digest())


# The spans of the calls of models that this attempt of an activity has made.
CALLS: ContextVar[list[Any]] = ContextVar("calls")


class CallSpans(Interceptor):
    """Makes the spans of model calls so that they can be rebuilt from a run's history.

    Their ids come from run, activity and attempt, and their content is kept with the result.
    """

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """Return the interceptor of each attempt."""
        return _CallSpans(next)


class _CallSpans(ActivityInboundInterceptor):
    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        """Put the spans into the metadata of the result, which its readers ignore."""
        info, spans = activity.info(), list[Any]()
        SPAN_IDS.set(span_ids(info.workflow_run_id or "", info.activity_id, info.attempt))
        CALLS.set(spans)
        result = await super().execute_activity(call)
        said = [_said(span) for span in spans if hasattr(span, "attributes")]
        if not said:
            return result
        payload = activity.payload_converter().to_payload(result)
        written = json.dumps(said, separators=(",", ":")).encode()
        payload.metadata[CALL_SPANS] = zlib.compress(written)
        return RawValue(payload)


def _said(span: Any) -> dict[str, Any]:
    """Describe an ended span, without content; times are nanoseconds since 1970."""
    known = {name: value for name, value in span.attributes.items() if name not in CONTENT}
    failed = {} if span.status.is_unset else {"error": span.status.description}
    return {
        "name": span.name,
        "id": f"{span.get_span_context().span_id:016x}",
        "attributes": known,
        "start": span.start_time,
        "end": span.end_time,
        **failed,
    }


def resource() -> Resource:
    """Return the service that spans are from, by the standard OTEL_* variables."""
    from opentelemetry.sdk.resources import Resource

    named = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "mull")})
    # Each span's line contains it, and it never changes.
    named.to_json = cache(named.to_json)  # type: ignore[method-assign]
    return named


def exporters(traces: Path | None) -> list[SpanExporter]:
    """Make exporters to the endpoint of the standard OTEL_* variables and to the file `traces`."""
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    made: list[SpanExporter] = []
    if os.environ.get(ENDPOINT):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        made.append(OTLPSpanExporter())
    if traces is not None:
        # Buffer a whole batch, to write it at once: other processes append to the same file.
        lines = traces.open("a", encoding="utf-8", buffering=2**20)
        made.append(
            ConsoleSpanExporter(out=lines, formatter=lambda span: f"{span.to_json(indent=None)}\n")
        )
    return made


def id_generator() -> IdGenerator:
    """Make a generator of the ids in SPAN_IDS."""
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        def generate_span_id(self) -> int:
            known = SPAN_IDS.get()
            return next(known) if known else super().generate_span_id()

    return Ids()


def set_up(traces: Path | None, more: Sequence[SpanProcessor] = ()) -> ReplaySafeTracerProvider:
    """Create the process's tracer provider and register it.

    Spans go to the endpoint of the standard OTEL_* variables, to the file `traces` (one JSON object
    a line) and to the processors `more`; without any of these, spans are off. Batches are exported
    every 200 ms, which limits what a killed worker loses.
    """
    from opentelemetry.sdk.trace import sampling
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from temporalio.contrib.opentelemetry import create_tracer_provider

    batches = [BatchSpanProcessor(one, schedule_delay_millis=200) for one in exporters(traces)]
    processors = [*batches, *more]
    provider = create_tracer_provider(
        resource=resource(),
        sampler=None if processors else sampling.ALWAYS_OFF,
        id_generator=id_generator(),
    )
    # The plugin asks for a tracer at each call of an activity; making one takes as long as a span.
    provider.get_tracer = cache(provider.get_tracer)  # type: ignore[method-assign]
    for processor in processors:
        provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)
    return provider


def measure() -> MeterProvider | None:
    """Create the process's meter provider, if the standard OTEL_* variables name an endpoint."""
    if not os.environ.get(ENDPOINT):
        return None
    from opentelemetry import metrics
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
    metrics.set_meter_provider(provider)
    return provider


_VALUE_TYPES = {
    number: name.removeprefix("INDEXED_VALUE_TYPE_").title()
    for name, number in IndexedValueType.items()
}
REMEMBER_SECONDS = 60.0


async def search_attributes(client: Client) -> dict[str, str]:
    """List the registered search attributes with their types, such as Keyword. Raises RPCError."""
    request = ListSearchAttributesRequest(namespace=client.namespace)
    found = (await client.operator_service.list_search_attributes(request)).custom_attributes
    return {name: _VALUE_TYPES.get(number, "") for name, number in found.items()}


def calibration_maps(folder: str) -> Iterator[CalibrationMap]:
    """Read the maps in a folder; skip other files with a line in the log."""
    for path in Path(folder).rglob("*.json"):
        try:
            yield CalibrationMap.model_validate_json(path.read_bytes())
        except (OSError, ValueError):
            activity.logger.warning("%s is not a calibration map, and is not used", path)


class Registered(Record):
    """The search attributes of a server, the calibration maps that a run may need, and more.

    `webhook`: whether the worker notifies a webhook of runs that wait or fail.
    """

    names: list[str]
    maps: tuple[CalibrationMap, ...]
    webhook: bool = False


class ServerActivities:
    """Queries to the server, as quick local activities.

    `calibration` is a folder of calibration maps, or None; `webhook` is True if there is a webhook.
    """

    def __init__(
        self, client: Client, calibration: str | None = None, *, webhook: bool = False
    ) -> None:
        self._client, self._webhook, self._folder = client, webhook, calibration
        if calibration and next(calibration_maps(calibration), None) is None:
            activity.logger.warning("there is no calibration map in %s", calibration)
        self._asked_at = float("-inf")
        self._registered: list[str] = []

    @activity.defn
    async def registered_search_attributes(
        self, run: Setup | None = None
    ) -> list[str] | Registered:
        """List Mull's search attributes that are registered with the right type.

        The list is empty if the server refuses: runs work without search attributes. An answer is
        cached for a minute. A run that may be calibrated gets the nearest maps too, if any, so that
        its history explains its probability without a further event.
        """
        names = await self._names()
        maps = nearest(calibration_maps(self._folder), run) if run and self._folder else ()
        more = maps or self._webhook
        return Registered(names=names, maps=maps, webhook=self._webhook) if more else names

    async def _names(self) -> list[str]:
        if time.monotonic() - self._asked_at > REMEMBER_SECONDS:
            try:
                found = await search_attributes(self._client)
            except RPCError as error:
                activity.logger.warning("search attributes are not used: %s", error.message)
                return []
            self._registered = [n for n, kind in SEARCH_ATTRIBUTES.items() if found.get(n) == kind]
            self._asked_at = time.monotonic()
        return self._registered
