"""The calls of a self-consistency run: samples of a wave, and comparisons of answers."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.language_model.port import TASK_QUEUE
    from activities.sampling import MeaningTask, SampleTask, SamplingActivities
    from reflection.sampling.answers import Clusters
    from reflection.sampling.loop import Sampling
    from reflection.sampling.request import SelfConsistencyRequest
    from reflection.sampling.result import Response
    from workflows.calls import Calls, attempts_of, call_times, explain, outcome, permanent, settle
    from workflows.people import People

# Comparisons are many, and the beginning of a question tells what its answers are about.
QUESTION_CHARACTERS = 2_000
NOT_COMPARED = "the run ended before every answer was compared"


class Samples:
    """The calls for samples that are under way, by index.

    Those of a wave are started together, awaited, and cancelled when nobody needs them any more.
    """

    def __init__(self, request: SelfConsistencyRequest) -> None:
        self._request = request
        self._times = call_times(request.sample_timeout_seconds, request.max_attempts)
        self._calls: dict[int, workflow.ActivityHandle[Response]] = {}

    @property
    def waiting(self) -> int:
        """The calls that have not ended."""
        return sum(not call.done() for call in self._calls.values())

    def start(self, index: int) -> None:
        """Ask for the sample with this index."""
        request = self._request
        self._calls[index] = workflow.start_activity_method(
            SamplingActivities.sample_answer,
            SampleTask(
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
                max_attempts=request.max_attempts,
            ),
            task_queue=TASK_QUEUE,
            summary=f"sample {index + 1} of at most {request.max_responses}",
            **self._times,
        )

    async def settle(self, people: People) -> int:
        """Wait for the calls, or for a failure that holds for every one; return the cancelled."""
        return await settle(self._calls.values(), people, lambda: self._hopeless() is not None)

    def collect(self) -> list[Response]:
        """Hand over the responses that came, in the order of their index, and forget the calls.

        Raises ApplicationError for a failure that holds for every call.
        """
        failure = self._hopeless()
        if failure is not None:
            raise failure
        calls, self._calls = self._calls, {}
        came = [(index, outcome(call)) for index, call in sorted(calls.items())]
        return [
            self._failed(index, reply) if isinstance(reply, ActivityError) else reply
            for index, reply in came
            if reply is not None
        ]

    def _hopeless(self) -> ApplicationError | None:
        for call in self._calls.values():
            reply = outcome(call)
            failure = permanent(reply) if isinstance(reply, ActivityError) else None
            if failure is not None:
                return failure
        return None

    def _failed(self, index: int, error: ActivityError) -> Response:
        return Response(
            index=index,
            answer=None,
            timestamp=workflow.now(),
            error=explain(error),
            model=self._request.model,
            attempts=attempts_of(error, self._request.max_attempts),
        )


class Meanings:
    """The clusters of a run, and the model that is asked where canonical forms differ."""

    def __init__(self, sampling: Sampling, calls: Calls, people: People) -> None:
        self._request = sampling.request
        self._sampling = sampling
        self._calls = calls
        self._people = people
        self._clusters = Clusters(self._request.answers)
        self._times = call_times(self._request.sample_timeout_seconds, self._request.max_attempts)

    async def named(self, response: Response) -> Response:
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
            name = await self._match(canonical, written)
        if name is None:
            name = self._clusters.open(canonical, written)
        return response.model_copy(update={"vote": name})

    async def _match(self, canonical: str, written: str) -> str | None:
        for name in self._clusters.names:
            if self._people.over:
                self._sampling.warn(NOT_COMPARED)
                return None
            if await self._same(name, written):
                return self._clusters.join(canonical, name)
        return None

    async def _same(self, earlier: str, new: str) -> bool:
        task = MeaningTask(
            question=self._request.question[:QUESTION_CHARACTERS],
            earlier=earlier,
            new=new,
            model=self._request.model,
            timeout_seconds=self._request.sample_timeout_seconds,
            max_attempts=self._request.max_attempts,
        )
        asked = SamplingActivities.compare_meaning, task, "do two answers mean the same?"
        meaning = await self._calls.make(*asked, self._times)
        if meaning is None:
            self._sampling.warn(NOT_COMPARED)
            return False
        if isinstance(meaning, ActivityError):
            failure = permanent(meaning)
            if failure is not None:
                raise failure
            made = attempts_of(meaning, self._request.max_attempts)
            self._sampling.pay("evaluating", None, made)
            self._sampling.warn(f"two answers could not be compared: {explain(meaning)}")
            return False
        self._sampling.pay("evaluating", meaning.spending, meaning.attempts)
        return meaning.same is True
