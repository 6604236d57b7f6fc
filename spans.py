"""A run's spans, rebuilt from its history with the ids that its workers gave them.

The spans of a workflow come from replaying it: their ids are the same on every replay, and their
times are those of its events. The spans of model calls are kept with the results of activities.
`mull traces` shows or sends them all. As a program, which a worker starts, this file sends the
spans of each run that has ended and whose workers may have died before they sent theirs.
"""

import asyncio
import json
import logging
import os
import re
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import opentelemetry.sdk.trace
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin, create_tracer_provider
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowInstance

import service
from activities.language_model import port as models
from adapters import QUEUES
from mull import telemetry
from mull.connection import POLLED_WITHIN, connect, expanded, pollers
from mull.text import terminal_safe
from worker import HELPERS, WORKFLOWS
from workflows.base import Inbound

BATCH = 512
# Activities on the models' queue that call no model.
WITHOUT_CALLS = frozenset({"retrieve", "describe_model", "examine"})
# How far back the first look at ended runs goes, the seconds between looks, and between runs.
LOOK_BACK = timedelta(minutes=15)
BETWEEN_LOOKS, BETWEEN_RUNS = 10.0, 0.005
# A worker that lived this long after a task has sent its spans: that takes a fifth of a second and
# the receiver's time. Look at a run once its workers must have polled again after that. The server
# also notes when a poll ends, up to its length later, even if the worker is dead or paused.
FLUSHED = timedelta(seconds=5)
BEGAN_WITHIN = 2 * POLLED_WITHIN
SETTLED = BEGAN_WITHIN + FLUSHED
# The events that a worker writes, after which it sends the spans of that task.
DONE = tuple(
    f"{name}_event_attributes"
    for name in ("workflow_task_completed", "activity_task_completed", "activity_task_failed")
)

logger = logging.getLogger("mull.spans")


class Rebuilt(NamedTuple):
    """The spans of one execution of a workflow, rebuilt from its history.

    `still_open` are spans that have begun and not ended. `lost` counts the attempts of model calls
    that the history does not contain, by name. `error` says why rebuilding failed. `children` are
    the workflow and run ids of child runs; `following` is the run id of the execution that it
    continued as.
    """

    workflow_id: str
    run_id: str
    error: str | None = None
    spans: Sequence[ReadableSpan] = ()
    still_open: Sequence[ReadableSpan] = ()
    lost: Mapping[str, int] = {}
    children: Sequence[tuple[str, str]] = ()
    following: str | None = None


class _Collected(SpanProcessor, UnsandboxedWorkflowRunner):
    """Collects the spans of a replayed workflow: those that are open, by id, and those that ended.

    It ignores spans while `paused`: after the history's last task, and at an eviction.
    """

    def __init__(self) -> None:
        self.paused = False
        self.open: dict[int, ReadableSpan] = {}
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: ReadableSpan, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Collect a span that begins."""
        if not self.paused:
            self.open[span.context.span_id] = span

    def on_end(self, span: ReadableSpan) -> None:
        """Collect a span that ends."""
        if not self.paused:
            del self.open[span.context.span_id]
            self.ended.append(span)

    def create_instance(self, det: Any) -> WorkflowInstance:
        """Create a workflow, and pause at each of its tasks that the history does not contain."""
        instance = super().create_instance(det)
        activate = instance.activate

        def watched(task: Any) -> Any:
            evicts = any(job.HasField("remove_from_cache") for job in task.jobs)
            self.paused = evicts or not task.is_replaying
            return activate(task)

        vars(instance)["activate"] = watched
        return instance


def _now() -> int:
    return workflow.time_ns() if workflow.in_workflow() else time.time_ns()


class Rebuilder:
    """Rebuilds the spans of runs, or only those that a sampler accepts."""

    def __init__(self, client: Client, sampler: Sampler | None = ALWAYS_ON) -> None:
        self._client, self._collected = client, _Collected()
        ids = create_tracer_provider(id_generator=telemetry.id_generator()).id_generator()
        self._own = TracerProvider(sampler, telemetry.resource(), id_generator=ids)
        self._own.add_span_processor(self._collected)
        self._replayer = Replayer(
            workflows=[*WORKFLOWS, *HELPERS],
            workflow_runner=self._collected,
            namespace=client.namespace,
            data_converter=client.data_converter,
            interceptors=[Inbound()],
            plugins=[OpenTelemetryPlugin()],
            runtime=client.service_client.config.runtime,
            header_codec_behavior=client.config()["header_codec_behavior"],
        )

    async def whole(self, workflow_id: str, run_id: str) -> AsyncIterator[Rebuilt]:
        """Rebuild an execution, its child runs, and all that it continued as: one at a time."""
        following: str | None = run_id
        while following:
            rebuilt = await self.one(workflow_id, following)
            yield rebuilt
            for child in rebuilt.children:
                async for each in self.whole(*child):
                    yield each
            following = rebuilt.following

    async def one(
        self,
        workflow_id: str,
        run_id: str,
        complete: Callable[[Sequence[HistoryEvent]], bool] = lambda _: False,
    ) -> Rebuilt:
        """Rebuild one execution, unless its events say that its spans are complete.

        Raises RPCError if the server does not answer.
        """
        rebuilt = Rebuilt(workflow_id, run_id)
        try:
            handle = self._client.get_workflow_handle(workflow_id, run_id=run_id)
            history = await handle.fetch_history()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return rebuilt._replace(error="the server no longer has its history")
        events, collected = history.events, self._collected
        if complete(events):
            return rebuilt
        last = events[-1].workflow_execution_continued_as_new_event_attributes
        began = [one.child_workflow_execution_started_event_attributes for one in events]
        children = [one.workflow_execution for one in began if one.HasField("workflow_execution")]
        rebuilt = rebuilt._replace(
            following=last.new_execution_run_id or None,
            children=[(child.workflow_id, child.run_id) for child in children],
        )
        collected.open, collected.ended = {}, []
        try:
            # Without a completed task there is nothing to replay.
            if any(one.HasField("workflow_task_completed_event_attributes") for one in events):
                with self._tracing():
                    await self._replayer.replay_workflow(history)
            collected.paused, still_open = False, list(collected.open.values())
            lost = await self._add_calls(run_id, events)
        except Exception as error:
            # The SDK prints the whole failed task, whose first message is the reason.
            message = re.search(r'message: "(.*?)"', str(error))
            said = terminal_safe(message[1] if message else str(error), 300)
            return rebuilt._replace(error=f"this version can't replay its history: {said}")
        return rebuilt._replace(spans=collected.ended, still_open=still_open, lost=lost)

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        """Make workflows create their spans with this provider, at the times of their events."""
        provider: Any = trace.get_tracer_provider()
        usual, clock = provider.get_tracer, vars(opentelemetry.sdk.trace)
        try:
            provider.get_tracer = cache(self._own.get_tracer)
            # The SDK reads the times of spans and events here, and has no setting for that.
            clock["time_ns"] = _now
            yield
        finally:
            provider.get_tracer, clock["time_ns"] = usual, time.time_ns

    async def _add_calls(self, run_id: str, events: Sequence[HistoryEvent]) -> dict[str, int]:
        """Rebuild the spans of model calls; return the attempts missing from the history."""
        lost: dict[str, int] = {}
        waiting: dict[int, Any] = {}
        for event in events:
            known: Any = getattr(event, event.WhichOneof("attributes") or "", None)
            scheduled = getattr(known, "scheduled_event_id", 0)
            if event.HasField("activity_task_scheduled_event_attributes"):
                of_models = known.task_queue.name == models.TASK_QUEUE
                if of_models and known.activity_type.name not in WITHOUT_CALLS:
                    waiting[event.event_id] = known
            elif scheduled in waiting and (started := getattr(known, "started_event_id", 0)):
                task, start = waiting.pop(scheduled), events[started - 1]
                lost |= await self._add_call(run_id, task, start, event)
        ids = [f"{task.activity_type.name} {task.activity_id}" for task in waiting.values()]
        return lost | {f"{name}, under way or cancelled": 1 for name in ids}

    async def _add_call(
        self, run_id: str, task: Any, start: HistoryEvent, end: HistoryEvent
    ) -> dict[str, int]:
        """Rebuild the spans of an activity's last attempt; return the lost attempts."""
        tried = start.activity_task_started_event_attributes
        header = json.loads((await self._plain(task.header.fields["_tracer-data"])).data)
        traced = header.get("traceparent", "").endswith("-01")
        said = await self._said(task, end, traced)
        ids = telemetry.span_ids(run_id, task.activity_id, tried.attempt)
        for one in said:
            known = telemetry.SPAN_IDS.set(iter([int(one["id"], 16)]) if "id" in one else ids)
            span = self._own.get_tracer(telemetry.TRACER).start_span(
                one["name"],
                TraceContextTextMapPropagator().extract(header, Context()),
                SpanKind.CLIENT,
                one["attributes"],
                start_time=one.get("start", start.event_time.ToNanoseconds()),
            )
            telemetry.SPAN_IDS.reset(known)
            if "error" in one:
                span.set_status(Status(StatusCode.ERROR, one["error"]))
            span.end(one.get("end", end.event_time.ToNanoseconds()))
        count = tried.attempt - bool(said)
        why = tried.last_failure.application_failure_info.type or "reason unknown"
        return {f"{task.activity_type.name} {task.activity_id}, {why}": count} if count else {}

    async def _said(
        self, task: Any, end: HistoryEvent, traced: bool
    ) -> Sequence[Mapping[str, Any]]:
        """Return an attempt's spans as they were kept, or those that its result or failure implies.

        A failed call that was `traced` has none if its request does not name the model.
        """
        known: dict[str, Any] = {telemetry.KIND: "LLM", "gen_ai.operation.name": "chat"}
        failed: dict[str, str] = {}
        if end.HasField("activity_task_completed_event_attributes"):
            result = end.activity_task_completed_event_attributes.result
            outer = await self._decoded(result.payloads[0])
            payload = expanded(outer)
            # They are outside a compressed result, or inside if only they made it so large.
            kept = outer.metadata.get(telemetry.CALL_SPANS)
            if kept := kept or payload.metadata.get(telemetry.CALL_SPANS):
                spans: list[dict[str, Any]] = json.loads(zlib.decompress(kept))
                return spans
            said = json.loads(payload.data)
            said = said.get("receipt", said)
            model, spent = said.get("model"), said.get("spending", {})
            known |= {
                "gen_ai.response.model": model,
                "gen_ai.response.finish_reasons": [said.get("finish_reason") or "unknown"],
                "gen_ai.usage.input_tokens": spent.get("input_tokens"),
                "gen_ai.usage.output_tokens": spent.get("output_tokens"),
                "mull.cost.usd": spent.get("cost_usd"),
            }
        elif end.HasField("activity_task_failed_event_attributes"):
            failure = end.activity_task_failed_event_attributes.failure
            error = await self._client.data_converter.decode_failure(failure)
            model = json.loads((await self._plain(task.input.payloads[0])).data).get("model")
            if (model is None and traced) or not isinstance(error, ApplicationError):
                return ()
            known["error.type"], failed["error"] = error.type, error.message
        else:
            return ()
        known["gen_ai.request.model"] = model
        told = {name: value for name, value in known.items() if value is not None}
        name = telemetry.SPAN_CHAT.format(model=model or "unknown")
        return [{"name": name, "attributes": told, **failed}]

    async def _plain(self, payload: Payload) -> Payload:
        return expanded(await self._decoded(payload))

    async def _decoded(self, payload: Payload) -> Payload:
        codec = self._client.data_converter.payload_codec
        return (await codec.decode([payload]))[0] if codec else payload


async def first_of(client: Client, workflow_id: str, run_id: str) -> str:
    """Go back from an execution to the first one whose history the server still has."""
    first, earlier = run_id, run_id
    with suppress(RPCError):
        while earlier:
            handle = client.get_workflow_handle(workflow_id, run_id=earlier)
            event = await anext(handle.fetch_history_events(page_size=1))
            first = earlier
            earlier = event.workflow_execution_started_event_attributes.continued_execution_run_id
    return first


class NotTakenError(Exception):
    """A receiver did not accept spans."""


async def send(exporters: Sequence[SpanExporter], spans: Sequence[ReadableSpan]) -> None:
    """Export spans in batches. Raises NotTakenError."""
    for start in range(0, len(spans), BATCH):
        for exporter in exporters:
            batch = spans[start : start + BATCH]
            if await asyncio.to_thread(exporter.export, batch) is not SpanExportResult.SUCCESS:
                raise NotTakenError("the receiver did not accept spans")


class Workers:
    """Until when each worker is known to have lived, by its identity, which is never reused."""

    def __init__(self) -> None:
        self._lived: dict[str, datetime] = {}

    async def look(self, client: Client) -> None:
        """Note the workers that poll. Raises RPCError."""
        now = datetime.now(UTC)
        for queue in QUEUES.values():
            for identity, _ in await pollers(client, queue):
                self._lived[identity] = now - BEGAN_WITHIN

    def have_sent(self, events: Sequence[HistoryEvent]) -> bool:
        """Tell if each worker of a run outlived its last task there long enough to send its spans.

        Also note from the run how long its workers lived, which may settle this for other runs.
        """
        last = dict[str, datetime]()
        for event in events:
            if (kind := event.WhichOneof("attributes")) in DONE:
                last[getattr(event, kind).identity] = event.event_time.ToDatetime(UTC)
        known = self._lived
        sent = all(known.get(name, at) >= at + FLUSHED for name, at in last.items())
        known |= {name: max(known.get(name, at), at) for name, at in last.items()}
        return sent


async def send_ended(exporters: Sequence[SpanExporter]) -> None:
    """Send, for ever, the spans of ended executions that may lack some, with the same ids."""
    client = await connect(quiet=True)
    rebuilder, workers = Rebuilder(client, None), Workers()
    types = ", ".join(f"'{kind.__name__}'" for kind in [*WORKFLOWS, *HELPERS])
    since, sent = datetime.now(UTC) - LOOK_BACK, set[str]()
    while True:
        until = datetime.now(UTC) - SETTLED
        ended = f"CloseTime > '{since.isoformat()}' AND CloseTime <= '{until.isoformat()}'"
        try:
            await workers.look(client)
            # The last to end come first: they show until when a dead worker lived.
            async for run in client.list_workflows(f"WorkflowType IN ({types}) AND {ended}"):
                if run.run_id in sent:
                    continue
                rebuilt = await rebuilder.one(run.id, run.run_id, workers.have_sent)
                if rebuilt.error:
                    logger.warning("%s is not traced: %s", run.id, rebuilt.error)
                await send(exporters, rebuilt.spans)
                sent.add(run.run_id)
                await asyncio.sleep(BETWEEN_RUNS)
            since, sent = until, set()
        except (RPCError, NotTakenError) as error:
            logger.warning("traces could not be sent, and are rebuilt again soon: %s", error)
        await asyncio.sleep(BETWEEN_LOOKS)


def main() -> None:
    """Send until standard input ends, as it does with the worker."""
    service.set_up_log(sys.argv[1])
    telemetry.set_up(None)
    exporters = telemetry.exporters(Path(sys.argv[2]) if sys.argv[2:] else None)

    async def sending() -> None:
        asyncio.get_running_loop().add_reader(0, os._exit, 0)
        await send_ended(exporters)

    asyncio.run(sending())


if __name__ == "__main__":
    main()
