"""What a person needs to see to say what becomes of an uncertain answer."""

from rich.console import Console
from rich.text import Text

from commands.rendering.convergence.results import votes_table
from commands.rendering.panel import Row, panel
from reflection.convergence.words.wording import answer_words
from reflection.sampling.result import Progress
from reflection.text import terminal_safe

ANSWER_COLUMNS = 2_000


def print_review(console: Console, progress: Progress) -> None:
    """Print the question, the leading answer and all votes."""
    rows: list[Row] = [
        ("question", Text(terminal_safe(progress.question, 2_000))),
        ("answer", Text(answer_words(progress.leader, ANSWER_COLUMNS), "bold")),
        ("confidence", Text(f"{progress.confidence:.2f}")),
        ("entropy", Text(f"{progress.normalized_entropy:.2f}")),
    ]
    if progress.answer_distribution:
        rows.append(("votes", votes_table(progress.answer_distribution, progress.valid_responses)))
    console.print(panel(rows))
