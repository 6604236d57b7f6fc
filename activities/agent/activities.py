"""The activities of the agent that ask a model; their types are the names of the nodes."""

from temporalio import activity

from activities.agent import coding, reporting, routing
from activities.agent.coding import CodeTask, Tests, TestsTask
from activities.agent.reporting import Reflected, ReflectionTask, ReportTask
from activities.agent.routing import Routed, RouteTask
from activities.agent.writing import Generated
from activities.language_model import LanguageModel


class MultiPathActivities:
    """What a run of the agent asks of language models; `judge` reflects where none is named.

    Each asks once. A reply that can't be had (filtered, refused, empty) or read is a reply with an
    error; every other fault is an ApplicationError, non-retryable where no call like it can work.
    """

    def __init__(self, model: LanguageModel, judge: str | None = None) -> None:
        self._model = model
        self._judge = judge

    @activity.defn
    async def route(self, task: RouteTask) -> Routed:
        """Ask whether a prompt is for research or for code."""
        return await routing.route(self._model, task)

    @activity.defn
    async def generate_report(self, task: ReportTask) -> Generated:
        """Ask for a report, or for a better one."""
        return await reporting.generate_report(self._model, task)

    @activity.defn
    async def reflect_on_report(self, task: ReflectionTask) -> Reflected:
        """Ask what is wrong with a report."""
        judged = task.model_copy(update={"model": task.model or self._judge or task.writer})
        return await reporting.reflect_on_report(self._model, judged)

    @activity.defn
    async def generate_code(self, task: CodeTask) -> Generated:
        """Ask for code, or for better code."""
        return await coding.generate_code(self._model, task)

    @activity.defn
    async def write_tests(self, task: TestsTask) -> Tests:
        """Ask for tests of code that is not written yet."""
        return await coding.write_tests(self._model, task)
