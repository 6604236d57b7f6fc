"""The node `test_code`."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.sandbox.port import TASK_QUEUE
    from activities.testing.activity import TestingActivities, TestTask
    from reflection.multipath.loop import Run
    from reflection.multipath.suite import Suite, TestReport
    from workflows import failures
    from workflows.calls import Calls
    from workflows.multipath.nodes.asking import Ended
    from workflows.timeouts import test_times


class Tester:
    """The run of the newest code's tests, in a worker's sandbox."""

    def __init__(self, run: Run, calls: Calls) -> None:
        self._run = run
        self._calls = calls

    async def test(self) -> Ended | None:
        """Find E of the newest code; where it can't be tested, the run ends."""
        suite = self._run.suite
        if suite is None:
            return Ended("test_failed", self._run.untested or "there are no tests")
        reply = await self._calls.reply(self._start(suite))
        if reply.error is not None:
            why = failures.explain(reply.error)
            return Ended("test_failed", f"the code could not be tested: {why}")
        if reply.value is None:
            return Ended(None)
        self._run.tested(reply.value)
        return None

    def _start(self, suite: Suite) -> workflow.ActivityHandle[TestReport]:
        request, index = self._run.request, len(self._run.drafts) - 1
        return workflow.start_activity_method(
            TestingActivities.test_code,
            TestTask(
                index=index,
                code=self._run.state.output,
                suite=suite,
                language=request.language,
                packages=request.packages,
                limits=request.limits,
            ),
            task_queue=TASK_QUEUE,
            summary=f"draft {index + 1}: {_tests(suite)}",
            **test_times(request.limits.wall_seconds, request.max_attempts).options,
        )


def _tests(suite: Suite) -> str:
    return suite.file.name if suite.file is not None else f"{len(suite.cases)} tests"
