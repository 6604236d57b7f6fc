"""Estimates with their intervals, and how they are drawn."""

from collections.abc import Sequence
from math import fsum

from mull.request import Record

BINS = 10
# Rounding may leave an average just below the bin edge that it should be on.
EDGE = 1e-9
RESAMPLES = 1_000


class Estimate(Record):
    """A number and its 95 % interval, each None where it is undefined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class Bin(Record):
    """The examples of one bin: the least and the greatest score, and both means."""

    low: float
    high: float
    count: int
    score: float
    label: float


def average(values: Sequence[float]) -> float:
    """Average at least one value to 12 places, so that equal averages are equal numbers."""
    return round(fsum(values) / len(values), 12)
