"""Evaluate a draft, feed back what is wrong, revise it, and keep the best."""

import asyncio
from typing import Any

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.checks import CheckTask, check_draft, prepare_reflection
    from activities.critique import (
        CritiqueActivities,
        JudgingTask,
        RevisionTask,
        WritingTask,
        Written,
    )
    from mull import telemetry
    from mull.critique import loop
    from mull.critique.criteria import passes
    from mull.critique.evaluation import Evaluation, Feedback, Judgement, JudgeReply, evaluate
    from mull.critique.guardrails import Checked, Report
    from mull.critique.loop import Reflection, should_reflect, warnings
    from mull.critique.request import ReflectOnResultRequest
    from mull.critique.result import Decision, Draft, ReflectOnResultResult
    from mull.critique.sheet import sheet
    from mull.request import INVALID, Review
    from workflows import base
    from workflows.base import DraftWorkflow
    from workflows.calls import Call, Lost, call_times, explain, failure, run_locally

NO_TIME = "the run ended before it replied"


@workflow.defn(failure_exception_types=[ValidationError])
class ReflectOnResultWorkflow(DraftWorkflow[Reflection]):
    """Revise a draft until its score, a bound or a person says stop; keep the best one."""

    request_type = ReflectOnResultRequest
    make_sheet = staticmethod(sheet)
    span_fields = ("score", "judged", "change", "threshold", "best", "best_score", "revisions")

    @workflow.init
    def __init__(self, request: ReflectOnResultRequest) -> None:
        """Begin with nothing written yet."""
        super().__init__(Reflection(request))
        self._request = request
        limits = request.max_output_tokens, request.judge_max_output_tokens
        self._times = call_times(request.call_timeout_seconds, request.max_attempts, *limits)
        self._reports: dict[int, Report] = {}
        # Those that check a draft where it is written, if the worker that writes it has them.
        self._guardrails: tuple[str, ...] = ()

    @workflow.run
    async def run(self, request: ReflectOnResultRequest) -> ReflectOnResultResult:
        """Draft, evaluate, revise, ask a person where that is wanted, and return the result."""
        with self._running(
            criteria=request.criteria_name,
            threshold=request.score_threshold,
            max_revisions=request.max_revisions,
        ) as span:
            await self._prepare()
            await self._write_first_draft()
            await self._revise_until_decided()
            while not self._state.stopped:
                await self._wait_for_review()
                await self._revise_until_decided()
            result: ReflectOnResultResult = self._state.result()
            memo = {"draft": (result.draft or "")[:400], "score": result.score}
            self._conclude(span, result, memo)
            return result

    async def _prepare(self) -> None:
        """Record the criteria and rules of this run, whatever the presets are later.

        Raises ApplicationError where the worker does not have a guardrail that the request names.
        """
        _, found = await asyncio.gather(
            self._find_attributes(), run_locally(prepare_reflection, self._request)
        )
        for warning in warnings(self._request):
            self._state.warn(warning)
        if found is None:
            self._state.warn("the query's complexity could not be estimated")
            return
        self._state.criteria = found.criteria
        self._guardrails = found.guardrails
        if self._request.reflect and not self._request.synthesis_follows:
            self._state.complexity = found.complexity
        if found.unknown:
            said = f"guardrails: the worker has no {', '.join(found.unknown)}"
            raise failure(INVALID, said)

    async def _write_first_draft(self) -> None:
        """Get the first draft and judge it, unless the request says not to.

        Raises ApplicationError if there is no draft: then there can be no result.
        """
        gate, given = should_reflect(self._request, self._state.complexity), self._request.draft
        if given is not None:
            draft = Draft(index=0, text=given, origin="given", timestamp=workflow.now())
            self._state.drafts.append(draft)
        if not self._has_room(None):
            return
        self._step = "writing"
        if given is None:
            task = WritingTask.of(self._request, **self._writing())
            call = Call(CritiqueActivities.write_draft, task, "draft 1", self._times)
            written = await self._calls.text("generating", call)
            if isinstance(written, Lost):
                raise written.failure
            if written is None:
                self._cut_short()
                return
            self._keep(written)
        if gate.stop_reason is not None:
            self._stop(gate.stop_reason, gate.reason)
        else:
            await self._evaluate()

    async def _revise_until_decided(self) -> None:
        """Revise the best draft by its feedback, until a decision ends the run or waits."""
        while (last := self._state.last) is None or not (last.stop or last.waits_for_review):
            best = self._state.best or self._state.drafts[0]
            await self._revise(best, self._state.advice(best), None)

    async def _revise(
        self, draft: Draft, feedback: tuple[Feedback, ...], author: str | None
    ) -> None:
        """Ask for a better draft, and judge it."""
        if not self._has_room("revising"):
            return
        number = self._state.revisions + 1
        told = {"mull.revision": number}
        with base.span(telemetry.SPAN_REFLECTION, "CHAIN", told, f"revision {number}"):
            self._step = "revising"
            known = {"draft": draft.text, "score": draft.score, "feedback": feedback}
            task = RevisionTask.of(self._request, **self._writing(), **known)
            summary = f"draft {task.index + 1}: a revision of draft {draft.index + 1}"
            call = Call(CritiqueActivities.revise_draft, task, summary, self._times)
            written = await self._calls.text("revising", call)
            if isinstance(written, Lost):
                self._stop("revision_failed", f"the draft could not be revised: {written}")
            elif written is None:
                self._cut_short()
            else:
                self._keep(written, draft, author)
                await self._evaluate()

    async def _evaluate(self) -> None:
        """Judge the newest draft, and decide."""
        if not self._has_room("evaluating"):
            return
        self._step = "evaluating"
        draft = self._state.drafts[-1]
        name = telemetry.SPAN_EVALUATION.format(criteria=self._request.criteria_name)
        with base.span(name, "EVALUATOR", {"mull.draft.index": draft.index}) as span:
            evaluation = await self._judged(draft)
            if evaluation is not None:
                _record_evaluation(span, evaluation, self._request.score_threshold)
        if evaluation is None:
            self._cut_short()
            return
        self._state.evaluated(draft.index, evaluation)
        self._decided(self._state.decide(workflow.now()))

    def _writing(self) -> dict[str, Any]:
        """List the fields of the task of the next draft, besides the request's."""
        return {
            "index": len(self._state.drafts),
            "guardrails": self._guardrails,
            "asks_for": tuple(criterion.name for criterion in self._state.criteria),
        }

    def _keep(
        self, written: Written, revised: Draft | None = None, author: str | None = None
    ) -> None:
        """Keep a draft, and warn where it is not whole."""
        index, seed = len(self._state.drafts), self._request.seed
        if written.report is not None:
            self._reports[index] = written.report
        if written.cut:
            most = self._request.draft_bytes
            self._state.warn(f"draft {index + 1} was cut to {most:,} bytes, the size for a result")
        if written.finish_reason == "length":
            self._state.warn(f"draft {index + 1} was cut off by its provider: it is not whole")
        self._state.drafts.append(
            Draft(
                **written.model_dump(exclude={"error", "report"}),
                index=index,
                origin="generated" if revised is None else "revised",
                revises=None if revised is None else revised.index,
                author=author,
                seed=None if seed is None or "seed" in written.left_out else seed + index,
            )
        )

    async def _judged(self, draft: Draft) -> Evaluation | None:
        """Evaluate a draft; None if the run has to end before any judge replied.

        Where a guardrail could not run, no judge is asked and the evaluation has failed. The judges
        are asked in parallel, or one by one if a budget limits the calls.
        """
        report = await self._check(draft)
        if report.failures:
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
        """Return what the guardrails found, and which of them could not run."""
        if not self._request.guardrails:
            return Report()
        report = self._reports.get(draft.index) or await self._run_guardrails(draft)
        for why in report.failures:
            self._state.warn(why)
        return report

    async def _run_guardrails(self, draft: Draft) -> Report:
        before = None if draft.revises is None else self._state.drafts[draft.revises]
        checked = Checked.of(
            self._request,
            draft,
            previous=before.text if before else None,
            previous_score=before.score if before else None,
            material=tuple(self._request.material),
            asks_for=tuple(criterion.name for criterion in self._state.criteria),
        )
        task = CheckTask(checked=checked, guardrails=self._request.guardrails)
        report: Report | None = await run_locally(check_draft, task)
        return report or Report(failures=("the guardrails could not be run",))

    async def _judge(
        self, draft: Draft, judge: str | None
    ) -> tuple[Judgement, tuple[Feedback, ...]]:
        """Ask one judge, and once more where its reply can't be read."""
        request, state = self._request, self._state
        task = JudgingTask.of(
            request,
            index=draft.index,
            draft=draft.text,
            criteria=state.criteria,
            threshold=request.score_threshold,
            model=judge,
            writer=request.model,
            max_output_tokens=request.judge_max_output_tokens,
        )
        summary = f"draft {draft.index + 1}: ask {judge or 'the judge'}"
        call = Call(CritiqueActivities.judge_draft, task, summary, self._times)
        heard = await self._calls.ask_twice(
            "evaluating", call, lambda: not (self._people.over or state.no_room("evaluating"))
        )
        reply = heard[-1] if heard else None
        if isinstance(reply, ActivityError):
            reply = JudgeReply(error=explain(reply))
        elif reply is None:
            reply = JudgeReply(error=(not heard and state.no_room("evaluating")) or NO_TIME)
        judgement = Judgement(
            judge=judge,
            replies=sum(getattr(one, "spending", None) is not None for one in heard),
            **dict(reply),
        )
        said_by = {"judge": reply.model or judge}
        return judgement, tuple(point.model_copy(update=said_by) for point in reply.feedback)

    async def _follow(self, said: Review, who: str) -> None:
        if said.score is not None:
            loop.score(self._state, said.score, who)
            self._settle("scored_by_person", f"scored {said.score:g} by {who}", who)
        elif said.revise is None:
            await super()._follow(said, who)
        elif (best := self._state.best) is not None:
            self._decided(loop.grant(self._state, said.revise, who, workflow.now()))
            advice = Feedback(advice=said.revise, judge=who)
            await self._revise(best, (advice, *self._state.advice(best)), who)

    def _numbers(self, decision: Decision) -> dict[str, base.Attribute]:
        return base.known({"mull.draft.index": decision.draft}) | super()._numbers(decision)

    def _updates(self) -> list[base.Update]:
        best = self._state.best
        return [
            base.set_or_clear(telemetry.SCORE, best.score if best else None),
            telemetry.REVISIONS.value_set(self._state.revisions),
            *super()._updates(),
        ]


def _record_evaluation(span: Span, evaluation: Evaluation, threshold: float) -> None:
    """Write an evaluation into its span: an event for the whole and for each criterion."""
    if evaluation.score is None:
        span.set_attribute("error.type", "evaluation_failed")
        return
    span.set_attributes(base.numbers(evaluation, ("score", "judged", "spread")))
    span.set_attribute("mull.guardrails", [cap.guardrail for cap in evaluation.guardrails])
    for criterion, score in [(None, evaluation.score), *evaluation.criteria.items()]:
        event: dict[str, str | float] = {
            "gen_ai.evaluation.name": criterion or "overall",
            "gen_ai.evaluation.score.value": score,
            "gen_ai.evaluation.score.label": "pass" if passes(score, threshold) else "fail",
        }
        about = [point for point in evaluation.feedback if criterion in (None, point.criterion)]
        said = "\n".join(point.advice for point in about)
        if telemetry.captures_content() and said:
            event["gen_ai.evaluation.explanation"] = said
        span.add_event(telemetry.EVENT_EVALUATION, event)
