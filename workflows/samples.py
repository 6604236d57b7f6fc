"""The calls of one wave: started together, awaited, cancelled when nobody needs them any more."""

from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.sampling import TASK_QUEUE, SampleTask, SamplingActivities
    from reflection.convergence.request import SelfConsistencyRequest
    from reflection.convergence.result import Response
    from workflows import failures
    from workflows.timeouts import call_times

Call = workflow.ActivityHandle[Response]


class Samples:
    """The calls for samples that are under way, by index."""

    def __init__(self, request: SelfConsistencyRequest) -> None:
        self._request = request
        self._times = call_times(request.sample_timeout_seconds, request.max_attempts)
        self._calls: dict[int, Call] = {}

    @property
    def waiting(self) -> int:
        """The calls that have not ended."""
        return sum(not call.done() for call in self._calls.values())

    def start(self, index: int) -> None:
        """Ask for the sample with this index."""
        self._calls[index] = workflow.start_activity_method(
            SamplingActivities.sample_answer,
            self._task(index),
            task_queue=TASK_QUEUE,
            summary=f"sample {index + 1} of at most {self._request.max_responses}",
            start_to_close_timeout=self._times.attempt,
            schedule_to_close_timeout=self._times.whole,
            heartbeat_timeout=self._times.heartbeat,
            retry_policy=self._times.retry,
        )

    async def settle(self, interrupted: Callable[[], bool], seconds: float | None) -> int:
        """Wait for all calls, an interruption, the time, or a failure that holds for every call.

        Return how many calls were cancelled, for nobody needs them any more.
        """
        try:
            await workflow.wait_condition(
                lambda: interrupted() or self.waiting == 0 or self._hopeless() is not None,
                timeout=None if seconds is None else timedelta(seconds=seconds),
            )
        except TimeoutError:
            workflow.logger.info("the deadline passed during a wave")
        finally:
            cancelled = self._cancel()
        return cancelled

    def collect(self) -> list[Response]:
        """Hand over the responses that came, in the order of their index, and forget the calls.

        Raises ApplicationError for a failure that holds for every call.
        """
        failure = self._hopeless()
        if failure is not None:
            raise failure
        calls, self._calls = self._calls, {}
        return [
            self._response(index, call)
            for index, call in sorted(calls.items())
            if call.done() and not call.cancelled()
        ]

    def _cancel(self) -> int:
        waiting = {index: call for index, call in self._calls.items() if not call.done()}
        for index, call in waiting.items():
            call.cancel()
            del self._calls[index]
        return len(waiting)

    def _hopeless(self) -> ApplicationError | None:
        for call in self._calls.values():
            error = call.exception() if call.done() else None
            failure = failures.permanent(error) if isinstance(error, ActivityError) else None
            if failure is not None:
                return failure
        return None

    def _response(self, index: int, call: Call) -> Response:
        error = call.exception()
        if error is None:
            return call.result()
        if not isinstance(error, ActivityError):
            raise error
        return Response(
            index=index,
            answer=None,
            timestamp=workflow.now(),
            error=failures.explain(error),
            model=self._request.model,
            attempts=self._request.max_attempts,
        )

    def _task(self, index: int) -> SampleTask:
        request = self._request
        return SampleTask(
            index=index,
            question=request.question,
            answers=request.answers,
            prompt_template=request.prompt_template,
            model=request.model,
            temperature=request.temperature,
            seed=None if request.seed is None else request.seed + index,
            max_output_tokens=request.max_output_tokens,
            timeout_seconds=request.sample_timeout_seconds,
        )
