"""The kinds of answers, and the form under which each votes.

Two answers are one vote exactly when their forms are equal, so a form never joins answers that
differ in meaning; where that is in doubt the answers stay apart, or unreadable.
"""

from collections.abc import Callable

from reflection.convergence.answers.choices import read_choice
from reflection.convergence.answers.numbers import read_number
from reflection.convergence.answers.texts import read_text
from reflection.sampling.request import AnswerKind
from reflection.text import well_formed


def read_answer(kind: AnswerKind, raw: str | None) -> str | None:
    """Return the canonical form under which `raw` votes, or None where it can't be read.

    Reading a canonical form again gives the same form. Any text at all is taken, of any length,
    without an error; lone surrogates become U+FFFD, so that every form can be stored as UTF-8.

    - `exact`: the characters as they are, without the white space around them.
    - `text`: without case, punctuation and spacing, see `read_text`.
    - `number`: its exact value, see `read_number`.
    - `choice`: a capital letter, see `read_choice`.
    - `llm`: as `text`, so that equal texts need no question whether they mean the same.
    """
    if raw is None:
        return None
    stripped = well_formed(raw).strip()
    return READERS[kind](stripped) if stripped else None


def _as_it_is(stripped: str) -> str | None:
    return stripped


READERS: dict[AnswerKind, Callable[[str], str | None]] = {
    "exact": _as_it_is,
    "text": read_text,
    "number": read_number,
    "choice": read_choice,
    "llm": read_text,
}
