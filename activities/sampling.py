"""The activities of self-consistency: sample an answer, and compare two answers' meaning."""

from datetime import UTC, datetime

from temporalio import activity

from activities.language_model.port import Asked, Drawn, Heard, LanguageModel, Usual, hear
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


class SampleTask(Drawn):
    """What to ask for one sample; `index` counts from 0."""

    index: int
    question: str
    answers: AnswerKind
    prompt_template: str | None
    answer_bytes: int
    reasoning_bytes: int
    framing: Framing


class MeaningTask(Asked):
    """Two answers to a question, for a model to compare."""

    max_output_tokens: int | None = None
    question: str
    earlier: str
    new: str


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
        call = task.call(
            prompt,
            messages=task.framing.chat(prompt),
            options=task.framing.options,
            usual=Usual(tokens=1_024),
            reply_schema=sample_schema(task.answers),
            labels={"mull.sample.index": task.index},
        )
        return _read(task, await hear(self._model, call))

    @activity.defn
    async def compare_meaning(self, task: MeaningTask) -> Meaning:
        """Ask whether two answers mean the same. Raises as `sample_answer` does."""
        prompt = build_meaning_prompt(task.question, task.earlier, task.new)
        call = task.call(prompt, usual=Usual(tokens=512), reply_schema=meaning_schema())
        heard = await hear(self._model, call)
        same = None if heard.text is None else parse_meaning(heard.text)
        return Meaning(same=same, spending=heard.receipt.spending, attempts=heard.receipt.attempts)


def _read(task: SampleTask, heard: Heard) -> Response:
    answer, vote, error, reasoning = None, None, heard.error, ""
    if heard.text is not None:
        parsed = parse_reply(heard.text)
        reasoning = parsed.reasoning if parsed else well_formed(heard.text)
        answer = parsed.answer if parsed else None
        if answer is None:
            error = "the reply contains no answer"
        elif (size := encoded_size(answer)) > task.answer_bytes:
            error = f"an answer of {size:,} bytes is too long"
        elif (vote := read_answer(task.answers, answer)) is None:
            error = f"the answer can't be read as {task.answers}"
    return Response(
        index=task.index,
        answer=None if answer is None else cut_encoded(answer, task.answer_bytes),
        vote=vote,
        reasoning=cut_with_note(reasoning, task.reasoning_bytes),
        timestamp=datetime.now(UTC),
        error=error,
        seed=None if "seed" in heard.receipt.left_out else task.seed,
        **dict(heard.receipt),
    )
