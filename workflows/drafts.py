"""The calls of a reflection run: for drafts, revisions and evaluations."""

import asyncio
from collections.abc import Awaitable, Callable

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.checks import CheckTask, check_draft
    from activities.critique import (
        CritiqueActivities,
        JudgingTask,
        RevisionTask,
        WritingTask,
        Written,
    )
    from reflection.critique.evaluation import Evaluation, Feedback, Judgement, JudgeReply, evaluate
    from reflection.critique.guardrails import Checked, Report
    from reflection.critique.loop import Reflection
    from reflection.critique.result import Draft
    from reflection.run import Part
    from workflows.calls import Calls, Lost, attempts_of, call_times, explain, lost, run_locally
    from workflows.people import People

NO_TIME = "the run ended before it replied"


class Drafts:
    """The calls for drafts, for the judges of a panel, and for the guardrails before them."""

    def __init__(self, state: Reflection, calls: Calls, people: People) -> None:
        self._state = state
        self._request = state.request
        self._calls = calls
        self._people = people
        self._times = call_times(self._request.call_timeout_seconds, self._request.max_attempts)

    async def write(self) -> bool:
        """Ask for the first draft; False where the call was cut short.

        Raises ApplicationError if there is no draft: then there can be no result.
        """
        asked = CritiqueActivities.write_draft, self._task(), "draft 1"
        written = await self._written("generating", *asked)
        if isinstance(written, Lost):
            raise written.failure
        return written is not None and self._keep(written)

    async def revise(
        self, draft: Draft, feedback: tuple[Feedback, ...], author: str | None
    ) -> str | bool:
        """Ask for a better draft: True, False where it was cut short, or why there is none."""
        task = RevisionTask(**dict(self._task()), draft=draft.text, feedback=feedback)
        summary = f"draft {task.index + 1}: a revision of draft {draft.index + 1}"
        written = await self._written("revising", CritiqueActivities.revise_draft, task, summary)
        if isinstance(written, Lost):
            return str(written)
        return written is not None and self._keep(written, draft, author)

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
            max_attempts=request.max_attempts,
        )

    async def _written(
        self, part: Part, activity: Callable[..., Awaitable[Written]], task: object, summary: str
    ) -> Written | Lost | None:
        """Ask, count what was spent, and say why there is no text; None where it was cut short."""
        written = await self._calls.make(activity, task, summary, self._times)
        if isinstance(written, ActivityError):
            self._state.pay(part, None, attempts_of(written, self._request.max_attempts))
            return lost(explain(written))
        if written is None:
            return None
        self._state.pay(part, written.spending, written.attempts)
        return lost(written.error) if written.text is None else written

    def _keep(
        self, written: Written, revised: Draft | None = None, author: str | None = None
    ) -> bool:
        index, seed = len(self._state.drafts), self._request.seed
        self._state.left_out(written.left_out)
        if written.cut:
            most = self._request.draft_bytes
            self._state.warn(f"draft {index + 1} was cut to {most:,} bytes, the size for a result")
        self._state.drafts.append(
            Draft(
                **written.model_dump(exclude={"error"}),
                index=index,
                origin="generated" if revised is None else "revised",
                revises=None if revised is None else revised.index,
                author=author,
                seed=None if seed is None or "seed" in written.left_out else seed + index,
            )
        )
        return True

    async def evaluate(self, draft: Draft) -> Evaluation | None:
        """Evaluate a draft; None if the run has to end before any judge replied.

        Where a guardrail could not run, no judge is asked and the evaluation has failed. The judges
        are asked in parallel, or one by one if a budget limits the calls.
        """
        report = await self._check(draft)
        if report.failures and workflow.patched("failed-guardrails"):
            return Evaluation(error="; ".join(report.failures))
        judges = self._request.panel_judges
        if self._request.budget_tokens is None and self._request.budget_usd is None:
            heard = await asyncio.gather(*(self._judge(draft, judge) for judge in judges))
        else:
            heard = [await self._judge(draft, judge) for judge in judges]
        judgements = [judgement for judgement, _ in heard]
        if self._people.over and all(judgement.score is None for judgement in judgements):
            return None
        feedback = [point for _, points in heard for point in points]
        found = (*report.caps, *report.doubts)
        return evaluate(judgements, feedback, found, self._request.panel)

    async def _check(self, draft: Draft) -> Report:
        """Run the guardrails; the result says which of them could not run."""
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

    async def _judge(
        self, draft: Draft, judge: str | None
    ) -> tuple[Judgement, tuple[Feedback, ...]]:
        """Ask one judge, and once more where its reply can't be read."""
        replies, reply = 0, JudgeReply()
        for error in (None, "unreadable"):
            no_room = self._state.no_room("evaluating")
            if self._people.over or no_room:
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
        return judgement, tuple(point.model_copy(update=said_by) for point in reply.feedback)

    async def _ask(self, draft: Draft, judge: str | None, error: str | None) -> JudgeReply:
        request = self._request
        task = JudgingTask(
            index=draft.index,
            query=request.query,
            draft=draft.text,
            sources=request.sources,
            format=request.format,
            criteria=self._state.criteria,
            threshold=request.score_threshold,
            model=judge,
            timeout_seconds=request.call_timeout_seconds,
            max_output_tokens=request.judge_max_output_tokens,
            error=error,
            writer=request.model,
            max_attempts=request.max_attempts,
        )
        again = " again: its reply could not be read" if error else ""
        summary = f"draft {draft.index + 1}: ask {judge or 'the judge'}{again}"
        reply = await self._calls.make(CritiqueActivities.judge_draft, task, summary, self._times)
        if isinstance(reply, ActivityError):
            self._state.pay("evaluating", None, attempts_of(reply, request.max_attempts))
            return JudgeReply(error=explain(reply))
        if reply is None:
            return JudgeReply(error=NO_TIME)
        self._state.pay("evaluating", reply.spending, reply.attempts)
        self._state.left_out(reply.left_out)
        return reply
