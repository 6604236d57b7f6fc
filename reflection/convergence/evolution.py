"""How confidence and entropy moved from answer to answer."""

from collections.abc import Sequence

from reflection.request import Record


class ConvergenceAnalysis(Record):
    """The series of confidence and normalized entropy after each counted answer, each 0 to 1.

    A rate is (last - first) / length, 0 below two values. A stability is 1 - (max - min) of the
    last three values, 1 below three. Source: the self-reflection agent's pseudo-code.
    """

    confidence_evolution: tuple[float, ...] = ()
    entropy_evolution: tuple[float, ...] = ()
    convergence_rate: float = 0.0
    final_stability: float = 1.0
    entropy_convergence_rate: float = 0.0
    entropy_final_stability: float = 1.0


def analyse(confidences: Sequence[float], entropies: Sequence[float]) -> ConvergenceAnalysis:
    """Analyse both series, which have one value for each counted answer."""
    return ConvergenceAnalysis(
        confidence_evolution=tuple(confidences),
        entropy_evolution=tuple(entropies),
        convergence_rate=rate(confidences),
        final_stability=stability(confidences),
        entropy_convergence_rate=rate(entropies),
        entropy_final_stability=stability(entropies),
    )


def rate(series: Sequence[float]) -> float:
    """Compute the mean change for each value of the series; 0 below two values."""
    return (series[-1] - series[0]) / len(series) if len(series) >= 2 else 0.0


def stability(series: Sequence[float]) -> float:
    """Compute 1 minus the spread of the last three values; 1 below three values."""
    return 1.0 - (max(series[-3:]) - min(series[-3:])) if len(series) >= 3 else 1.0
