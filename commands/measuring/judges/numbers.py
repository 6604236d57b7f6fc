"""The numbers of a calibration in words, for the terminal and the page alike."""

from collections.abc import Callable
from typing import NamedTuple

from reflection.critique.calibration.calibration import Calibration
from reflection.critique.calibration.estimate import Estimate
from reflection.text import usd

NONE = "-"


class Number(NamedTuple):
    """One row: its name, what would be best, the number, and the interval below it."""

    name: str
    best: str
    value: Callable[[Calibration], str]
    interval: Callable[[Calibration], str] | None = None


def value_of(found: Estimate, *, signed: bool = False) -> str:
    """Write a number to two places; one that is undefined is a dash."""
    if found.value is None:
        return NONE
    return _signed(found.value) if signed else f"{found.value:.2f}"


def interval_of(found: Estimate, *, signed: bool = False) -> str:
    """Write a 95 % interval; where there is none it is nothing."""
    if found.low is None or found.high is None:
        return ""
    ends = (_signed(each) if signed else f"{each:.2f}" for each in (found.low, found.high))
    return " to ".join(ends)


def share(value: float | None) -> str:
    """Write a share in percent; None is a dash."""
    return NONE if value is None else f"{value:.0%}"


def _signed(value: float) -> str:
    # -0.004 is no loss at two places, and shall not look like one.
    return f"{round(value, 2) + 0.0:+.2f}"


def _estimated(name: str, best: str, field: str, *, signed: bool = False) -> Number:
    def found(one: Calibration) -> Estimate:
        given: Estimate = getattr(one, field)
        return given

    return Number(
        name,
        best,
        lambda one: value_of(found(one), signed=signed),
        lambda one: interval_of(found(one), signed=signed),
    )


def _deviation(found: Calibration) -> str:
    deviation = found.repeatability.deviation
    return NONE if deviation is None else f"{deviation:.3f}"


def _threshold(found: Calibration) -> str:
    return "none" if found.recommended is None else f"{found.recommended.threshold:.2f}"


def _tokens(found: Calibration) -> str:
    return "unknown" if found.tokens is None else f"{found.tokens:,}"


NUMBERS = (
    Number("examples scored", "", lambda one: f"{one.evaluated:,} of {one.examples:,}"),
    _estimated("Spearman's rank correlation", "1", "spearman"),
    _estimated("Kendall's tau-b", "1", "kendall"),
    _estimated("AUC, pass against fail", "1", "auc"),
    _estimated("expected calibration error", "0", "calibration_error"),
    _estimated("self-preference gap", "0", "self_preference", signed=True),
    _estimated("length bias", "0", "length_bias", signed=True),
    _estimated("position bias", "0", "position_bias", signed=True),
    Number("deviation when repeated", "0", _deviation),
    Number("same verdict when repeated", "100%", lambda one: share(one.repeatability.same_verdict)),
    Number("recommended threshold", "", _threshold),
    Number(
        "accuracy at it",
        "100%",
        lambda one: share(one.recommended.accuracy if one.recommended else None),
    ),
    Number(
        "accuracy at 0.70",
        "100%",
        lambda one: share(one.at_source.accuracy if one.at_source else None),
    ),
    Number("evaluations", "", lambda one: f"{one.evaluations:,}"),
    Number("of them failed", "0", lambda one: f"{one.failed_evaluations:,}"),
    Number("tokens", "", _tokens),
    Number("cost", "", lambda one: usd(one.cost_usd)),
)
