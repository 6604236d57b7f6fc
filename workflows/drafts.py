"""The calls of a run of reflection: for drafts, for revisions, and for what judges say of them."""

import asyncio
from typing import NamedTuple

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.checks import CheckTask, check_draft
    from activities.critique import (
        CritiqueActivities,
        JudgingTask,
        RevisionTask,
        WritingTask,
        Written,
    )
    from activities.language_model.port import TASK_QUEUE
    from reflection.critique.evaluation import Evaluation, Feedback, Judgement, JudgeReply, evaluate
    from reflection.critique.guardrails import Checked, Report
    from reflection.critique.loop import Reflection
    from reflection.critique.result import Draft, Origin
    from reflection.run import Part
    from workflows.calls import Calls, Reply, attempts_of, call_times, explain, run_locally

NO_TIME = "the run ended before it replied"


class Writer:
    """The calls for drafts, and what becomes of their replies."""

    def __init__(self, state: Reflection, calls: Calls) -> None:
        self._state = state
        self._request = state.request
        self._calls = calls
        self._times = call_times(self._request.call_timeout_seconds, self._request.max_attempts)

    async def write(self) -> bool:
        """Ask for the first draft; False where the call was cut short.

        Raises ApplicationError where there is none to be had: then there is no result either.
        """
        call: workflow.ActivityHandle[Written] = workflow.start_activity_method(
            CritiqueActivities.write_draft,
            self._task(),
            task_queue=TASK_QUEUE,
            summary="draft 1",
            **self._times.options,
        )
        reply = await self._calls.reply(call)
        lost = self._lost("generating", reply)
        if lost is not None:
            kind, said = lost
            raise ApplicationError(said, type=kind, non_retryable=True)
        return self._keep(reply.value, "generated", None, None)

    async def revise(
        self, draft: Draft, feedback: tuple[Feedback, ...], author: str | None
    ) -> str | bool:
        """Ask for a better draft: True, False where it was cut short, or why there is none."""
        known = {"draft": draft.text, "feedback": feedback}
        call: workflow.ActivityHandle[Written] = workflow.start_activity_method(
            CritiqueActivities.revise_draft,
            RevisionTask(**{**dict(self._task()), **known}),
            task_queue=TASK_QUEUE,
            summary=f"draft {len(self._state.drafts) + 1}: a revision of draft {draft.index + 1}",
            **self._times.options,
        )
        reply = await self._calls.reply(call)
        lost = self._lost("revising", reply)
        if lost is not None:
            return ": ".join(lost)
        return self._keep(reply.value, "revised", draft.index, author)

    def _task(self) -> WritingTask:
        request = self._request
        return WritingTask(
            index=len(self._state.drafts),
            query=request.query,
            sources=request.sources,
            format=request.format,
            model=request.model,
            temperature=request.temperature,
            seed=request.seed,
            max_output_tokens=request.max_output_tokens,
            timeout_seconds=request.call_timeout_seconds,
            draft_bytes=request.draft_bytes,
        )

    def _lost(self, part: Part, reply: Reply[Written]) -> tuple[str, str] | None:
        """Count what was spent, and say why there is no text; None where nothing was lost."""
        if reply.error is not None:
            self._state.pay(part, None, attempts_of(reply.error, self._request.max_attempts))
            kind, _, said = explain(reply.error).partition(": ")
            return (kind, said) if said else ("NoReply", kind)
        if reply.value is None:
            return None
        self._state.pay(part, reply.value.spending, reply.value.attempts)
        if reply.value.text is not None:
            return None
        kind, _, said = (reply.value.error or "NoReply: nothing came").partition(": ")
        return kind, said

    def _keep(
        self, written: Written | None, origin: Origin, revises: int | None, author: str | None
    ) -> bool:
        if written is None or written.text is None:
            return False
        index = len(self._state.drafts)
        seed = self._request.seed
        self._state.left_out(written.left_out)
        self._state.drafts.append(
            Draft(
                index=index,
                text=written.text,
                origin=origin,
                revises=revises,
                author=author,
                model=written.model,
                seed=None if seed is None or "seed" in written.left_out else seed + index,
                finish_reason=written.finish_reason,
                cut=written.cut,
                left_out=written.left_out,
                attempts=written.attempts,
                spending=written.spending,
                timestamp=written.timestamp,
            )
        )
        return True


class Heard(NamedTuple):
    """What one judge made of a draft, and the feedback that it gave."""

    judgement: Judgement
    feedback: tuple[Feedback, ...] = ()


class Judges:
    """The panel of a run, and the guardrails before it."""

    def __init__(self, state: Reflection, calls: Calls) -> None:
        self._state = state
        self._request = state.request
        self._calls = calls
        self._times = call_times(self._request.call_timeout_seconds, self._request.max_attempts)

    async def evaluate(self, draft: Draft) -> Evaluation | None:
        """Evaluate a draft; None where the run is to end before any judge was heard.

        The judges are asked side by side; one by one where a budget says how far they are asked.
        """
        report = await self._check(draft)
        judges = self._request.panel_judges
        if self._request.budget_tokens is None and self._request.budget_usd is None:
            heard = await asyncio.gather(*(self._judge(draft, judge) for judge in judges))
        else:
            heard = [await self._judge(draft, judge) for judge in judges]
        judgements = [one.judgement for one in heard]
        if self._calls.over and all(judgement.score is None for judgement in judgements):
            return None
        feedback = [point for one in heard for point in one.feedback]
        found = (*report.caps, *report.doubts)
        return evaluate(judgements, feedback, found, self._request.panel)

    async def _check(self, draft: Draft) -> Report:
        """Run the guardrails; where that fails nothing is capped, and the result says so."""
        if not self._request.guardrails:
            return Report()
        before = None if draft.revises is None else self._state.drafts[draft.revises]
        checked = Checked(
            query=self._request.query,
            draft=draft.text,
            finish_reason=draft.finish_reason,
            cut=draft.cut,
            previous=before.text if before else None,
            previous_score=before.score if before else None,
            sources=self._request.sources,
            format=self._request.format,
            asks_for=tuple(criterion.name for criterion in self._state.criteria),
        )
        task = CheckTask(checked=checked, guardrails=self._request.guardrails)
        report: Report | None = await run_locally(check_draft, task)
        report = report or Report(failures=("the guardrails could not be run",))
        for failure in report.failures:
            self._state.warn(failure)
        return report

    async def _judge(self, draft: Draft, judge: str | None) -> Heard:
        """Ask one judge, and once more where its reply can't be read."""
        replies, reply = 0, JudgeReply()
        for error in (None, "unreadable"):
            no_room = self._state.no_room("evaluating")
            if self._calls.over or no_room:
                reply = reply if error else JudgeReply(error=no_room or NO_TIME)
                break
            reply = await self._ask(draft, judge, error and reply.error)
            replies += reply.spending is not None
            if not reply.unreadable:
                break
        judgement = Judgement(
            judge=judge,
            score=reply.score,
            scores=reply.scores,
            confidence=reply.confidence,
            error=reply.error,
            model=reply.model,
            replies=replies,
        )
        said_by = {"judge": reply.model or judge}
        return Heard(judgement, tuple(point.model_copy(update=said_by) for point in reply.feedback))

    async def _ask(self, draft: Draft, judge: str | None, error: str | None) -> JudgeReply:
        again = " again: its reply could not be read" if error else ""
        call: workflow.ActivityHandle[JudgeReply] = workflow.start_activity_method(
            CritiqueActivities.judge_draft,
            JudgingTask(
                index=draft.index,
                query=self._request.query,
                draft=draft.text,
                sources=self._request.sources,
                format=self._request.format,
                criteria=self._state.criteria,
                threshold=self._request.score_threshold,
                model=judge,
                timeout_seconds=self._request.call_timeout_seconds,
                max_output_tokens=self._request.judge_max_output_tokens,
                error=error,
                writer=self._request.model,
            ),
            task_queue=TASK_QUEUE,
            summary=f"draft {draft.index + 1}: ask {judge or 'the judge'}{again}",
            **self._times.options,
        )
        reply = await self._calls.reply(call)
        if reply.error is not None:
            tried = attempts_of(reply.error, self._request.max_attempts)
            self._state.pay("evaluating", None, tried)
            return JudgeReply(error=explain(reply.error))
        if reply.value is None:
            return JudgeReply(error=NO_TIME)
        self._state.pay("evaluating", reply.value.spending, reply.value.attempts)
        self._state.left_out(reply.value.left_out)
        return reply.value
