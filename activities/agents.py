"""The model calls of agents: the planner's, the reflector's and a judge's."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from temporalio import activity

from activities.critique import Written
from activities.language_model.port import Drawn, Heard, LanguageModel, Usual, hear
from mull.agents.prompts import JudgeReply
from mull.drafts import Receipt
from mull.replies import read_reply, reply_schema
from mull.request import DRAFT_BYTES, Record
from mull.text import AGAIN, cut_with_note, well_formed


class AgentPrompt(Drawn):
    """A prompt for one text, and its bounds; `episode` and `step` count from 1, or are 0."""

    prompt: str
    episode: int
    step: int = 0


class JudgedEpisode(Record):
    """What a judge says of an episode; None, with the reason in `error`, if it can't be read."""

    correct: bool | None
    reasoning: str = ""
    error: str | None = None
    receipt: Receipt

    @property
    def unreadable(self) -> bool:
        """Whether asking again, with the error shown, may help."""
        return self.correct is None


class AgentActivities:
    """The model calls of the planner, the reflector and the judge.

    A reply that can't be used (filtered, refused, empty) is a reply with an error; every other
    failure is an ApplicationError, non-retryable if no such call can work.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @activity.defn
    async def plan_action(self, task: AgentPrompt) -> Written:
        """Ask for the next action."""
        return _written(await self._ask(task, keep_cut=True))

    @activity.defn
    async def reflect_on_episode(self, task: AgentPrompt) -> Written:
        """Ask for a reflection on an episode that failed."""
        return _written(await self._ask(task, keep_cut=True))

    @activity.defn
    async def judge_episode(self, task: AgentPrompt) -> JudgedEpisode:
        """Ask whether an answer is right."""
        if task.error is not None:
            prompt = task.prompt + AGAIN.replace("{error}", task.error)
            task = task.model_copy(update={"prompt": prompt})
        heard = await self._ask(task, reply_schema=reply_schema(JudgeReply))
        if heard.text is None:
            return JudgedEpisode(correct=None, error=heard.error, receipt=heard.receipt)
        read = await asyncio.to_thread(
            read_reply, heard.text, "correct", JudgeReply, (task.prompt,)
        )
        if isinstance(read, str):
            return JudgedEpisode(correct=None, error=f"Unreadable: {read}", receipt=heard.receipt)
        return JudgedEpisode(
            correct=read.correct, reasoning=read.reasoning[:2_000], receipt=heard.receipt
        )

    async def _ask(self, task: AgentPrompt, **more: Any) -> Heard:
        labels = {"mull.episode": task.episode, **({"mull.step": task.step} if task.step else {})}
        call = task.call(task.prompt, usual=Usual(tokens=2_000), labels=labels, **more)
        return await hear(self._model, call)


def _written(heard: Heard) -> Written:
    text = heard.text and cut_with_note(well_formed(heard.text), DRAFT_BYTES)
    return Written(text=text, error=heard.error, timestamp=datetime.now(UTC), **dict(heard.receipt))
