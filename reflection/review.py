"""What people say to any run: that it shall end, or what becomes of a result that waits."""

from typing import Self

from pydantic import Field, model_validator

from reflection.request import Request

REPLACEMENT_CHARACTERS = 100_000


class Review(Request):
    """One of the four things that a person may do, and who it is.

    `accept` takes the result as it is, `revise` says what to change, `replace` is a text to take
    instead, and `score` (0 to 1) is the person's own. `draft` is the index, from 0, of the draft
    that they looked at: where another one is under review meanwhile, nothing is done.
    """

    accept: bool = False
    revise: str | None = Field(None, min_length=1, max_length=4_000)
    replace: str | None = Field(None, min_length=1, max_length=REPLACEMENT_CHARACTERS)
    score: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    author: str | None = Field(None, min_length=1, max_length=200)
    draft: int | None = Field(None, ge=0)

    @property
    def action(self) -> str:
        """Which of the four it is, by its name."""
        given = {"revise": self.revise, "replace": self.replace, "score": self.score}
        return next((name for name, value in given.items() if value is not None), "accept")

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        given = [self.accept, *(x is not None for x in (self.revise, self.replace, self.score))]
        if sum(given) != 1:
            raise ValueError("give one of accept, revise, replace and score")
        if not (self.revise or self.replace or "x").strip():
            raise ValueError("give words, not white space alone")
        return self


class Finish(Request):
    """A person's wish to end a run with what there is."""

    author: str | None = Field(None, min_length=1, max_length=200)
