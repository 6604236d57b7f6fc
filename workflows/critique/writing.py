"""Drafts: given, asked for, and revised."""

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.critique import CritiqueActivities, RevisionTask, WritingTask, Written
    from activities.language_model.port import TASK_QUEUE
    from reflection.critique.evaluation import Feedback
    from reflection.critique.loop import Reflection
    from reflection.critique.result import Draft, Origin
    from reflection.run import Part
    from workflows import failures
    from workflows.calls import Calls, Reply
    from workflows.timeouts import call_times


class Writer:
    """The calls for drafts, and what becomes of their replies."""

    def __init__(self, state: Reflection, calls: Calls) -> None:
        self._state = state
        self._request = state.request
        self._calls = calls
        self._times = call_times(self._request.call_timeout_seconds, self._request.max_attempts)

    def take_given(self) -> None:
        """Take the draft that the request gives, if it does."""
        if self._request.draft is not None:
            text = self._request.draft
            self._state.drafts.append(
                Draft(index=0, text=text, origin="given", timestamp=workflow.now())
            )

    async def draft(self) -> bool:
        """Ask for a draft where none is given; False where the call was cut short.

        Raises ApplicationError where there is none to be had: then there is no result either.
        """
        if self._state.drafts:
            return True
        reply = await self._calls.reply(self._start_draft())
        lost = self._lost("generating", reply)
        if lost is not None:
            kind, said = lost
            raise ApplicationError(said, type=kind, non_retryable=True)
        return self._keep(reply.value, "generated", None, None)

    async def revise(
        self, draft: Draft, feedback: tuple[Feedback, ...], author: str | None
    ) -> str | bool:
        """Ask for a better draft: True, False where it was cut short, or why there is none."""
        reply = await self._calls.reply(self._start_revision(draft, feedback))
        lost = self._lost("revising", reply)
        if lost is not None:
            return ": ".join(lost)
        return self._keep(reply.value, "revised", draft.index, author)

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

    def _lost(self, part: Part, reply: Reply[Written]) -> tuple[str, str] | None:
        """Count what was spent, and say why there is no text; None where nothing was lost."""
        if reply.error is not None:
            self._state.pay(part, None, failures.attempts(reply.error, self._request.max_attempts))
            kind, _, said = failures.explain(reply.error).partition(": ")
            return (kind, said) if said else ("NoReply", kind)
        if reply.value is None:
            return None
        self._state.pay(part, reply.value.spending, reply.value.attempts)
        if reply.value.text is not None:
            return None
        kind, _, said = (reply.value.error or "NoReply: nothing came").partition(": ")
        return kind, said

    def _start_draft(self) -> workflow.ActivityHandle[Written]:
        return workflow.start_activity_method(
            CritiqueActivities.write_draft,
            self._task(),
            task_queue=TASK_QUEUE,
            summary="draft 1",
            **self._times.options,
        )

    def _start_revision(
        self, draft: Draft, feedback: tuple[Feedback, ...]
    ) -> workflow.ActivityHandle[Written]:
        known = {"draft": draft.text, "feedback": feedback}
        return workflow.start_activity_method(
            CritiqueActivities.revise_draft,
            RevisionTask(**{**dict(self._task()), **known}),
            task_queue=TASK_QUEUE,
            summary=f"draft {len(self._state.drafts) + 1}: a revision of draft {draft.index + 1}",
            **self._times.options,
        )

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
