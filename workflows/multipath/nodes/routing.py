"""The node `route`: M, as the request says or as the model chooses."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.language_model.port import TASK_QUEUE
    from activities.multipath import MultiPathActivities, Routed, RouteTask
    from reflection.multipath.loop import Run
    from reflection.multipath.result import Routing
    from workflows.multipath.nodes.asking import AGAIN, Asking, Ended, Lost
    from workflows.timeouts import call_times


class Router:
    """The choice between research and code."""

    def __init__(self, run: Run, asking: Asking) -> None:
        self._run = run
        self._request = run.request
        self._asking = asking

    async def route(self) -> Ended | None:
        """Choose the path; where the reply can't be read twice, that is the outcome.

        Raises ApplicationError where the model can't be asked at all: nothing is there to keep.
        """
        if self._request.mode is not None:
            known = Routing(
                mode=self._request.mode, reason="the request names it", chosen_by="request"
            )
            self._run.routed(known)
            return None
        reply = await self._asking.read("evaluating", self._start)
        if isinstance(reply, Ended):
            return reply
        if isinstance(reply, Lost):
            raise reply.failure
        self._run.routed(reply.routing)
        return None

    def _start(self, error: str | None) -> workflow.ActivityHandle[Routed]:
        request = self._request
        return workflow.start_activity_method(
            MultiPathActivities.route,
            RouteTask(
                prompt=request.prompt,
                model=request.model,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                error=error,
            ),
            task_queue=TASK_QUEUE,
            summary=f"research or code{AGAIN if error else ''}",
            **call_times(request.call_timeout_seconds, request.max_attempts).options,
        )
