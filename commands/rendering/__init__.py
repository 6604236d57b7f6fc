"""A run in the terminal: one line a wave while it samples, then the answer and why it stopped.

Everything is built of `Text`, never of rich's markup, so that `[red]` in an answer stays what it
is. Colour only ever repeats what a word says.
"""

from commands.rendering.decisions import decisions_table
from commands.rendering.results import print_result, reply_line, result_panel
from commands.rendering.standing import print_progress
from commands.rendering.waves import print_wave, wave_line

__all__ = [
    "decisions_table",
    "print_progress",
    "print_result",
    "print_wave",
    "reply_line",
    "result_panel",
    "wave_line",
]
