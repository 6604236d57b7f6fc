"""The activities of reflection: ask a model for a draft, a better one, or a judgement."""

from datetime import UTC, datetime

from temporalio import activity

from activities.checks import CheckTask, check_draft
from activities.language_model.port import Asked, Drawn, LanguageModel, Usual, hear
from mull.critique.criteria import Criterion
from mull.critique.evaluation import Feedback, JudgeReply, judge_schema, parse_judgement
from mull.critique.guardrails import Checked, Report, known_guardrails
from mull.critique.prompts import build_draft_prompt, build_judge_prompt, build_revision_prompt
from mull.critique.request import Format
from mull.drafts import Receipt
from mull.request import Framing
from mull.text import cut_with_note, encoded_size, well_formed


class WritingTask(Drawn):
    """What to write, and within which bounds; `index` counts drafts from 0.

    The `guardrails` that check it at once, and the criteria that it `asks_for`, which they read.
    """

    index: int
    query: str
    sources: tuple[str, ...]
    format: Format | None
    draft_bytes: int
    framing: Framing
    guardrails: tuple[str, ...] = ()
    asks_for: tuple[str, ...] = ()


class RevisionTask(WritingTask):
    """What to revise: the previous draft with its score, and the changes to make."""

    draft: str
    feedback: tuple[Feedback, ...]
    score: float | None


class Written(Receipt):
    """A text, or None with the reason in `error`; and what it cost.

    `report` is what the task's guardrails found; None without any, or where they are not known.
    """

    text: str | None
    cut: bool = False
    error: str | None = None
    timestamp: datetime
    report: Report | None = None


class JudgingTask(Asked):
    """What to judge, and by which criteria.

    The judge is `model`, or else the worker's judge, or else the `writer`.
    """

    index: int
    query: str
    draft: str
    sources: tuple[str, ...]
    format: Format | None
    criteria: tuple[Criterion, ...]
    threshold: float
    framing: Framing
    writer: str | None


class CritiqueActivities:
    """The model calls of reflection; `judge` is used if a task names no model."""

    def __init__(self, model: LanguageModel, judge: str | None = None) -> None:
        self._model = model
        self._judge = judge

    @activity.defn
    async def write_draft(self, task: WritingTask) -> Written:
        """Ask for the first draft.

        A reply that can't be used (filtered, refused, empty) has no text. Raises ApplicationError,
        non-retryable if no such call can work.
        """
        return await self._write(task, build_draft_prompt(task.query, task.sources, task.format))

    @activity.defn
    async def revise_draft(self, task: RevisionTask) -> Written:
        """Ask for a better draft. Raises as `write_draft` does."""
        prompt = build_revision_prompt(
            task.query, task.draft, task.feedback, task.sources, task.format
        )
        return await self._write(task, prompt)

    @activity.defn
    async def judge_draft(self, task: JudgingTask) -> JudgeReply:
        """Ask one judge once, and parse its reply. Raises as `write_draft` does."""
        prompt = build_judge_prompt(
            task.query,
            task.draft,
            task.criteria,
            task.threshold,
            sources=task.sources,
            shape=task.format,
            error=task.error,
            framing=task.framing,
        )
        call = task.call(
            prompt,
            model=task.model or self._judge or task.writer,
            usual=Usual(field="judge_max_output_tokens"),
            reply_schema=judge_schema(task.criteria),
            labels={"mull.draft.index": task.index},
        )
        heard = await hear(self._model, call)
        read = JudgeReply(error=heard.error, unreadable=True)
        if heard.text is not None:
            read = parse_judgement(heard.text, task.criteria, task.threshold, task.draft)
        return JudgeReply(**{**dict(read), **dict(heard.receipt)})

    async def _write(self, task: WritingTask, prompt: str) -> Written:
        call = task.call(
            prompt,
            messages=task.framing.chat(prompt),
            options=task.framing.options,
            seed=None if task.seed is None else task.seed + task.index,
            labels={"mull.draft.index": task.index},
            keep_cut=True,
        )
        heard = await hear(self._model, call)
        text = None if heard.text is None else well_formed(heard.text)
        written = Written(
            text=text and cut_with_note(text, task.draft_bytes),
            cut=encoded_size(text or "") > task.draft_bytes,
            error=heard.error,
            timestamp=datetime.now(UTC),
            **dict(heard.receipt),
        )
        report = None if text is None else await _report(task, written)
        return written.model_copy(update={"report": report})


async def _report(task: WritingTask, written: Written) -> Report | None:
    """Check a text where it was written, if this worker has the guardrails: that saves a hop."""
    if not task.guardrails or not set(task.guardrails) <= set(known_guardrails()):
        return None
    revises = task if isinstance(task, RevisionTask) else None
    checked = Checked.of(
        task,
        written,
        previous=revises and revises.draft,
        previous_score=revises and revises.score,
        material=tuple(task.framing.material),
        asks_for=task.asks_for,
    )
    return await check_draft(CheckTask(checked=checked, guardrails=task.guardrails))
