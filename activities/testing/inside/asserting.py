"""Assertions that count themselves, and say what they compared when they fail."""

from collections.abc import Callable

from .values import shown

SAME = {"==", "is"}
IN_WORDS = 200
STARTED_BYTES = 60_000


class Assertions:
    """What a script's assertions came to: how many held, and what those that fail compared.

    `say` prints the statement that is run next, for the case that the program ends within it, and
    returns how many bytes that took.
    """

    def __init__(self, say: Callable[..., int]) -> None:
        self.passed = 0
        self.ran = False
        self._say = say
        self._left = STARTED_BYTES
        self._started: str | None = None

    def begin(self, statement: str) -> None:
        """Say which statement begins, unless it is the one before again.

        Once STARTED_BYTES are said none is named any more, rather than a wrong one.
        """
        if statement != self._started and self._left > 0:
            self._started = statement
            self._left -= self._say(started=statement, held=self.passed)
            if self._left <= 0:
                self._say(started=None)

    def hold(self) -> None:
        """Count an assertion that holds."""
        self.passed += 1
        self.ran = True

    def failure(self, test: str, words: str, got: object, *more: object) -> AssertionError:
        """Make the error of an assertion: its source, its operator, and what it compared."""
        self.ran = True
        error = AssertionError(*[each for each in more[-1:] if each is not None])
        compared = {"test": test, "got": shown(got)}
        if words in SAME:
            compared["expected"] = shown(more[0])
        compared["message"] = _words(words, got, more)
        error.__dict__["compared"] = compared
        return error


def _words(words: str, got: object, more: tuple[object, ...]) -> str:
    value = shown(got, IN_WORDS)
    if words == "not":
        return f"{value} is not false"
    return (
        f"{value} {words} {shown(more[0], IN_WORDS)} is false" if words else f"{value} is not true"
    )
