"""All that a labelled set says of each judge."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflection.critique.calibration.calibration import Calibration, calibrate
from reflection.critique.calibration.estimate import Estimate
from reflection.critique.calibration.records import Example, Scored

SHARES = st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])
EXAMPLES = st.lists(
    st.builds(
        Example,
        query=st.just("q"),
        draft=st.text("x", max_size=3),
        label=SHARES,
        writer=st.sampled_from(["a", "b", None]),
    ),
    min_size=1,
    max_size=4,
)
RATES = ("auc", "calibration_error")
CORRELATIONS = ("spearman", "kendall", "length_bias", "position_bias", "self_preference")


def test_agreement() -> None:
    """Scores are averaged over repeats with the criteria in order, and compared with labels."""
    examples = _labelled(0.0, 0.2, 0.6, 1.0)
    scored = [_scored(0, 0.2), _scored(0, 0.4), _scored(1, 0.3), _scored(2, 0.8), _scored(3, 0.9)]
    scored.append(_scored(3, 0.0, in_reverse=True))

    found = calibrate(examples, scored, [])[0]

    assert found.spearman.value == pytest.approx(0.948683, abs=1e-6)
    assert found.kendall.value == pytest.approx(0.912871, abs=1e-6)
    assert found.auc.value == 1.0
    assert found.calibration_error.value == pytest.approx(0.175)
    assert [each.count for each in found.reliability] == [0, 0, 0, 2, 0, 0, 0, 0, 1, 1]


def test_threshold_and_repeats() -> None:
    """Repeats are compared at the recommended threshold."""
    scored = [_scored(0, 0.2), _scored(0, 0.4), _scored(1, 0.6), _scored(1, 0.6)]

    found = calibrate(_labelled(0.0, 1.0), scored, [])[0]

    assert found.recommended is not None
    assert found.recommended.threshold == 0.45
    assert (found.repeatability.threshold, found.repeatability.same_verdict) == (0.45, 1.0)
    assert found.at_source is not None
    assert found.at_source.false_fails == 1


def test_repeats_without_a_recommendation() -> None:
    """Where no threshold is recommended, repeats are compared at the source's 0.7."""
    scored = [_scored(0, 0.6), _scored(0, 0.8)]

    found = calibrate(_labelled(1.0), scored, [])[0]

    assert found.recommended is None
    assert (found.repeatability.threshold, found.repeatability.same_verdict) == (0.7, 0.0)


def test_biases() -> None:
    """Writers, lengths and orders each have their number."""
    examples = [
        Example(query="q", draft="x" * 10, label=0.5, writer="judge"),
        Example(query="q", draft="x" * 99, label=0.5, writer="other"),
    ]
    scored = [
        _scored(0, 0.9, {"a": 0.9, "b": 0.9}),
        _scored(0, 0.7, {"b": 0.9, "a": 0.5}, in_reverse=True),
        _scored(1, 0.6, {"a": 0.6, "b": 0.6}),
    ]

    found = calibrate(examples, scored, [])[0]

    assert found.self_preference.value == pytest.approx(0.3)
    assert found.length_bias.value == -1.0
    assert found.position_bias.value == pytest.approx(0.2)


def test_failures() -> None:
    """An example fails where none of its evaluations in order gave a score."""
    scored = [_scored(0, None), _scored(0, 0.4), _scored(1, None), _scored(1, 0.9, in_reverse=True)]

    found = calibrate(_labelled(0.0, 1.0, 1.0), scored, [])[0]

    assert (found.examples, found.evaluated, found.failed) == (2, 1, 1)
    assert (found.evaluations, found.failed_evaluations) == (4, 2)


@pytest.mark.parametrize(
    ("tokens", "usd", "expected"),
    [
        ([100, 200], [0.1, 0.2], (300, pytest.approx(0.3))),
        ([100, None], [None, 0.2], (None, None)),
        ([0, 0], [0.0, 0.0], (0, 0.0)),
    ],
)
def test_cost(
    tokens: list[int | None], usd: list[float | None], expected: tuple[object, object]
) -> None:
    """Cost is that of every evaluation, a failed one too, and unknown where one is unknown."""
    spent = zip((0.5, None), tokens, usd, strict=True)
    scored = [
        Scored(example=0, judge="judge", score=score, tokens=each, cost_usd=cost)
        for score, each, cost in spent
    ]

    found = calibrate(_labelled(1.0), scored, [])[0]

    assert (found.tokens, found.cost_usd) == expected


def test_judges_share_resamples() -> None:
    """Two judges with the same scores have the same intervals, from resamples given once."""
    examples = _labelled(*[place / 20 for place in range(20)])
    chance = Random(1)
    scores = [min(1.0, max(0.0, each.label + chance.gauss(0, 0.2))) for each in examples]
    scored = [
        Scored(example=place, judge=judge, score=score)
        for judge in ("b", "a")
        for place, score in enumerate(scores)
    ]

    one, two = calibrate(examples, scored, (chance.choices(range(20), k=20) for _ in range(200)))

    assert (one.judge, two.judge) == ("b", "a")
    assert one.spearman == two.spearman
    assert None not in {one.spearman.low, one.spearman.value, one.spearman.high}
    assert -1 < (one.spearman.low or 0) < (one.spearman.value or 0) < (one.spearman.high or 0) < 1


def test_every_evaluation_failed() -> None:
    """Of a judge that never gave a score nothing is said but how often it failed."""
    found = calibrate(_labelled(0.0, 1.0), [_scored(0, None), _scored(1, None)], [(0, 1)])[0]

    assert (found.evaluated, found.failed) == (0, 2)
    assert found.spearman == found.auc == found.calibration_error == Estimate()
    assert (found.recommended, found.at_source) == (None, None)


def test_no_evaluation() -> None:
    """Without an evaluation there is no judge to calibrate."""
    assert calibrate([], [], []) == ()


def test_no_such_example() -> None:
    """An evaluation of an example that is not there is refused."""
    with pytest.raises(ValueError, match="an evaluation of example 1, of 1 from 0"):
        calibrate(_labelled(1.0), [_scored(1, 0.5)], [])


@given(EXAMPLES, st.data())
def test_degenerate_sets(examples: list[Example], data: st.DataObject) -> None:
    """Whatever was labelled and scored, each number is within its range or None."""
    places = st.integers(0, len(examples) - 1)
    criteria = st.dictionaries(st.sampled_from("pqr"), SHARES)
    evaluation = st.builds(
        Scored,
        example=places,
        judge=st.just("a"),
        reversed=st.booleans(),
        score=st.none() | SHARES,
        scores=criteria,
    )
    scored = data.draw(st.lists(evaluation, min_size=1, max_size=8))
    drawn = st.lists(places, min_size=len(examples), max_size=len(examples))

    found = calibrate(examples, scored, data.draw(st.lists(drawn, max_size=4)))[0]

    assert all(0 <= each <= 1 for each in _numbers(found, RATES))
    assert all(-2 <= each <= 2 for each in _numbers(found, CORRELATIONS))


def _numbers(found: Calibration, names: tuple[str, ...]) -> list[float]:
    estimates: list[Estimate] = [getattr(found, name) for name in names]
    numbers = [number for each in estimates for number in (each.low, each.value, each.high)]
    return [number for number in numbers if number is not None]


def _labelled(*labels: float) -> list[Example]:
    return [Example(query="q", draft="d", label=label) for label in labels]


def _scored(
    example: int,
    score: float | None,
    scores: dict[str, float] | None = None,
    in_reverse: bool = False,
) -> Scored:
    return Scored(
        example=example, judge="judge", score=score, scores=scores or {}, reversed=in_reverse
    )
