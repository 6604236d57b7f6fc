"""What a run of the agent asks of language models."""

from activities.agent.activities import MultiPathActivities
from activities.agent.coding import CodeTask, Tests, TestsTask
from activities.agent.receipt import Replied
from activities.agent.reporting import Reflected, ReflectionTask, ReportTask
from activities.agent.routing import Routed, RouteTask
from activities.agent.writing import Generated

__all__ = [
    "CodeTask",
    "Generated",
    "MultiPathActivities",
    "Reflected",
    "ReflectionTask",
    "Replied",
    "ReportTask",
    "RouteTask",
    "Routed",
    "Tests",
    "TestsTask",
]
