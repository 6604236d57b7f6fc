"""A run of reflection: a line for each draft, then why it ended and what the best one is worth."""

from commands.rendering.critique.drafts import decisions_table, drafts_table
from commands.rendering.critique.lines import decision_line, print_decision
from commands.rendering.critique.live import DraftsLive
from commands.rendering.critique.results import print_details
from commands.rendering.critique.reviews import print_review
from commands.rendering.critique.standing import print_progress

__all__ = [
    "DraftsLive",
    "decision_line",
    "decisions_table",
    "drafts_table",
    "print_decision",
    "print_details",
    "print_progress",
    "print_review",
]
