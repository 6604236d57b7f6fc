"""The sheet of a run without a result: its error first, and what to do."""

from types import SimpleNamespace
from typing import Any

import pytest

from commands.found import error_sheet
from mull import Run, RunCancelledError, RunFailedError
from mull.handle import TERMINATED
from mull.loops import SAMPLING
from mull.request import INVALID
from mull.sampling.request import SelfConsistencyRequest

REPEAT = "To start it anew, repeat its command with --id asked."
KEYS = "`mull doctor` shows the keys that are set. Mend that first. "


@pytest.mark.parametrize(
    ("error", "words", "advice"),
    [
        (RunCancelledError("asked"), "the run was cancelled", ()),
        (RunFailedError("asked", TERMINATED, "by ann"), "the run was terminated", (REPEAT,)),
        (
            RunFailedError("asked", INVALID, "too few"),
            f"the run failed. {INVALID}: too few",
            ("Change the request, and start another run.",),
        ),
        (
            RunFailedError("asked", "AuthenticationError", "no \x1b[31m key"),
            "the run failed. AuthenticationError: no \u241b[31m key",
            (KEYS + REPEAT,),
        ),
    ],
)
def test_an_error_comes_with_what_to_do(
    error: RunFailedError | RunCancelledError, words: str, advice: tuple[str, ...]
) -> None:
    """Who cancelled a run needs no advice; what was typed by others shows its control codes."""
    handle: Any = SimpleNamespace(id="asked")
    run = Run[Any](handle, SAMPLING, handle)

    sheet = error_sheet(error, run, None, SelfConsistencyRequest(question="How much?"))

    assert (sheet.verdict.words, sheet.verdict.tone) == (words, "bad")
    assert (sheet.flags, sheet.subject, sheet.answer) == (advice, "How much?", None)
