"""The Nexus service `mull`: Mull's runs for workflows of other namespaces and languages.

Each operation takes a request as a JSON object, starts its run, and completes with the run's record
as JSON. `mull-worker --nexus` serves it; docs/deploy.md has the command that makes an endpoint.
"""

from typing import Any

import nexusrpc
from nexusrpc import HandlerError, HandlerErrorType
from nexusrpc.handler import service_handler
from temporalio.nexus import WorkflowHandle, WorkflowRunOperationContext, workflow_run_operation

from mull.agents.request import ReflexionRequest
from mull.agents.result import ReflexionResult
from mull.critique.request import ReflectOnResultRequest
from mull.critique.result import ReflectOnResultResult
from mull.loops import loop_of
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import MultiPathResult
from mull.request import Request
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import SelfConsistencyResult
from mull.turn.request import ToolTurnRequest
from mull.turn.result import ToolTurnResult
from mull.workflow import SERVICE, started_as


@nexusrpc.service(name=SERVICE)
class Service:
    """The operations, by name and type."""

    ask: nexusrpc.Operation[SelfConsistencyRequest, SelfConsistencyResult]
    reflect: nexusrpc.Operation[ReflectOnResultRequest, ReflectOnResultResult]
    agent: nexusrpc.Operation[MultiPathRequest, MultiPathResult]
    turn: nexusrpc.Operation[ToolTurnRequest, ToolTurnResult]
    reflexion: nexusrpc.Operation[ReflexionRequest, ReflexionResult]


async def _begin(
    context: WorkflowRunOperationContext, kind: type[Request], request: Request
) -> WorkflowHandle[Any]:
    """Start the run of an operation; an operation that is tried again has the same run."""
    # Null is decoded as it is, whatever type is asked for.
    if not isinstance(request, kind):
        said = f'give one JSON object, such as {{"{kind.subject_field}": "..."}}'
        raise HandlerError(said, type=HandlerErrorType.BAD_REQUEST, retryable_override=False)
    loop = loop_of(request)
    return await context.start_workflow(
        loop.workflow,
        request,
        id=f"{loop.command}-{context.request_id}",
        result_type=loop.result,
        **started_as(request),
    )


@service_handler(service=Service)
class ServiceHandler:
    """Starts the run of each operation, on the task queue and in the namespace of the worker."""

    @workflow_run_operation
    async def ask(
        self, context: WorkflowRunOperationContext, request: SelfConsistencyRequest
    ) -> WorkflowHandle[SelfConsistencyResult]:
        """Ask a question until its answers converge."""
        return await _begin(context, SelfConsistencyRequest, request)

    @workflow_run_operation
    async def reflect(
        self, context: WorkflowRunOperationContext, request: ReflectOnResultRequest
    ) -> WorkflowHandle[ReflectOnResultResult]:
        """Have a draft judged and revised."""
        return await _begin(context, ReflectOnResultRequest, request)

    @workflow_run_operation
    async def agent(
        self, context: WorkflowRunOperationContext, request: MultiPathRequest
    ) -> WorkflowHandle[MultiPathResult]:
        """Research documents, or write code that is tested."""
        return await _begin(context, MultiPathRequest, request)

    @workflow_run_operation
    async def turn(
        self, context: WorkflowRunOperationContext, request: ToolTurnRequest
    ) -> WorkflowHandle[ToolTurnResult]:
        """Answer a message with tools."""
        return await _begin(context, ToolTurnRequest, request)

    @workflow_run_operation
    async def reflexion(
        self, context: WorkflowRunOperationContext, request: ReflexionRequest
    ) -> WorkflowHandle[ReflexionResult]:
        """Try a task in episodes, and learn from those that fail."""
        return await _begin(context, ReflexionRequest, request)
