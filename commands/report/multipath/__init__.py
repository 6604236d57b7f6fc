"""The page of a run of the agent."""

from commands.report.multipath.page import report_html

__all__ = ["report_html"]
