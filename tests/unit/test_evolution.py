"""How confidence and entropy moved from answer to answer."""

import pytest

from reflection.sampling.tally import ConvergenceAnalysis, Tally, analyse, rate, stability


def evolution_of(answers: str) -> ConvergenceAnalysis:
    tally = Tally()
    measured = [tally.add(answer) for answer in answers]
    return analyse(
        [each.confidence for each in measured], [each.normalized_entropy for each in measured]
    )


def test_no_answer() -> None:
    """Without an answer the series are empty, the rates 0 and the stabilities 1."""
    found = analyse([], [])

    assert found == ConvergenceAnalysis(
        confidence_evolution=(),
        entropy_evolution=(),
        convergence_rate=0.0,
        final_stability=1.0,
        entropy_convergence_rate=0.0,
        entropy_final_stability=1.0,
    )


def test_one_answer() -> None:
    """With one answer the series have its confidence and entropy; rates are 0, stabilities 1."""
    found = evolution_of("A")

    assert found.confidence_evolution == (1.0,)
    assert found.entropy_evolution == (0.0,)
    assert (found.convergence_rate, found.entropy_convergence_rate) == (0.0, 0.0)
    assert (found.final_stability, found.entropy_final_stability) == (1.0, 1.0)


def test_two_answers_have_a_rate() -> None:
    """Two answers give a rate, and three are needed for a stability."""
    found = evolution_of("AB")

    assert (found.convergence_rate, found.entropy_convergence_rate) == (-0.25, 0.5)
    assert (found.final_stability, found.entropy_final_stability) == (1.0, 1.0)


def test_the_first_table() -> None:
    """The five answers of the source's first table have the series that its formulas give."""
    found = evolution_of("AAABA")

    assert found.confidence_evolution == (1.0, 1.0, 1.0, 0.75, 0.8)
    assert found.entropy_evolution == pytest.approx((0, 0, 0, 0.811278, 0.721928), abs=1e-6)
    assert found.convergence_rate == pytest.approx(-0.04)
    assert found.final_stability == pytest.approx(0.75)
    assert found.entropy_convergence_rate == pytest.approx(0.144386, abs=1e-6)
    assert found.entropy_final_stability == pytest.approx(0.188722, abs=1e-6)


@pytest.mark.parametrize(
    ("series", "change", "steady"),
    [
        ((0.5, 0.67, 0.75, 0.8, 0.8), 0.06, 0.95),
        ((1.0, 0.92, 0.81, 0.72, 0.72), -0.056, 0.91),
        ((0.2, 0.9), 0.35, 1.0),
        ((0.2, 0.9, 0.2), 0.0, 0.3),
        ((0.9, 0.2, 0.5, 0.5, 0.5), -0.08, 1.0),
    ],
)
def test_rate_and_stability(series: tuple[float, ...], change: float, steady: float) -> None:
    """A rate divides by the length of the series; a stability is 1 less the last three's spread."""
    found = rate(series), stability(series)

    assert found == pytest.approx((change, steady))
