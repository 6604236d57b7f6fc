"""Which cluster an answer joins: by its canonical form, or by asking a model what it means."""

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.asking import TASK_QUEUE
    from activities.sampling import Meaning, MeaningTask, SamplingActivities
    from reflection.convergence.request import SelfConsistencyRequest
    from reflection.convergence.result import Response
    from reflection.convergence.sampling import Sampling
    from reflection.sampling.answers import Clusters
    from workflows import failures
    from workflows.calls import Patience, settle
    from workflows.timeouts import call_times


# Comparisons are many, and the beginning of a question tells what its answers are about.
QUESTION_CHARACTERS = 2_000
NOT_COMPARED = "the run ended before every answer was compared"


class Meanings:
    """The clusters of a run, and the model that is asked where canonical forms differ."""

    def __init__(self, request: SelfConsistencyRequest, sampling: Sampling) -> None:
        self._request = request
        self._sampling = sampling
        self._clusters = Clusters(request.answers)
        self._times = call_times(request.sample_timeout_seconds, request.max_attempts)

    async def named(self, response: Response, patience: Patience) -> Response:
        """Return the response with its vote named by the cluster that it joins.

        The kind `llm` asks about each earlier cluster in turn and joins the first that means the
        same; a reply that can't be read or had counts as different, and so does an answer that is
        not compared because the run is to end. Raises ApplicationError for a failure that holds
        for every call.
        """
        canonical, written = response.vote, response.answer
        if canonical is None or written is None:
            return response
        name = self._clusters.find(canonical)
        if name is None and self._request.answers == "llm":
            name = await self._match(canonical, written, patience)
        if name is None:
            name = self._clusters.open(canonical, written)
        return response.model_copy(update={"vote": name})

    async def _match(self, canonical: str, written: str, patience: Patience) -> str | None:
        for name in self._clusters.names:
            if patience.over:
                self._sampling.warn(NOT_COMPARED)
                return None
            if await self._same(name, written, patience):
                return self._clusters.join(canonical, name)
        return None

    async def _same(self, earlier: str, new: str, patience: Patience) -> bool:
        call = self._start(earlier, new)
        self._sampling.cancelled += await settle([call], patience)
        if not call.done() or call.cancelled():
            self._sampling.warn(NOT_COMPARED)
            return False
        error = call.exception()
        if error is None:
            return self._counted(call.result())
        if not isinstance(error, ActivityError):
            raise error
        failure = failures.permanent(error)
        if failure is not None:
            raise failure
        self._sampling.retried += self._request.max_attempts
        self._sampling.warn(f"two answers could not be compared: {failures.explain(error)}")
        return False

    def _counted(self, meaning: Meaning) -> bool:
        self._sampling.evaluating.append(meaning.spending)
        self._sampling.retried += meaning.attempts - 1
        return meaning.same is True

    def _start(self, earlier: str, new: str) -> workflow.ActivityHandle[Meaning]:
        return workflow.start_activity_method(
            SamplingActivities.compare_meaning,
            MeaningTask(
                question=self._request.question[:QUESTION_CHARACTERS],
                earlier=earlier,
                new=new,
                model=self._request.model,
                timeout_seconds=self._request.sample_timeout_seconds,
            ),
            task_queue=TASK_QUEUE,
            summary="do two answers mean the same?",
            **self._times.options,
        )
