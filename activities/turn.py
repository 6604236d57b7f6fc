"""The model calls of a tool-using turn: a step, a reflection midway, and a summary."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from temporalio import activity
from temporalio.contrib.workflow_streams import WorkflowStreamClient
from temporalio.exceptions import ApplicationError

from activities.language_model.port import (
    Abilities,
    Asked,
    Drawn,
    Heard,
    LanguageModel,
    OnText,
    PermanentModelError,
    Usual,
    calls_made,
    hear,
)
from mull.drafts import Receipt
from mull.replies import words_so_far
from mull.request import DRAFT_BYTES, TURN_SECONDS, Record, SamplingOptions
from mull.text import cut_with_note, encoded_size, well_formed
from mull.turn import conversation, midturn
from mull.turn.budget import Thinking, thinking
from mull.turn.conversation import Guidance, Message, StepReply, StreamedText
from mull.turn.tools import ARGUMENT_BYTES, CALLS_BYTES, MOST_CALLS, AskedCall, Tool

NAME_CHARACTERS = 200

# Each signal costs four events: there are 66 in the first minute, and 199 in an hour. 2,000 tokens
# in 40 seconds add 215 events, 46 kB, to a history, however many read them.
PUBLISH_SECONDS = 0.3
SLOWER = 1.03
PIECE_CHARACTERS = 20_000
STREAMED_CALLS = 3
# The turn itself asks again, after it told the model what was wrong.
EMPTY_REPLIES = 1


class ModelTask(Record):
    """A model to describe, for a turn that thinks at a level."""

    model: str | None
    think_level: str


class TurnModel(Record):
    """Whether a model takes tools, as far as LiteLLM knows, and how it thinks in a turn."""

    native: bool
    thinking: Thinking


class TurnTask(Asked):
    """What every call has: its bounds, and the step that it belongs to, from 1."""

    step: int


class StepTask(Drawn, TurnTask):
    """The conversation so far, and the tools that may be called; `native`: beside the messages.

    With `stream` the reply's text is published to the stream that the workflow has.
    """

    guidance: Guidance
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    native: bool
    thinking: Thinking | None
    options: SamplingOptions
    stream: bool


class PromptTask(TurnTask):
    """A prompt for one text."""

    prompt: str


class TextReply(Record):
    """A text, or None with the reason in `error`."""

    text: str | None
    error: str | None = None
    receipt: Receipt
    timestamp: datetime


class TurnActivities:
    """The model calls of turns; `abilities` tells what a model takes.

    A reply that can't be used (filtered, refused, empty) is a reply with an error; every other
    failure is an ApplicationError, non-retryable if no such call can work. Replies are read in a
    thread, because a long conversation would block the worker's other calls.
    """

    def __init__(self, model: LanguageModel, abilities: Callable[[str | None], Abilities]) -> None:
        self._model = model
        self._abilities = abilities

    @activity.defn
    async def describe_model(self, task: ModelTask) -> TurnModel:
        """Say how a model takes tools and how it thinks, without a call of it."""
        try:
            known = self._abilities(task.model)
        except PermanentModelError as error:
            raise ApplicationError(str(error), type=error.kind, non_retryable=True) from None
        planned = thinking(
            task.think_level,
            has_effort=known.effort,
            minimum=known.least_thinking,
            unasked=known.unasked,
            least=known.least_effort,
        )
        return TurnModel(native=known.tools, thinking=planned)

    @activity.defn
    async def ask_step(self, task: StepTask) -> StepReply:
        """Ask for an answer or for tool calls.

        A model that refuses tools is asked for one JSON object instead, and `left_out` has
        `tools` in it.
        """
        plain = _chat(task, native=False)
        offered = task.tools if task.native else ()
        effort = task.thinking and task.thinking.effort
        call = task.call(
            messages=_chat(task, native=True) if offered or not task.tools else plain,
            without_tools=plain if offered else (),
            tools=offered,
            tool_choice="none" if task.guidance.must_answer else "auto",
            options=task.options,
            effort=None if effort == "off" else effort,
            thinking_tokens=task.thinking.tokens if task.thinking else 0,
            usual=Usual(seconds=TURN_SECONDS),
            labels={"mull.turn.step": task.step},
            keep_cut=True,
        )
        async with _publishing(task) as on_text:
            call = call.model_copy(update={"on_text": on_text})
            heard = await hear(self._model, call, EMPTY_REPLIES)
        return await asyncio.to_thread(_step, task, heard)

    @activity.defn
    async def reflect_midturn(self, task: PromptTask) -> TextReply:
        """Ask for a reflection on the turn so far, without tools.

        A call that failed is final; one that was not made, as it had to wait, is made again.
        """
        try:
            return await self._text(task, {"role": "system", "content": midturn.SYSTEM})
        except ApplicationError as error:
            if error.details and error.details[0] == 0:
                raise
            raise ApplicationError(
                error.message, *error.details, type=error.type, non_retryable=True
            ) from None

    @activity.defn
    async def compact_messages(self, task: PromptTask) -> TextReply:
        """Ask for a summary of the earlier messages."""
        return await self._text(task)

    async def _text(self, task: PromptTask, *before: dict[str, str]) -> TextReply:
        call = task.call(
            messages=(*before, {"role": "user", "content": task.prompt}),
            usual=Usual(seconds=TURN_SECONDS),
            labels={"mull.turn.step": task.step},
            keep_cut=True,
        )
        heard = await hear(self._model, call)
        text = heard.text and cut_with_note(well_formed(heard.text), DRAFT_BYTES)
        now = datetime.now(UTC)
        return TextReply(text=text, error=heard.error, receipt=heard.receipt, timestamp=now)


@asynccontextmanager
async def _publishing(task: StepTask) -> AsyncIterator[OnText | None]:
    """Publish what the model writes while the block runs; None where nothing is to be shown.

    An object in place of tool calls is not shown. A provider whose streams break again and again is
    asked for its reply as a whole.
    """
    shown = task.native or not task.tools
    if not task.stream or not shown or calls_made() > STREAMED_CALLS:
        yield None
        return
    texts = deque([""], maxlen=1)
    publishing = asyncio.create_task(_publish(task.step, texts))
    try:
        yield texts.append
    finally:
        publishing.cancel()


async def _publish(step: int, texts: deque[str]) -> None:
    """Publish the newest text again and again, as far as it has grown.

    The reply does not depend on it: where the workflow can't be reached, publishing stops.
    """
    written, seconds = StreamedText(step=step, attempt=activity.info().attempt), PUBLISH_SECONDS
    try:
        stream = WorkflowStreamClient.from_within_activity()
        topic = stream.topic("answer", type=StreamedText)
        if written.attempt > 1:
            topic.publish(written)
        while True:
            await stream.flush()
            await asyncio.sleep(seconds)
            text = well_formed(words_so_far(texts[0]))[:DRAFT_BYTES]
            at = len(written.text) if text.startswith(written.text) else 0
            more = written.model_copy(update={"at": at, "text": text[at : at + PIECE_CHARACTERS]})
            if text != written.text:
                topic.publish(more)
                written, seconds = written.then(more), seconds * SLOWER
    except Exception as error:
        activity.logger.warning("the answer is not shown while it is written: %s", error)


def _chat(task: StepTask, *, native: bool) -> tuple[dict[str, object], ...]:
    """Write the conversation for a model with or without tool calling."""
    said = conversation.system_message(task.guidance, task.tools, native=native)
    messages = conversation.chat(task.messages, native=native)
    return (*([{"role": "system", "content": said}] if said else []), *messages)


def _step(task: StepTask, heard: Heard) -> StepReply:
    """Read what a model wrote: its calls, or an object with calls, or an answer."""
    receipt = dict(heard.receipt)
    if heard.text is None:
        text = cut_with_note(well_formed(heard.refusal), DRAFT_BYTES)
        return StepReply(text=text, error=heard.error, **receipt)
    said = StepReply(text=well_formed(heard.text), calls=heard.calls)
    native = bool(heard.calls) or (task.native and "tools" not in heard.receipt.left_out)
    if task.tools and not native:
        shown = [message.content for message in task.messages if message.role != "assistant"]
        said = conversation.read_object(said.text, shown)
    # A call that is too long to be read stays one that can't be used.
    calls = [
        AskedCall(
            id=call.id if len(call.id or "") <= NAME_CHARACTERS else None,
            name=call.name[:NAME_CHARACTERS],
            arguments=call.arguments[: ARGUMENT_BYTES + 1],
        )
        for call in said.calls[:MOST_CALLS]
    ]
    while sum(encoded_size(call.arguments) for call in calls) > CALLS_BYTES:
        del calls[-1]
    return StepReply(
        text=cut_with_note(said.text, DRAFT_BYTES),
        calls=tuple(calls),
        calls_left_out=heard.calls_left_out + len(said.calls) - len(calls),
        error=said.error,
        **receipt,
    )
