"""The activities of self-consistency: sample an answer, and compare two answers' meaning."""

from datetime import UTC, datetime

from temporalio import activity

from activities.language_model.port import (
    LanguageModel,
    ModelCall,
    ModelReply,
    SampleError,
    Usual,
    ask,
    calls_made,
)
from mull.request import Framing, Record
from mull.run import Spending
from mull.sampling.answers import read_answer
from mull.sampling.prompts import (
    build_meaning_prompt,
    build_prompt,
    meaning_schema,
    parse_meaning,
    parse_reply,
    sample_schema,
)
from mull.sampling.request import AnswerKind
from mull.sampling.result import Response
from mull.text import cut_encoded, cut_with_note, encoded_size, well_formed


class SampleTask(Record):
    """What to ask for one sample; `index` counts from 0."""

    index: int
    question: str
    answers: AnswerKind
    prompt_template: str | None
    model: str | None
    temperature: float
    seed: int | None
    max_output_tokens: int | None
    timeout_seconds: float | None
    answer_bytes: int = 2_000
    reasoning_bytes: int = 20_000
    max_attempts: int = 5
    framing: Framing = Framing()


class MeaningTask(Record):
    """Two answers to a question, for a model to compare."""

    question: str
    earlier: str
    new: str
    model: str | None
    timeout_seconds: float | None
    max_attempts: int = 5


class Meaning(Record):
    """Whether two answers mean the same (None if the reply could not be read), and the cost."""

    same: bool | None
    spending: Spending
    attempts: int = 1


class SamplingActivities:
    """The model calls of self-consistency."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @activity.defn
    async def sample_answer(self, task: SampleTask) -> Response:
        """Ask once and parse the reply.

        A reply that can't be used or read is a response without a vote. Raises ApplicationError,
        non-retryable if no such call can work.
        """
        prompt = build_prompt(task.question, task.prompt_template, task.answers)
        call = ModelCall(
            model=task.model,
            prompt=prompt,
            messages=task.framing.chat(prompt),
            options=task.framing.options,
            temperature=task.temperature,
            seed=task.seed,
            max_output_tokens=task.max_output_tokens,
            timeout_seconds=task.timeout_seconds,
            usual=Usual(tokens=1_024),
            reply_schema=sample_schema(task.answers),
            labels={"mull.sample.index": task.index, "mull.attempt": activity.info().attempt},
        )
        try:
            reply = await ask(self._model, call, task.max_attempts)
        except SampleError as error:
            return Response(
                index=task.index,
                answer=None,
                timestamp=datetime.now(UTC),
                error=f"{error.kind}: {error}",
                model=task.model,
                seed=task.seed,
                finish_reason=error.finish_reason,
                attempts=calls_made(),
                spending=error.spending,
            )
        return _read(task, reply)

    @activity.defn
    async def compare_meaning(self, task: MeaningTask) -> Meaning:
        """Ask whether two answers mean the same. Raises as `sample_answer` does."""
        call = ModelCall(
            model=task.model,
            prompt=build_meaning_prompt(task.question, task.earlier, task.new),
            temperature=0.0,
            seed=0,
            max_output_tokens=None,
            timeout_seconds=task.timeout_seconds,
            usual=Usual(tokens=512),
            reply_schema=meaning_schema(),
        )
        try:
            reply = await ask(self._model, call, task.max_attempts)
        except SampleError as error:
            same, spending = None, error.spending
        else:
            same, spending = parse_meaning(reply.text), reply.spending
        return Meaning(same=same, spending=spending, attempts=calls_made())


def _read(task: SampleTask, reply: ModelReply) -> Response:
    parsed = parse_reply(reply.text)
    answer, error, vote = parsed.answer if parsed else None, None, None
    if answer is None:
        error = "the reply contains no answer"
    elif (size := encoded_size(answer)) > task.answer_bytes:
        error = f"an answer of {size:,} bytes is too long"
    elif (vote := read_answer(task.answers, answer)) is None:
        error = f"the answer can't be read as {task.answers}"
    reasoning = parsed.reasoning if parsed else well_formed(reply.text)
    return Response(
        index=task.index,
        answer=None if answer is None else cut_encoded(answer, task.answer_bytes),
        vote=vote,
        reasoning=cut_with_note(reasoning, task.reasoning_bytes),
        timestamp=datetime.now(UTC),
        error=error,
        model=reply.model,
        seed=None if "seed" in reply.left_out else task.seed,
        left_out=reply.left_out,
        finish_reason=reply.finish_reason,
        max_output_tokens=reply.max_output_tokens,
        attempts=calls_made(),
        spending=reply.spending,
    )
