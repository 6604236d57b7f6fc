"""The Temporal server: connecting to it, its pollers, and how long a worker may be silent."""

import asyncio
import ctypes
import os
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from socket import gethostname
from typing import Any, Self, get_args
from urllib.parse import urlsplit
from uuid import uuid4

from pydantic import ValidationError
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.failure.v1 import Failure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import RawValue
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    ActivitySerializationContext,
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultPayloadConverter,
    PayloadCodec,
    PayloadConverter,
    SerializationContext,
)
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode

from mull import queues
from mull.drafts import Result
from mull.errors import ConfigurationError, MullError, NoServerError, RequestError
from mull.keys import (
    CLEAR,
    CODEC,
    ENCODED_FAILURE,
    ENCRYPTED,
    ENCRYPTION_KEYS,
    REFUSED,
    UnreadableError,
)
from mull.request import INVALID, Request, explain, parse_request, short_name, told
from mull.text import EXTRA, terminal_safe

TASK_QUEUE = queues.WORKFLOWS
CALIBRATION = "MULL_CALIBRATION"
DEFAULT_ADDRESS = "localhost:7233"
START_ONE = "Start one with `mull dev`, or set TEMPORAL_ADDRESS."
# The SDK's name of the update, and the query, that read a workflow's stream.
STREAM_POLL = "__temporal_workflow_stream_poll"


class _RequestConverter(PydanticJSONPlainPayloadConverter):
    """Pydantic's converter, but requests and results show only set fields; requests are strict."""

    def to_payload(self, value: Any) -> Payload | None:
        return super().to_payload(told(value) if isinstance(value, Request | Result) else value)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        if _request_of(type_hint) is None:
            return super().from_payload(payload, type_hint)
        return parse_request(type_hint, payload.data)


# Shared, so that what it learns about types is kept: the SDK makes a converter for every task.
_JSON = _RequestConverter()


def _request_of(type_hint: type | None) -> type[Request] | None:
    """Return the request among the types that a payload may have."""
    for kind in (type_hint, *get_args(type_hint)):
        if isinstance(kind, type) and issubclass(kind, Request):
            return kind
    return None


class _MullFailureConverter(DefaultFailureConverter):
    """Temporal's converter, without the stack trace of non-retryable errors."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        super().to_failure(exception, payload_converter, failure)
        if isinstance(exception, ApplicationError) and exception.non_retryable:
            failure.stack_trace = ""

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """Raise UnreadableError where the default would show a failure without its message."""
        if failure.encoded_attributes.metadata.get("encoding") in {ENCRYPTED, REFUSED}:
            raise UnreadableError(failure.encoded_attributes)
        return super().from_failure(failure, payload_converter)


class _EncodedFailureConverter(_MullFailureConverter):
    """The same, but messages and stack traces go where a codec encrypts them."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        super().to_failure(exception, payload_converter, failure)
        # The server drops the encrypted parts of an attempt's failure of over 4 KiB.
        said = {"message": failure.message, "stack_trace": failure.stack_trace[-1_000:]}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([said])[0])
        failure.message, failure.stack_trace = ENCODED_FAILURE, ""


# A whole payload, as the Go SDK's ZlibCodec writes it, so that codec servers with that read it too.
ZLIB = b"binary/zlib"
COMPRESSED_OVER = 16_000
# Larger payloads are not compressed, and the server refuses them. This also keeps a stranger's
# small payload from filling a worker's memory.
EXPANDED_BYTES = 8_000_000


def _compressed(payload: Payload) -> Payload:
    """Compress a payload of over 16 kB, unless that makes it no smaller."""
    done = payload.metadata.get("encoding") == ZLIB
    if done or not COMPRESSED_OVER < payload.ByteSize() < EXPANDED_BYTES:
        return payload
    # Every replay compresses again: the usual level takes four times as long, and saves a sixth.
    data = zlib.compress(payload.SerializeToString(deterministic=True), zlib.Z_BEST_SPEED)
    smaller = Payload(metadata={"encoding": ZLIB}, data=data)
    return smaller if smaller.ByteSize() < payload.ByteSize() else payload


def expanded(payload: Payload) -> Payload:
    """Expand a compressed payload, and return any other as it is. Raises ValueError."""
    if payload.metadata.get("encoding") != ZLIB:
        return payload
    reading = zlib.decompressobj()
    data = reading.decompress(payload.data, EXPANDED_BYTES)
    if not reading.eof:
        raise ValueError(f"cut short, or larger than {EXPANDED_BYTES:,} bytes once expanded")
    return Payload.FromString(data)


class _MullPayloadConverter(CompositePayloadConverter):
    """Temporal's converters; a request that can't be decoded fails its workflow at once.

    Anything else that can't be decoded, such as a result of another version of the code, fails only
    the workflow task, so that the run continues once the right code, or key, is deployed.

    Only large inputs and results of activities are compressed, since other clients and the Web UI
    read requests, results, queries and updates.
    """

    def __init__(self) -> None:
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(*usual, _JSON)  # the last one of an encoding counts
        self._of_activity = False
        self._other: Self | None = None

    def with_context(self, context: SerializationContext) -> Self:
        """Return a converter that compresses only for activities."""
        if isinstance(context, ActivitySerializationContext) == self._of_activity:
            return self
        if self._other is None:
            # Kept, since the SDK asks for one at every task.
            self._other = type(self)()
            self._other._of_activity = not self._of_activity
        return self._other

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        payloads = super().to_payloads(values)
        return [_compressed(payload) for payload in payloads] if self._of_activity else payloads

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[Any]:
        kind = next(filter(None, map(_request_of, type_hints or ())), None)
        for payload in payloads:
            if (coded := payload.metadata.get("encoding")) in {ENCRYPTED, REFUSED}:
                error = UnreadableError(payload)
                if coded == ENCRYPTED or not (kind or len(payloads) > 1):
                    raise error
                # A key that comes later would not make this a request.
                raise ApplicationError(str(error), type="Refused", non_retryable=True)
        try:
            # A small start that expands to a large one would hold up all other runs.
            given = payloads if kind and not self._of_activity else map(expanded, payloads)
            return super().from_payloads([*given], type_hints)
        except Exception as error:
            if kind is None and type_hints is None and len(payloads) > 1:
                # More inputs than anything here takes: the one that gets them will report it.
                return [RawValue(payload) for payload in payloads]
            if kind is None and self._of_activity and isinstance(error, ValidationError):
                # An activity's result: pydantic's own error would fail the run.
                raise ValueError(f"this can't be read here: {explain(error)}") from None
            if kind is None:
                raise
            first = next(iter(payloads), Payload())
            encoding = first.metadata.get("encoding", b"nothing").decode("utf-8", "replace")
            said = (
                f"encoded as {short_name(encoding)}, which the worker can't read: use json/plain,"
                f" or set {CODEC} for the worker to the codec that wrote it"
            )
            said = explain(error) if isinstance(error, ValueError) else said
            raise ApplicationError(
                f"malformed {kind.__name__}: {said}", type=INVALID, non_retryable=True
            ) from None


SILENT = LoggingConfig(filter="off")

DATA_CONVERTER = DataConverter(
    payload_converter_class=_MullPayloadConverter, failure_converter_class=_MullFailureConverter
)


def address() -> str:
    """Return the server's address from Temporal's configuration; localhost:7233 by default."""
    return ClientConfig.load_client_connect_config().get("target_host", DEFAULT_ADDRESS)


def namespace() -> str:
    """Return the namespace from Temporal's configuration; `default` by default."""
    return ClientConfig.load_client_connect_config().get("namespace", "default")


def chosen_codec() -> PayloadCodec | None:
    """Return the codec that the environment asks for, or None. Raises ConfigurationError."""
    if os.environ.get(CLEAR, "read") != "read":
        raise ConfigurationError(f'{CLEAR}: expected "read", or unset it')
    if not {ENCRYPTION_KEYS, CODEC} & os.environ.keys():
        return None
    try:
        from mull.encryption import codec_from

        return codec_from(os.environ)
    except ModuleNotFoundError:
        said = f"encryption needs cryptography: {EXTRA.format('encryption')}"
        raise ConfigurationError(said) from None
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def strict(client: Client) -> Client:
    """Return a worker's client: with keys, and without MULL_CLEAR, it refuses clear payloads."""
    codec: Any = client.data_converter.payload_codec
    if not hasattr(codec, "strict") or os.environ.get(CLEAR) == "read":
        return client
    config, codec = client.config(), copy(codec)
    codec.strict = True
    config["data_converter"] = replace(client.data_converter, payload_codec=codec)
    return Client(**config)


@cache
def _silent_runtime(_process: int) -> Runtime:
    """Make the one runtime of a process, without log lines, and keep it for ever.

    The SDK frees it by waiting for its threads: those of a parent are not in a process that was
    forked, and at the interpreter's end one may wait for the interpreter.
    """
    runtime = Runtime(telemetry=TelemetryConfig(logging=SILENT))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(runtime))
    return runtime


async def connect(*, quiet: bool = False, only_code: bool = False) -> Client:
    """Connect by Temporal's standard environment configuration (TEMPORAL_ADDRESS, profiles, TLS).

    `quiet` turns off the SDK's log lines about retried calls, which would clutter a terminal.
    With `only_code` the keys for the payloads of untrusted code are enough.

    Raises NoServerError if no server answers, and ConfigurationError.
    """
    converter, codec = DATA_CONVERTER, chosen_codec()
    if codec is not None:
        if not only_code and getattr(codec, "only_code", False):
            said = f"{ENCRYPTION_KEYS} has only keys for code: this needs one with another id"
            raise ConfigurationError(said)
        converter = replace(
            DATA_CONVERTER, payload_codec=codec, failure_converter_class=_EncodedFailureConverter
        )
    try:
        config = ClientConfig.load_client_connect_config()
    except Exception as error:
        # The SDK raises plain exceptions. For a broken file the message quotes the line, which may
        # contain a key.
        named = str(error) if "rofile" in str(error) and "|" not in str(error) else "a broken file"
        raise ConfigurationError(f"Temporal's configuration: {terminal_safe(named, 200)}") from None
    config.setdefault("target_host", DEFAULT_ADDRESS)
    if "://" in config["target_host"]:
        raise ConfigurationError("TEMPORAL_ADDRESS: expected host:port, without a scheme")
    try:
        return await Client.connect(
            **config,
            data_converter=converter,
            # In a container that starts again, the host's name and the process's id are the same.
            identity=f"{os.getpid()}@{gethostname()}@{uuid4().hex[:8]}",
            plugins=[OpenTelemetryPlugin()],
            runtime=_silent_runtime(os.getpid()) if quiet else None,
        )
    except RuntimeError as error:
        reason = str(error)
        more = "" if "refused" in reason.lower() else f" ({terminal_safe(reason, 200)})"
        said = f"no Temporal server answers at {config['target_host']}{more}"
        bare = urlsplit(f"//{config['target_host']}").port is None
        advice = "Add the port to the address, such as :7233." if bare else START_ONE
        raise NoServerError(said, advice) from None
    except ValueError as error:
        raise ConfigurationError(
            f"Temporal's configuration: {terminal_safe(str(error), 200)}"
        ) from None


# A poll lasts at most a minute, so a live worker has polled within this time.
POLLED_WITHIN = timedelta(seconds=70)
# The time that model calls in flight have once their worker has to stop. They are paid for, so they
# have as long as an attempt at the defaults (workflows/calls.py).
GRACE_SECONDS = 495
HEARTBEATS, SILENCE_SECONDS = "MULL_HEARTBEAT_SECONDS", 5.0
# Temporal Cloud bills each heartbeat that reaches it. These are its addresses.
CLOUD, CLOUD_SILENCE_SECONDS = (".tmprl.cloud", ".temporal.io"), 30.0
LEAST_SILENCE, MOST_SILENCE = 1.0, 300.0
BEAT_SECONDS = 1.0


async def pollers(client: Client, queue: str) -> set[tuple[str, str]]:
    """Return identity and build id (or "") of each live worker on a queue. Raises RPCError."""
    since, found = datetime.now(UTC) - POLLED_WITHIN, set()
    for kind in (TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY):
        asked = DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
        for each in (await client.workflow_service.describe_task_queue(asked)).pollers:
            if each.last_access_time.ToDatetime(UTC) > since:
                found.add((each.identity, each.deployment_options.build_id))
    return found


async def unserved(client: Client, queues: Sequence[str]) -> list[str]:
    """List the task queues that no worker has polled recently. Raises RPCError."""
    return [queue for queue in queues if not await pollers(client, queue)]


@contextmanager
def cancellable() -> Iterator[None]:
    """Raise CancelledError where a task is cancelled that sends an update.

    The SDK raises an error of its own, which neither asyncio.timeout nor asyncio.run knows.
    """
    try:
        yield
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise asyncio.CancelledError from error


@contextmanager
def translated(identity: str | None = None) -> Iterator[None]:
    """Raise what the server refuses, or what can't be decrypted here, as an error of Mull's.

    `identity` is the run that it is about. Raises NoServerError, ConfigurationError, RequestError
    and MullError.
    """
    try:
        yield
    except UnreadableError as error:
        raise ConfigurationError(str(error)) from error
    except RPCError as error:
        raise refused(error, identity) from None


def refused(error: RPCError, identity: str | None = None) -> MullError:
    """Say in Mull's terms what the server refused."""
    said, status = error.message.rstrip("."), error.status
    if status is RPCStatusCode.NOT_FOUND and "amespace" in said:
        make = "temporal operator namespace create --namespace NAME"
        return ConfigurationError(said, f"Set TEMPORAL_NAMESPACE to another, or make it: {make}")
    if status is RPCStatusCode.NOT_FOUND and "already completed" in said:
        return RequestError(f"the run {identity} has already ended".replace(" None", ""))
    if status is RPCStatusCode.NOT_FOUND:
        which = f"no run has the id {identity}" if identity else "no run has this id"
        return RequestError(which, "List the runs with `mull list`.", "id")
    if status is RPCStatusCode.INVALID_ARGUMENT:
        return RequestError(f"the Temporal server refused: {said}")
    if status is RPCStatusCode.UNAVAILABLE:
        said = "the connection to the Temporal server was lost"
        return NoServerError(said, "Runs continue once it is back.")
    return MullError(f"the Temporal server refused: {said}")


@cache
def silence() -> float:
    """Return the seconds of silence after which a worker's calls are given up.

    Workflows may call this, since a replay does not compare time-outs. Raises ConfigurationError.
    """
    if (given := os.environ.get(HEARTBEATS)) is None:
        host = address().rpartition(":")[0].rstrip(".").lower()
        return CLOUD_SILENCE_SECONDS if host.endswith(CLOUD) else SILENCE_SECONDS
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not LEAST_SILENCE <= seconds <= MOST_SILENCE:
        said = f"expected seconds from {LEAST_SILENCE:.0f} to {MOST_SILENCE:.0f}"
        raise ConfigurationError(f"{HEARTBEATS}: {said}")
    return seconds


@asynccontextmanager
async def heartbeating() -> AsyncIterator[Callable[..., None]]:
    """Heartbeat while the block runs, so that cancellations arrive.

    The first heartbeat comes after half of the allowed silence, so shorter calls cost none. Of the
    others the SDK sends one in 80 % of it; they are many, so that a busy worker may miss some.

    Yields a function that sets the heartbeat's details, from any thread.
    """
    allowed = activity.info().heartbeat_timeout
    seconds = silence() if allowed is None else allowed.total_seconds()
    loop, newest = asyncio.get_running_loop(), tuple[object, ...]()
    beating: asyncio.TimerHandle

    def tell(*details: object) -> None:
        nonlocal newest
        newest = details

    def beat() -> None:
        nonlocal beating
        activity.heartbeat(*newest)
        beating = loop.call_later(min(BEAT_SECONDS, seconds / 5), beat)

    beating = loop.call_later(seconds / 2, beat)
    try:
        yield tell
    finally:
        beating.cancel()
