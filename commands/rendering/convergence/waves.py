"""One line for each wave while a run samples."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from reflection.convergence.words.wording import STOP_WORDS, answer_words, comparison
from reflection.sampling.result import Decision, Progress
from reflection.text import padded, terminal_safe, width
from reflection.words.blocks import bar, level

ANSWER_COLUMNS = 12


def print_wave(console: Console, progress: Progress, decisions: Sequence[Decision]) -> None:
    """Print where a run stands on one line: cut in a terminal, whole anywhere else."""
    line = wave_line(progress, decisions)
    if console.is_terminal and line.cell_len > console.width:
        line = wave_line(progress, decisions, short=True)
    if console.is_terminal:
        console.print(line, no_wrap=True, overflow="ellipsis")
    else:
        console.print(line, soft_wrap=True)


def wave_line(progress: Progress, decisions: Sequence[Decision], *, short: bool = False) -> Text:
    """Show the newest wave: answers so far, leader, confidence, entropy and the decision.

    `short` gives the numbers that the rule compared in the place of its reason.
    """
    answer = answer_words(progress.leader, ANSWER_COLUMNS) if progress.leader is not None else "-"
    columns = [width(answer_words(each, ANSWER_COLUMNS)) for each in progress.answer_distribution]
    line = Text(f"wave {progress.wave:<2}")
    line.append(f"{progress.total_responses:>3} of {progress.max_responses}  ")
    line.append(padded(answer, max([*columns, 3])), "bold")
    line.append(f"  {progress.confidence:.2f} {bar(progress.confidence, 8)}", "green")
    scaled = progress.normalized_entropy
    line.append(f"  H {scaled:.2f} {level(scaled)}  ", "magenta")
    return line.append_text(_outcome(progress, decisions, short=short))


def _outcome(progress: Progress, decisions: Sequence[Decision], *, short: bool) -> Text:
    last = decisions[-1] if decisions else None
    if progress.stop_reason is not None and not (last and last.stop):
        return Text(f"stop: {STOP_WORDS[progress.stop_reason]}", "bold")
    if last is None:
        return Text(f"{progress.in_flight} in flight", "dim")
    why = (short and comparison(last, 3)) or terminal_safe(last.reason, 200)
    words = f"{'stop' if last.stop else 'go on'}: {why}"
    return Text(words, "bold" if last.stop else "dim")
