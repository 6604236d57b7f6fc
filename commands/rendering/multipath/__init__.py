"""A run of the agent: a line for each node, then what came of it and what is still open."""

from commands.rendering.multipath.decisions import decisions_table
from commands.rendering.multipath.live import NodesLive, indexing_words
from commands.rendering.multipath.results import print_details
from commands.rendering.multipath.standing import print_progress, print_review

__all__ = [
    "NodesLive",
    "decisions_table",
    "indexing_words",
    "print_details",
    "print_progress",
    "print_review",
]
