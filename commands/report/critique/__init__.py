"""The page of a run of reflection."""

from commands.report.critique.page import report_html

__all__ = ["report_html"]
