"""How a worker is served: its log, metrics, health, and version."""

import asyncio
import json
import logging
import os
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from threading import Thread
from typing import Any

from opentelemetry import trace
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.exceptions import ApplicationError
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)
from temporalio.service import RPCError
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerDeploymentConfig,
    WorkflowInstance,
    WorkflowInstanceDetails,
)

from activities.doctor import DEPLOYMENT, versions_in_use
from activities.language_model.port import TASK_QUEUE as MODEL_QUEUE
from activities.sandbox.port import TASK_QUEUE as CODE_QUEUE
from mull import telemetry
from mull.connection import address, pollers
from mull.errors import ConfigurationError
from mull.keys import UnreadableError
from mull.text import terminal_safe

UNVERSIONED = "unversioned"
PROBE_SECONDS = 2.0
# An import of LiteLLM blocks the event loop for five seconds, and on a busy machine for longer.
STUCK_SECONDS = 60.0
COUNT_SECONDS = 30.0
REBUILDS = "MULL_REBUILD_TRACES"
AGAIN_SECONDS = 10.0
# What calls of models fail with most.
USUAL = ("AuthenticationError", "InternalServerError", "RateLimitError", "Unreachable")
WAITING = f"{telemetry.NEEDS_REVIEW.name} = true AND ExecutionStatus = 'Running'"

logger = logging.getLogger("mull.worker")


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object on one line, with the run and the span that it is of."""

    def format(self, record: logging.LogRecord) -> str:
        """Write what is known of the record; what is not known is left out."""
        told: dict[str, Any] = vars(record)
        about = told.get("temporal_activity") or told.get("temporal_workflow") or {}
        if not about and activity.in_activity():
            about = vars(activity.info())
        elif not about and workflow.in_workflow():
            about = vars(workflow.info())
        now = trace.get_current_span().get_span_context()
        span = now if now.is_valid else telemetry.failed_in.get() or now
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "workflow_id": about.get("workflow_id"),
            "run_id": about.get("run_id") or about.get("workflow_run_id"),
            "workflow_type": about.get("workflow_type"),
            "activity_type": about.get("activity_type"),
            "attempt": about.get("attempt"),
            "trace_id": f"{span.trace_id:032x}" if span.is_valid else None,
            "span_id": f"{span.span_id:016x}" if span.is_valid else None,
            "exception": self.formatException(record.exc_info) if record.exc_info else None,
        }
        return json.dumps({name: value for name, value in line.items() if value is not None})


def set_up_log(style: str) -> None:
    """Log to standard error, as text or as JSON, and silence what is ordinary.

    That is about calls in flight when a run ends, late cancellations, and LiteLLM's types.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    if style == "json":
        logging.getLogger().handlers[0].setFormatter(JsonLines())
        logging.captureWarnings(True)
        sys.excepthook = lambda *error: logger.critical("the worker failed", exc_info=error)
        workflow.logger.workflow_info_on_message = False
        activity.logger.activity_info_on_message = False
    else:
        logging.getLogger("temporalio.activity").addFilter(in_one_line)
    silence_ordinary()
    for chatty in ("LiteLLM", "httpx", "httpcore", "httpx2", "httpcore2"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def silence_ordinary() -> None:
    """Silence expected warnings of the SDK and of LiteLLM."""
    logging.getLogger("temporalio.activity").addFilter(is_worth_reading)
    for name in ("worker._workflow", "worker._workflow_instance", "core"):
        logging.getLogger(f"temporalio.{name}").addFilter(is_news)
    # A run that leaves the cache ends its spans in another context, which does no harm.
    logging.getLogger("opentelemetry.context").setLevel(logging.CRITICAL)
    for said in ("Cannot find activity to cancel", "Items? .* on TypedDict class"):
        warnings.filterwarnings("ignore", said, UserWarning)


def is_worth_reading(record: logging.LogRecord) -> bool:
    """Return False for the log record of a cancelled activity."""
    error = record.exc_info[1] if record.exc_info else None
    cancelled = isinstance(error, asyncio.CancelledError)
    return not (cancelled and str(record.msg).startswith("Completing activity as failed"))


def in_one_line(record: logging.LogRecord) -> bool:
    """Put an error that says what is wrong, such as an unknown model, on the line of its record."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, ApplicationError):
        said = f"{record.getMessage()}: {terminal_safe(str(error), 1_000)}"
        record.msg, record.args, record.exc_info = said, (), None
    return True


# The newest runs that wait for a key: their tasks fail again and again.
_UNREADABLE: deque[str] = deque(maxlen=10_000)


def is_news(record: logging.LogRecord) -> bool:
    """Make one line of a run that can't be read, the first time, and of each signal of one.

    Returns False for a record to leave out.
    """
    error = record.exc_info[1] if record.exc_info else None
    while error is not None and not isinstance(error, UnreadableError):
        error = error.__cause__
    said = record.getMessage()
    run = said.rpartition("run ID ")[2]
    if error is None or (run in _UNREADABLE and not run.endswith("dropping the signal")):
        # The SDK's core tells of each task again, and at length.
        again = "Failing workflow task" in said and any(one in said for one in tuple(_UNREADABLE))
        return error is None and not again
    _UNREADABLE.append(run)
    record.msg, record.args, record.exc_info = f"{said}: {error}", (), None
    return True


def set_up_runtime(metrics: tuple[str, int] | None) -> None:
    """Create the SDK's runtime with a Prometheus endpoint, and with its log in the worker's.

    Raises ConfigurationError if the endpoint can't be opened.
    """
    core, endpoint = logging.getLogger("temporalio.core"), None
    written = LoggingConfig(
        TelemetryFilter("WARN", "ERROR"), LogForwardingConfig(core, append_target_to_name=False)
    )
    if metrics is not None:
        host, port = metrics
        buckets = {each.name: each.buckets for each in telemetry.METRICS if each.buckets}
        endpoint = PrometheusConfig(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            durations_as_seconds=True,
            histogram_bucket_overrides=buckets,
        )
    try:
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(written, endpoint)))
    except (RuntimeError, ValueError) as error:
        raise ConfigurationError(f"--metrics: {error}") from None


def start_metrics(client: Client, workers: Sequence[Worker], build_id: str | None) -> None:
    """Publish at 0 what alerts ask for: of a series that begins at 1, they see no increase."""
    meter = Runtime.default().metric_meter
    for worker in workers:
        config, queue = worker.config(), worker.task_queue
        at = {"namespace": client.namespace, "task_queue": queue}
        telemetry.UNSERVED.record(meter, 0, build_id=build_id or UNVERSIONED, **at)
        for kind in config["workflows"]:
            name = workflow._Definition.must_from_class(kind).name or ""
            telemetry.RUNS.record(meter, 0, stop_reason="failed", workflow_type=name, **at)
        for each in config["activities"]:
            at["activity_type"] = activity._Definition.must_from_callable(each).name or ""
            for error in USUAL if queue == MODEL_QUEUE else ():
                telemetry.FAILURES.record(meter, 0, error_type=error, **at)
            if queue == CODE_QUEUE:
                telemetry.OUTCOMES.record(meter, 0, outcome="sandbox_error", **at)


async def count_reviews(client: Client) -> None:
    """Set the gauge of runs that wait for a person, every 30 seconds, for ever."""
    while True:
        try:
            found = await client.count_workflows(WAITING)
        except RPCError as error:
            logger.warning("runs that wait for a person are not counted: %s", error.message)
        else:
            meter = Runtime.default().metric_meter
            telemetry.REVIEWS_WAITING.record(meter, found.count, namespace=client.namespace)
        await asyncio.sleep(COUNT_SECONDS)


async def watch_versions(client: Client, queues: Collection[str]) -> None:
    """Set the gauge of versions without a worker on a queue, every 30 seconds, for ever."""
    meter, at = Runtime.default().metric_meter, {"namespace": client.namespace}
    told: set[tuple[str, str]] = set()
    while True:
        try:
            used = await versions_in_use(client, queues)
        except RPCError as error:
            logger.warning("versions without a worker are not looked for: %s", error.message)
        else:
            waiting = {(each.build_id, queue) for each in used for queue in each.unserved}
            for one in (told := told | waiting):
                about = {"build_id": one[0], "task_queue": one[1], **at}
                telemetry.UNSERVED.record(meter, one in waiting, **about)
        await asyncio.sleep(COUNT_SECONDS)


async def rebuild_traces(traces: Path | None, style: str) -> None:
    """Keep a process that sends the spans of ended runs again; it ends when this one does."""
    if traces is None and not os.environ.get(telemetry.ENDPOINT):
        logger.warning("%s is set, but spans go nowhere: set %s", REBUILDS, telemetry.ENDPOINT)
        return
    program = Path(__file__).with_name("spans.py")
    command = [sys.executable, str(program), style, *([str(traces)] if traces else [])]
    while True:
        # Its standard input ends with this process, and it with that.
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        code = await process.wait()
        logger.warning("rebuilding traces ended with exit code %d, and begins again", code)
        await asyncio.sleep(AGAIN_SECONDS)


class Health(ThreadingHTTPServer):
    """Tells by HTTP whether this worker is alive and ready, from a thread of its own.

    Alive: the event loop ran in the last minute. Ready: the server has this worker among those that
    poll each of its queues, the server answers, and `draining` is not set.
    """

    daemon_threads = True
    # The base's asks a name server for this machine's name.
    server_bind = TCPServer.server_bind

    def __init__(self, place: tuple[str, int]) -> None:
        """Listen. Raises ConfigurationError if that is not possible."""
        host, port = place
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__(place, _Probe)
        except OSError as error:
            said = f"--health: can't listen on {host}, port {port}: {error.strerror}"
            raise ConfigurationError(said) from None
        self.draining = self._reached = False
        self._seen = time.monotonic()
        Thread(target=self.serve_forever, daemon=True).start()

    def good(self, path: str) -> bool | None:
        """Tell whether the worker is what a path asks; None for any other path."""
        if path == "/readyz":
            return self._reached and not self.draining
        if path == "/healthz":
            return time.monotonic() - self._seen < STUCK_SECONDS
        return None

    async def watch(self, client: Client, serves: asyncio.Event) -> None:
        """Look after the server, every two seconds, for ever; `serves` is set by `announce`."""
        while True:
            self._seen = time.monotonic()
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    answers = await client.service_client.check_health()
                self._reached = answers and serves.is_set()
            except (RPCError, TimeoutError):
                self._reached = False
            await asyncio.sleep(PROBE_SECONDS if self._reached else PROBE_SECONDS / 20)


class _Probe(BaseHTTPRequestHandler):
    timeout = 5
    server: Health

    def do_GET(self) -> None:
        good = self.server.good(self.path.partition("?")[0])
        body = b"not found\n" if good is None else b"ok\n" if good else b"unavailable\n"
        self.send_response(404 if good is None else 200 if good else 503)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log no probe."""


def deployment(build_id: str) -> WorkerDeploymentConfig:
    """Make the version that a worker serves as: a run ends on the one that it began on."""
    version, pinned = WorkerDeploymentVersion(DEPLOYMENT, build_id), VersioningBehavior.PINNED
    return WorkerDeploymentConfig(
        version, use_worker_versioning=True, default_versioning_behavior=pinned
    )


class MovingRunner(UnsandboxedWorkflowRunner):
    """Runs workflows outside the SDK's sandbox; those of the types `moving` change their version.

    The server refuses a behaviour from a worker without a version, so no decorator can state it.
    """

    def __init__(self, moving: Collection[type]) -> None:
        self._moving = moving

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Make the instance of a run."""
        if det.defn.cls in self._moving:
            moves = replace(det.defn, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
            det = replace(det, defn=moves)
        return super().create_instance(det)


async def announce(client: Client, queues: Sequence[str], serves: asyncio.Event) -> None:
    """Say that this worker serves, once the server has it among those that poll each queue."""
    unpolled = list(queues)
    while unpolled:
        with suppress(RPCError, TimeoutError):
            async with asyncio.timeout(PROBE_SECONDS):
                if client.identity in dict(await pollers(client, unpolled[-1])):
                    unpolled.pop()
                    continue
        await asyncio.sleep(PROBE_SECONDS / 20)
    logger.info("serving %s at %s", ", ".join(queues), address())
    serves.set()


async def say_version(client: Client, build_id: str) -> None:
    """Log how to send new runs to this version, unless the server does so already."""
    try:
        used = await versions_in_use(client, ())
    except RPCError as error:
        logger.warning("the versions of the workers are not known: %s", error.message)
        return
    if build_id not in {each.build_id for each in used if each.status != "draining"}:
        logger.warning(
            "build id %s is neither current nor ramping: no new run starts on this worker until "
            "`temporal worker deployment set-current-version --deployment-name %s --build-id %s`",
            *(build_id, DEPLOYMENT, build_id),
        )
