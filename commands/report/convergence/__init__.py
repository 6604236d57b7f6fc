"""The page of a run of self-consistency."""

from commands.report.convergence.page import report_html

__all__ = ["report_html"]
