"""What one method did with one question, and what that comes to."""

from pydantic import Field

from reflection.critique.calibration.estimate import Estimate
from reflection.run import Record


class Outcome(Record):
    """One method's result for one question, of which `question` is the place, from 0.

    `right` is None where nobody knows what is right, `score` (0 to 1) where there is none. Tokens
    in and out together, US dollars and seconds are None where they are not known.
    """

    question: int = Field(ge=0)
    method: str
    right: bool | None = None
    score: float | None = Field(None, allow_inf_nan=False)
    tokens: int | None = Field(None, ge=0)
    cost_usd: float | None = Field(None, ge=0, allow_inf_nan=False)
    seconds: float | None = Field(None, ge=0, allow_inf_nan=False)


class Mean(Record):
    """A mean over the `known` questions of which the value is known; None where there are none."""

    value: float | None
    known: int


class Method(Record):
    """One method over all questions that it answered.

    `accuracy` is the share, 0 to 1, of the `judged` questions that it got right, with Wilson's
    interval, and `score` the mean score with a bootstrap interval, both of 95 %. Tokens, US
    dollars and seconds are for one question.
    """

    method: str
    questions: int
    judged: int
    right: int
    accuracy: Estimate
    score: Estimate
    tokens: Mean
    cost_usd: Mean
    seconds: Mean


class Paired(Record):
    """One method against the baseline, question by question.

    `questions` counts those on which both are known to be right or wrong, or both have a score,
    and `unpaired` names all others. Differences are the method's less the baseline's, with 95 %
    intervals. `p_value` is the exact two-sided one of McNemar. `tokens_change` is in percent of
    the baseline's tokens, over all questions of which both methods' tokens are known. Each is
    None where there is nothing to compare.
    """

    method: str
    baseline: str
    questions: int
    unpaired: tuple[int, ...]
    accuracy: Estimate
    score: Estimate
    wrong_to_right: int | None
    right_to_wrong: int | None
    p_value: float | None
    tokens_change: float | None


class Comparison(Record):
    """All methods in the order in which they are first met, and all but one against that one."""

    questions: int
    baseline: str | None
    methods: tuple[Method, ...]
    paired: tuple[Paired, ...]
