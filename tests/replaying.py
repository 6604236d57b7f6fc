"""Every run that a test's worker has had is replayed as the worker ends."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Replayer,
    Worker,
    WorkflowInboundInterceptor,
)

# The last task of other runs may have ended in no history, and so can't be compared with one.
CLOSED = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
}


class Noted(Interceptor):
    """Notes the runs of one worker."""

    def __init__(self) -> None:
        self.runs = runs = dict[tuple[str, str], None]()

        class Noting(WorkflowInboundInterceptor):
            async def execute_workflow(self, given: ExecuteWorkflowInput) -> Any:
                info = workflow.info()
                runs[info.workflow_id, info.run_id] = None
                return await super().execute_workflow(given)

        self._kind = Noting

    def workflow_interceptor_class(self, _: object) -> type[WorkflowInboundInterceptor]:
        return self._kind


class Replaying(SimplePlugin):
    """Replays what ended: no step may depend on what stayed in a worker's memory.

    A worker without a cache would replay each task, but the SDK's loses runs that wait for a local
    activity then (https://github.com/temporalio/sdk-rust/pull/1482).
    """

    errors: ClassVar[list[BaseException]] = []

    def __init__(self) -> None:
        super().__init__("replaying")

    def configure_worker(self, config: Any) -> Any:
        return {**config, "interceptors": [*config["interceptors"], Noted()]}

    async def run_worker(self, worker: Worker, serve: Callable[[Worker], Awaitable[None]]) -> None:
        """Replay them at its end, and keep an error in `errors`: the SDK drops those of plugins."""
        await serve(worker)
        *_, noted = worker.config(active_config=True)["interceptors"]
        assert isinstance(noted, Noted)
        try:
            for each in tuple(noted.runs):
                await self._replay(worker.config(), *each)
        except BaseException as error:
            self.errors.append(error)
            raise

    async def _replay(self, given: Any, workflow_id: str, run_id: str) -> None:
        client = given["client"]
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        if history.events[-1].event_type not in CLOSED:
            return
        await Replayer(
            workflows=given["workflows"],
            namespace=client.namespace,
            data_converter=client.data_converter,
            workflow_runner=given["workflow_runner"],
            interceptors=given["interceptors"],
            plugins=[OpenTelemetryPlugin()],
        ).replay_workflow(history)
