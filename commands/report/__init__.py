"""A whole run in one HTML file that needs nothing else: to keep, send and print."""

from commands.report.page import report_html

__all__ = ["report_html"]
