"""The tests of a run, decided once, and the node `generate_code`."""

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.agent import CodeTask, Generated, MultiPathActivities, Tests, TestsTask
    from activities.asking import TASK_QUEUE
    from activities.examples import Examples, ExamplesTask, read_examples
    from reflection.multipath.loop import Run
    from reflection.multipath.request import OUTPUT_BYTES
    from reflection.multipath.suite import Suite
    from workflows.multipath.nodes.asking import AGAIN, Asking, Ended, Lost
    from workflows.multipath.nodes.drafting import keep, part_of
    from workflows.timeouts import LOCAL, call_times


class Coder:
    """The tests, and the code that shall pass them."""

    def __init__(self, run: Run, asking: Asking) -> None:
        self._run = run
        self._request = run.request
        self._asking = asking
        self._entry = run.request.entry
        self._times = call_times(self._request.call_timeout_seconds, self._request.max_attempts)

    async def find_tests(self) -> None:
        """Take the user's tests, or else the prompt's examples, if there are any."""
        request, found = self._request, await self._examples()
        self._entry = entry = request.entry or found.entry
        if request.tests is not None:
            kind = request.tests.kind
            self._run.suite = Suite(origin="user", kind=kind, file=request.tests, entry=entry)
        elif found.cases:
            self._run.suite = Suite(origin="prompt", kind="cases", cases=found.cases, entry=entry)

    async def write_tests(self) -> Ended | None:
        """Have tests written; where they can't be had twice, the run goes on without."""
        reply = await self._asking.read("generating", self._start_tests)
        if isinstance(reply, Ended):
            return reply
        if isinstance(reply, Lost) or reply.error is not None:
            why = str(reply) if isinstance(reply, Lost) else reply.error
            self._run.untested = f"no tests could be had: {why}"
        else:
            self._run.suite = Suite(
                origin="model", kind="cases", cases=reply.cases, entry=reply.entry
            )
        return None

    async def generate(self) -> Ended | None:
        """Write the first code, or repair the last by E."""
        reply = await self._asking.read(part_of(self._run), self._start_code)
        last = self._run.last
        return keep(self._run, "code", reply, last.author if last else None)

    async def _examples(self) -> Examples:
        request = self._request
        task = ExamplesTask(
            prompt=request.prompt,
            entry=request.entry,
            tests=request.tests.text if request.tests else None,
        )
        try:
            return await workflow.execute_local_activity(
                read_examples,
                task,
                start_to_close_timeout=LOCAL,
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            self._run.warn("the prompt's examples could not be read")
            return Examples(cases=())

    def _start_tests(self, error: str | None) -> workflow.ActivityHandle[Tests]:
        request = self._request
        return workflow.start_activity_method(
            MultiPathActivities.write_tests,
            TestsTask(
                prompt=request.prompt,
                model=request.model,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                entry=self._entry,
                seed=request.seed or 0,
                error=error,
            ),
            task_queue=TASK_QUEUE,
            summary=f"tests{AGAIN if error else ''}",
            **self._times.options,
        )

    def _start_code(self, error: str | None) -> workflow.ActivityHandle[Generated]:
        request, state, suite = self._request, self._run.state, self._run.suite
        index = len(self._run.drafts)
        repairs = ": a repair" if index else ""
        return workflow.start_activity_method(
            MultiPathActivities.generate_code,
            CodeTask(
                prompt=request.prompt,
                model=request.model,
                max_output_tokens=request.max_output_tokens,
                timeout_seconds=request.call_timeout_seconds,
                index=index,
                sources=self._run.sources,
                temperature=request.temperature,
                seed=request.seed,
                output_bytes=OUTPUT_BYTES,
                suite=suite,
                entry=suite.entry if suite else self._entry,
                code=state.output if index else None,
                failure=state.error,
                error=error,
            ),
            task_queue=TASK_QUEUE,
            summary=f"draft {index + 1}{repairs}{AGAIN if error else ''}",
            **self._times.options,
        )
