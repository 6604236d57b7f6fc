"""That a run waits for a person, and how that person answers."""

from datetime import datetime

from rich.console import Console
from rich.text import Text

from reflection.text import until_words


def print_waiting(console: Console, run: str, until: datetime | None) -> None:
    """Print on one line that a run waits for a person, and the command to type."""
    line = Text("waits for a person", "bold")
    line.append(f" {until_words(until)}".rstrip() + f": starter.py review {run}")
    console.print(line, soft_wrap=True, highlight=False)
