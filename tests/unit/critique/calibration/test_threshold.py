"""From which score on a draft should pass."""

import pytest

from reflection.critique.calibration.threshold import Verdicts, recommend, verdicts

NO, YES = False, True


@pytest.mark.parametrize(
    ("scores", "passes", "threshold", "youden", "accuracy", "wrong"),
    [
        ([0.2, 0.4, 0.6, 0.8], [NO, NO, YES, YES], 0.5, 1.0, 1.0, (0, 0)),
        # 0.35 and 0.75 have the same J; the second is nearer to 0.7.
        ([0.2, 0.5, 0.6, 0.9], [NO, YES, NO, YES], 0.75, 0.5, 0.75, (0, 1)),
        # 0.65 and 0.75 are as good and as near: the lower one.
        ([0.6, 0.7, 0.7, 0.8], [NO, YES, NO, YES], 0.65, 0.5, 0.75, (1, 0)),
        # 0.495 would be shown as 0.49, which lets 0.49 pass: 0.5 still tells the two apart.
        ([0.3, 0.49, 0.5, 0.8], [NO, NO, YES, YES], 0.5, 1.0, 1.0, (0, 0)),
        ([0.3, 0.491, 0.492, 0.8], [NO, NO, YES, YES], 0.4915, 1.0, 1.0, (0, 0)),
        # Balanced: letting one of ten fails through is less than failing the only pass.
        ([0.3] * 9 + [0.5, 0.5], [NO] * 9 + [NO, YES], 0.4, 0.9, 10 / 11, (1, 0)),
    ],
)
def test_recommend(
    scores: list[float],
    passes: list[bool],
    threshold: float,
    youden: float,
    accuracy: float,
    wrong: tuple[int, int],
) -> None:
    """The recommended threshold has the greatest J, among equals the one nearest to 0.7."""
    found = recommend(scores, passes)

    assert found is not None
    assert found.threshold == threshold
    assert found.youden == pytest.approx(youden)
    assert (found.accuracy, found.false_passes, found.false_fails) == (accuracy, *wrong)


@pytest.mark.parametrize(
    ("scores", "passes"),
    [
        ([0.2, 0.8], [YES, YES]),
        ([0.2, 0.8], [NO, NO]),
        ([0.5, 0.5], [NO, YES]),
        ([0.9, 0.1], [NO, YES]),
        ([0.4, 0.4, 0.6, 0.6], [NO, YES, NO, YES]),
        ([], []),
    ],
)
def test_nothing_to_recommend(scores: list[float], passes: list[bool]) -> None:
    """No threshold is recommended where none tells passes from fails."""
    assert recommend(scores, passes) is None


def test_verdicts_at_the_sources_threshold() -> None:
    """Without another threshold a score of 0.7 passes, and one below fails."""
    found = verdicts([0.7, 0.69, 0.9, 0.2], [NO, YES, YES, NO])

    assert found == Verdicts(threshold=0.7, accuracy=0.5, youden=0.0, false_passes=1, false_fails=1)


def test_one_class() -> None:
    """Where there are passes alone, verdicts are right or wrong, and there is no J."""
    found = verdicts([0.9, 0.1], [YES, YES])

    assert found == Verdicts(
        threshold=0.7, accuracy=0.5, youden=None, false_passes=0, false_fails=1
    )


def test_no_verdicts() -> None:
    """Of no example there are no verdicts."""
    assert verdicts([], []) is None
