"""Mull's runs from a workflow of your own: each call is a child workflow, and returns its record.

    import mull.workflow

    @workflow.defn
    class Triage:
        @workflow.run
        async def run(self, ticket: str) -> str | None:
            asked = f"Does this need a person today? {ticket}"
            found = await mull.workflow.ask(asked, preset="thrifty")
            return found.final_answer

Your worker needs no converter, plugin or setting for this. The request goes to task queue `mull` of
your namespace as plain JSON, and its reply is read by the loop's record. A codec of your worker
encodes both: docs/python.md says what works then. With `endpoint`, a Nexus endpoint, the run is in
the namespace behind that.

A run is cancelled with the call that waits for it, by `asyncio.timeout` too, and with its parent.
What ends it without a record fails your workflow, unless you catch it:

    ApplicationError            its type says why
        InvalidRequest          the request is refused, and nothing was started
        Doubtful                with `check`: the result is not to be built on
    WorkflowAlreadyStartedError a run with this `id` goes on, or has a result
    ChildWorkflowError          the run failed, was cancelled or timed out, as its `cause` says
    NexusOperationError         the same, with an `endpoint`
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple, NoReturn, TypeVar, Unpack

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    NexusOperationError,
    is_cancelled_exception,
)
from temporalio.nexus import WorkflowHandle

# Else the SDK's sandbox would load all of these anew for each run of the user's workflow.
with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel, ValidationError
    from pydantic_core import to_json

    from mull import queues
    from mull.agents.request import ReflexionRequest
    from mull.agents.result import ReflexionResult
    from mull.critique.request import ReflectOnResultRequest
    from mull.critique.result import ReflectOnResultResult
    from mull.drafts import Result
    from mull.keys import ENCODED_FAILURE, ENCRYPTED, MADE_BY, REFUSED, UnreadableError
    from mull.keywords import AgentFields, AskFields, ReflectFields, ReflexionFields, TurnFields
    from mull.loops import loop_of
    from mull.multipath.request import MultiPathRequest
    from mull.multipath.result import MultiPathResult
    from mull.request import INVALID, Request, explain, short_name, told
    from mull.sampling.request import SelfConsistencyRequest
    from mull.sampling.result import SelfConsistencyResult
    from mull.text import cut_encoded, terminal_safe
    from mull.turn.request import ToolTurnRequest
    from mull.turn.result import ToolTurnResult

RequestT = TypeVar("RequestT", bound=Request)
ResultT = TypeVar("ResultT", bound=Result)

SERVICE = "mull"  # the name of the Nexus service
# Of its parent's id, which may take all of the server's 1,000 bytes.
PARENT_BYTES = 200
SUMMARY_COLUMNS = 100
ENCODED = (
    "why it ended is encrypted: give this worker Mull's keys and mull.plugin.EncryptionPlugin,"
    " as docs/python.md describes"
)


class How(NamedTuple):
    """How a run is started, beside its request: under which id, where, and for how long."""

    id: str | None
    check: bool
    endpoint: str | None
    execution_timeout: timedelta | None


async def ask(
    question: str | SelfConsistencyRequest,
    *,
    id: str | None = None,
    check: bool = False,
    endpoint: str | None = None,
    execution_timeout: timedelta | None = None,
    **fields: Unpack[AskFields],
) -> SelfConsistencyResult:
    """Ask a question until its answers converge.

    `execution_timeout` is the longest that the run may take, with its waits for people.
    """
    request = _request(SelfConsistencyRequest, question, fields)
    how = How(id, check, endpoint, execution_timeout)
    return await _run(request, SelfConsistencyResult, how)


async def reflect(
    query: str | ReflectOnResultRequest,
    *,
    id: str | None = None,
    check: bool = False,
    endpoint: str | None = None,
    execution_timeout: timedelta | None = None,
    **fields: Unpack[ReflectFields],
) -> ReflectOnResultResult:
    """Have a draft judged and revised.

    `execution_timeout` is the longest that the run may take, with its waits for people.
    """
    request = _request(ReflectOnResultRequest, query, fields)
    how = How(id, check, endpoint, execution_timeout)
    return await _run(request, ReflectOnResultResult, how)


async def agent(
    prompt: str | MultiPathRequest,
    *,
    id: str | None = None,
    check: bool = False,
    endpoint: str | None = None,
    execution_timeout: timedelta | None = None,
    **fields: Unpack[AgentFields],
) -> MultiPathResult:
    """Research documents, or write code that is tested.

    `execution_timeout` is the longest that the run may take, with its waits for people.
    """
    request = _request(MultiPathRequest, prompt, fields)
    how = How(id, check, endpoint, execution_timeout)
    return await _run(request, MultiPathResult, how)


async def turn(
    message: str | ToolTurnRequest,
    *,
    id: str | None = None,
    check: bool = False,
    endpoint: str | None = None,
    execution_timeout: timedelta | None = None,
    **fields: Unpack[TurnFields],
) -> ToolTurnResult:
    """Answer a message with tools.

    `execution_timeout` is the longest that the run may take, with its waits for people.
    """
    request = _request(ToolTurnRequest, message, fields)
    how = How(id, check, endpoint, execution_timeout)
    return await _run(request, ToolTurnResult, how)


async def reflexion(
    task: str | ReflexionRequest,
    *,
    id: str | None = None,
    check: bool = False,
    endpoint: str | None = None,
    execution_timeout: timedelta | None = None,
    **fields: Unpack[ReflexionFields],
) -> ReflexionResult:
    """Try a task in episodes, and learn from failures.

    `execution_timeout` is the longest that the run may take, with its waits for people.
    """
    request = _request(ReflexionRequest, task, fields)
    how = How(id, check, endpoint, execution_timeout)
    return await _run(request, ReflexionResult, how)


def _request(kind: type[RequestT], given: Any, fields: Mapping[str, Any]) -> RequestT:
    """Make the request, or fail the workflow: a plain error would retry its task for ever."""
    # The sandbox may have loaded what the caller gives anew: its classes are not those here.
    if not isinstance(given, BaseModel):
        known = told({kind.subject_field: given, **fields})
    elif fields:
        raise refusal(f"{', '.join(fields)}: give fields, or a request that has them")
    else:
        known = given.model_dump(exclude_unset=True)
    try:
        return kind.model_validate(known)
    except ValidationError as error:
        raise refusal(explain(error, kind.model_fields)) from None


async def _run(request: Request, kind: type[ResultT], how: How) -> ResultT:
    """Start a run and wait for its record, which is checked where that was asked for."""
    if not workflow.in_workflow():
        raise RuntimeError("mull.workflow is for workflows: elsewhere call mull.connect()")
    start = _child if how.endpoint is None else _operation
    try:
        identity, reply = await start(request, how)
    except (ChildWorkflowError, NexusOperationError) as error:
        task = asyncio.current_task()
        if is_cancelled_exception(error) and task is not None and task.cancelling():
            # What waits for a time is told so by this: asyncio.timeout, and asyncio.wait_for.
            raise asyncio.CancelledError from error
        _explain(error)
    record = _read(kind, reply)
    record._id = identity
    if how.check and (doubt := record.doubt):
        said = f"the run {identity} is not to be built on: {doubt}"
        raise ApplicationError(said, type="Doubtful", non_retryable=True)
    return record


def refusal(said: str) -> ApplicationError:
    """Make the failure of a request that is refused here, of the same type as one by a worker."""
    return ApplicationError(said, type=INVALID, non_retryable=True)


def started_as(request: Request) -> dict[str, Any]:
    """Make the options that every start of this request has."""
    subject = getattr(request, request.subject_field)
    return {
        "task_timeout": request.task_timeout(),
        "static_summary": terminal_safe(subject, SUMMARY_COLUMNS),
    }


def _sent(request: Request) -> RawValue:
    """Write a request as plain JSON, whatever converter the caller's worker has."""
    metadata = {"encoding": b"json/plain", MADE_BY: b"workflow"}
    return RawValue(Payload(metadata=metadata, data=to_json(told(request))))


async def _child(request: Request, how: How) -> tuple[str, RawValue]:
    loop = loop_of(request)
    # Ids are never encrypted, so they have no words of the request.
    parent = cut_encoded(workflow.info().workflow_id, PARENT_BYTES)
    identity = how.id or f"{parent}-{loop.command}-{workflow.uuid4().hex[:8]}"
    reply = await workflow.execute_child_workflow(
        loop.workflow,
        _sent(request),
        id=identity,
        task_queue=queues.WORKFLOWS,
        result_type=RawValue,
        execution_timeout=how.execution_timeout,
        parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
        # A run that has a result is never paid for again.
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
        **started_as(request),
    )
    return identity, reply


async def _operation(request: Request, how: How) -> tuple[str, RawValue]:
    if how.id is not None:
        raise refusal("id: not with an endpoint, where the service makes the id")
    client = workflow.create_nexus_client(service=SERVICE, endpoint=str(how.endpoint))
    operation = await client.start_operation(
        loop_of(request).command,
        _sent(request),
        output_type=RawValue,
        schedule_to_close_timeout=how.execution_timeout,
        summary=started_as(request)["static_summary"],
    )
    if operation.operation_token is None:
        raise refusal(f"endpoint: {how.endpoint} does not lead to Mull's service")
    token = WorkflowHandle[Any].from_token(operation.operation_token)
    return token.workflow_id, await operation


def _explain(error: ChildWorkflowError | NexusOperationError) -> NoReturn:
    """Raise the error again, or one that says how to read it."""
    cause = error.cause
    while cause is not None:
        if getattr(cause, "message", str(cause)) == ENCODED_FAILURE:
            kind = getattr(cause, "type", None)
            raise ApplicationError(ENCODED, type=str(kind), non_retryable=True) from error
        cause = cause.__cause__
    raise error


def _read(kind: type[ResultT], reply: RawValue) -> ResultT:
    """Read a record from a reply.

    An error fails the workflow's task alone, so that what was paid for is not lost: the run goes on
    once a worker can read it.
    """
    payload = reply.payload
    encoding = payload.metadata.get("encoding", b"nothing")
    if encoding in {ENCRYPTED, REFUSED}:
        raise UnreadableError(payload)
    if encoding != b"json/plain":
        said = short_name(encoding.decode("utf-8", "replace"))
        raise ValueError(f"the result of a run is encoded as {said}, which can't be read here")
    try:
        return kind.model_validate_json(payload.data)
    except ValidationError as error:
        # As pydantic's own error it might be among those that fail the workflow.
        raise ValueError(f"the result of a run can't be read here: {explain(error)}") from None
