"""The nodes `generate_report` and `reflect_on_report`."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.language_model.port import TASK_QUEUE
    from activities.multipath import (
        Generated,
        MultiPathActivities,
        Reflected,
        ReflectionTask,
        ReportTask,
    )
    from reflection.multipath.loop import Run
    from reflection.multipath.request import OUTPUT_BYTES
    from workflows.multipath.nodes.asking import AGAIN, Asking, Ended, Lost
    from workflows.multipath.nodes.drafting import keep, part_of
    from workflows.timeouts import call_times


class Researcher:
    """Reports, and the reflection on each."""

    def __init__(self, run: Run, asking: Asking) -> None:
        self._run = run
        self._request = run.request
        self._asking = asking
        self._times = call_times(self._request.call_timeout_seconds, self._request.max_attempts)

    async def generate(self) -> Ended | None:
        """Write the first report, or refine the last one by K."""
        reply = await self._asking.read(part_of(self._run), self._start_report)
        last = self._run.last
        return keep(self._run, "research", reply, last.author if last else None)

    async def reflect(self) -> Ended | None:
        """Find K of the newest report; where that can't be had twice, the run ends."""
        reply = await self._asking.read("evaluating", self._start_reflection)
        if isinstance(reply, Ended):
            return reply
        why = str(reply) if isinstance(reply, Lost) else reply.error
        if isinstance(reply, Lost) or why is not None:
            return Ended("reflection_failed", f"nobody could reflect on the report: {why}")
        self._run.reflected(reply.critiques, reply.suggestions, reply.assembled)
        return None

    def _start_report(self, _: str | None) -> workflow.ActivityHandle[Generated]:
        request, state, index = self._request, self._run.state, len(self._run.drafts)
        refines = f": draft {state.revisions} refined" if index else ""
        return workflow.start_activity_method(
            MultiPathActivities.generate_report,
            ReportTask(
                prompt=request.prompt,
                model=request.model,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                index=index,
                sources=self._run.sources,
                temperature=request.temperature,
                seed=request.seed,
                output_bytes=OUTPUT_BYTES,
                report=state.output if index else None,
                critiques=state.critiques,
                suggestions=state.suggestions,
                creative=request.creative,
            ),
            task_queue=TASK_QUEUE,
            summary=f"draft {index + 1}{refines}",
            **self._times.options,
        )

    def _start_reflection(self, error: str | None) -> workflow.ActivityHandle[Reflected]:
        request, index = self._request, len(self._run.drafts) - 1
        asked = f"ask {request.judge or 'the judge'}{AGAIN if error else ''}"
        return workflow.start_activity_method(
            MultiPathActivities.reflect_on_report,
            ReflectionTask(
                prompt=request.prompt,
                model=request.judge,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                index=index,
                sources=self._run.sources,
                report=self._run.state.output,
                creative=request.creative,
                error=error,
                writer=request.model,
            ),
            task_queue=TASK_QUEUE,
            summary=f"draft {index + 1}: {asked}",
            **self._times.options,
        )
