"""What a judge is calibrated on: labelled examples, and its evaluations of them."""

from typing import Annotated

from pydantic import Field

from reflection.run import Record

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Example(Record):
    """One labelled draft: `label` is 0 to 1, where pass is 1 and fail is 0.

    `writer` is the model that wrote the draft, None where nobody knows.
    """

    query: str
    draft: str
    label: Share
    writer: str | None = None


class Scored(Record):
    """One evaluation of one example by one judge.

    `example` is its place in the labelled set, `repeat` counts the evaluations of the same kind,
    both from 0. `reversed`: the criteria were listed in reverse. `score` is None where the
    evaluation failed. `scores` are by criterion, in the order asked. Tokens and US dollars are
    None where the provider did not say.
    """

    example: int = Field(ge=0)
    judge: str
    repeat: int = Field(0, ge=0)
    reversed: bool = False
    score: Share | None = None
    scores: dict[str, Share] = Field(default_factory=dict)
    tokens: int | None = None
    cost_usd: float | None = None
