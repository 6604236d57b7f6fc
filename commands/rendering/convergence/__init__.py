"""A run of self-consistency: a line a wave while it samples, then its answer."""

from commands.rendering.convergence.decisions import decisions_table
from commands.rendering.convergence.live import WavesLive
from commands.rendering.convergence.results import print_result, reply_line, result_panel
from commands.rendering.convergence.reviews import print_review
from commands.rendering.convergence.standing import print_progress
from commands.rendering.convergence.waves import print_wave, wave_line

__all__ = [
    "WavesLive",
    "decisions_table",
    "print_progress",
    "print_result",
    "print_review",
    "print_wave",
    "reply_line",
    "result_panel",
    "wave_line",
]
