"""A number with its interval, by resampling what it was computed from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from typing import NamedTuple, TypeVar

from reflection.run import Record

Name = TypeVar("Name")

Statistic = Callable[[Sequence[int]], float | None]
"""Takes how often each value counts, and gives the number, or None where it is undefined."""


class Estimate(Record):
    """A number and its 95 % interval, each None where it is undefined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class Measure(NamedTuple):
    """A statistic of those among all examples that have what it needs, by their places."""

    members: Sequence[int]
    statistic: Statistic


def estimate(
    measures: Mapping[Name, Measure], size: int, resamples: Iterable[Sequence[int]]
) -> dict[Name, Estimate]:
    """Compute each measure with its 95 % percentile bootstrap interval.

    A resample has the places, 0 to size - 1, of the examples that were drawn, with replacement;
    all measures share it. There is no interval of fewer than two examples, nor where the measure
    is undefined in more than half of the resamples; else those are left out. Where resampling
    moves a measure to one side, as it does a calibration error, the interval is extended to hold
    the value. Raises IndexError for a place that does not exist.
    Source: Efron (1979), Bootstrap methods: another look at the jackknife.
    """
    values = {name: _value(measure, [1] * size) for name, measure in measures.items()}
    drawn: dict[Name, list[float | None]] = {
        name: []
        for name, measure in measures.items()
        if values[name] is not None and len(measure.members) > 1
    }
    for resample in resamples:
        weights = _weights(resample, size)
        for name, found in drawn.items():
            found.append(_value(measures[name], weights))
    return {name: _estimate(value, drawn.get(name, ())) for name, value in values.items()}


def mean(values: Sequence[float]) -> Statistic:
    """Make the mean a statistic; undefined of nothing."""

    def statistic(weights: Sequence[int]) -> float | None:
        size = sum(weights)
        products = (weight * value for weight, value in zip(weights, values, strict=True))
        return fsum(products) / size if size else None

    return statistic


def average(values: Sequence[float]) -> float:
    """Average at least one value to 12 places, so that equal averages are equal numbers."""
    return round(fsum(values) / len(values), 12)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Interpolate between the two values nearest to a share, 0 to 1, of an ascending sequence.

    Source: Hyndman and Fan (1996), Sample quantiles in statistical packages; their definition 7.
    """
    place = share * (len(ordered) - 1)
    before = int(place)
    after = min(before + 1, len(ordered) - 1)
    return ordered[before] + (place - before) * (ordered[after] - ordered[before])


def _value(measure: Measure, weights: Sequence[int]) -> float | None:
    return measure.statistic([weights[member] for member in measure.members])


def _weights(resample: Sequence[int], size: int) -> list[int]:
    weights = [0] * size
    for place in resample:
        weights[place] += 1
    return weights


def _estimate(value: float | None, drawn: Sequence[float | None]) -> Estimate:
    found = sorted(each for each in drawn if each is not None)
    if value is None or not found or 2 * len(found) < len(drawn):
        return Estimate(value=value)
    low, high = percentile(found, 0.025), percentile(found, 0.975)
    return Estimate(value=value, low=min(low, value), high=max(high, value))
