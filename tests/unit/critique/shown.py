"""A terminal that tests can read, and where a run stands."""

from io import StringIO

from rich.console import Console

from reflection.critique.loop import Reflection, progress
from reflection.critique.result import Progress, Step


def console(width: int = 80, *, terminal: bool = False) -> Console:
    """Return a console without colour that keeps what it is given."""
    return Console(
        file=StringIO(),
        width=width,
        force_terminal=terminal,
        color_system=None,
        no_color=True,
        legacy_windows=False,
    )


def written(on: Console) -> str:
    """Return what was printed, without the spaces at the ends of lines."""
    assert isinstance(on.file, StringIO)
    return "\n".join(line.rstrip() for line in on.file.getvalue().splitlines())


def standing(state: Reflection) -> Progress:
    """Say where a run stands that goes on, or waits for a person."""
    waits = state.last is not None and state.last.waits_for_review
    step: Step = "waiting_for_review" if waits else "evaluating"
    return progress(state, step, 0, None)
