"""A text as the command's own output."""

import sys

from reflection.text import neutral, well_formed


def with_newline(text: str) -> str:
    """End a text with exactly one line end, as files of text and code do."""
    return text.rstrip("\n") + "\n"


def print_text(text: str) -> None:
    """Write a text to standard output: to the letter for a file or a pipe.

    In a terminal its control characters are made visible, and it ends with a line end.
    """
    if sys.stdout.isatty():
        sys.stdout.write(neutral(text).rstrip("\n") + "\n\n")
    else:
        sys.stdout.write(well_formed(text))
    sys.stdout.flush()
