"""The evaluation of a draft: guardrails, and a panel of judges side by side."""

import asyncio
from typing import NamedTuple

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.checks import CheckTask, check_draft
    from activities.critique import CritiqueActivities, JudgingTask
    from activities.language_model.port import TASK_QUEUE
    from reflection.critique.evaluation import Evaluation, Feedback, Judgement, JudgeReply, evaluate
    from reflection.critique.guardrails import Checked, Report
    from reflection.critique.loop import Reflection
    from reflection.critique.result import Draft
    from workflows import failures
    from workflows.calls import Calls
    from workflows.timeouts import LOCAL, call_times

NO_TIME = "the run ended before it replied"


class Heard(NamedTuple):
    """What one judge made of a draft, and the feedback that it gave."""

    judgement: Judgement
    feedback: tuple[Feedback, ...] = ()


class Judges:
    """The panel of a run, and the guardrails after it."""

    def __init__(self, state: Reflection, calls: Calls) -> None:
        self._state = state
        self._request = state.request
        self._calls = calls
        self._times = call_times(self._request.call_timeout_seconds, self._request.max_attempts)

    async def evaluate(self, draft: Draft) -> Evaluation | None:
        """Evaluate a draft; None where the run is to end before any judge was heard."""
        report = await self._check(draft)
        heard = await self._hear(draft)
        if self._calls.over and all(each.judgement.score is None for each in heard):
            return None
        feedback = [point for each in heard for point in each.feedback]
        judgements = [each.judgement for each in heard]
        return evaluate(judgements, feedback, (*report.caps, *report.doubts), self._request.panel)

    async def _hear(self, draft: Draft) -> list[Heard]:
        """Ask the judges side by side; one by one where a budget says how far they are asked."""
        judges = self._request.panel_judges
        if self._request.budget_tokens is None and self._request.budget_usd is None:
            return list(await asyncio.gather(*(self._judge(draft, each) for each in judges)))
        return [await self._judge(draft, each) for each in judges]

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
        return self._heard(judge, reply, replies)

    def _heard(self, judge: str | None, reply: JudgeReply, replies: int) -> Heard:
        judgement = Judgement(
            judge=judge,
            score=reply.score,
            scores=reply.scores,
            confidence=reply.confidence,
            error=reply.error,
            model=reply.model,
            replies=replies,
        )
        said_by = reply.model or judge
        named = (each.model_copy(update={"judge": said_by}) for each in reply.feedback)
        return Heard(judgement, tuple(named))

    async def _ask(self, draft: Draft, judge: str | None, error: str | None) -> JudgeReply:
        reply = await self._calls.reply(self._start(draft, judge, error))
        if reply.error is not None:
            tried = failures.attempts(reply.error, self._request.max_attempts)
            self._state.pay("evaluating", None, tried)
            return JudgeReply(error=failures.explain(reply.error))
        if reply.value is None:
            return JudgeReply(error=NO_TIME)
        self._state.pay("evaluating", reply.value.spending, reply.value.attempts)
        self._state.left_out(reply.value.left_out)
        return reply.value

    def _start(
        self, draft: Draft, judge: str | None, error: str | None
    ) -> workflow.ActivityHandle[JudgeReply]:
        again = " again: its reply could not be read" if error else ""
        return workflow.start_activity_method(
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

    async def _check(self, draft: Draft) -> Report:
        """Run the guardrails; where that fails nothing is capped, and the result says so."""
        if not self._request.guardrails:
            return Report()
        try:
            report = await workflow.execute_local_activity(
                check_draft,
                self._checks(draft),
                start_to_close_timeout=LOCAL,
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            report = Report(failures=("the guardrails could not be run",))
        for each in report.failures:
            self._state.warn(each)
        return report

    def _checks(self, draft: Draft) -> CheckTask:
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
            asks_for=tuple(each.name for each in self._state.criteria),
        )
        return CheckTask(checked=checked, guardrails=self._request.guardrails)
