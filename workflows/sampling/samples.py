"""The calls of one wave: started together, awaited, cancelled when nobody needs them any more."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.language_model.port import TASK_QUEUE
    from activities.sampling import SampleTask, SamplingActivities
    from reflection.sampling.request import SelfConsistencyRequest
    from reflection.sampling.result import Response
    from workflows import failures
    from workflows.calls import Patience, settle
    from workflows.timeouts import call_times

Call = workflow.ActivityHandle[Response]


def ended(call: Call) -> bool:
    """Tell whether a call ended by itself, with a reply or an error."""
    return call.done() and not call.cancelled()


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
            **self._times.options,
        )

    async def settle(self, patience: Patience) -> int:
        """Wait for the calls, or for a failure that holds for every one; return the cancelled."""
        return await settle(self._calls.values(), patience, lambda: self._hopeless() is not None)

    def collect(self) -> list[Response]:
        """Hand over the responses that came, in the order of their index, and forget the calls.

        Raises ApplicationError for a failure that holds for every call.
        """
        failure = self._hopeless()
        if failure is not None:
            raise failure
        calls, self._calls = self._calls, {}
        return [self._response(index, call) for index, call in sorted(calls.items()) if ended(call)]

    def _hopeless(self) -> ApplicationError | None:
        for call in self._calls.values():
            error = call.exception() if ended(call) else None
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
            answer_bytes=request.answer_bytes,
            reasoning_bytes=request.reasoning_bytes,
        )
