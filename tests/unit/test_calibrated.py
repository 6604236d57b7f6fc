"""What a calibration map tells of a run, and when it tells nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from commands.measuring.replay import log_line
from mull.request import parse_request
from mull.sampling.loop import Sampling
from mull.sampling.probability import CalibrationMap, Knot, Measured, Setup, nearest, probability
from mull.sampling.prompts import hash_prompt
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import Bars
from mull.sampling.rules import Stopping
from tests.unit.runs import failed, finished, put_in
from tests.unit.sheets import fact, told

MODEL = "openai/gpt-test"
KNOTS = [Knot(0.5, 0.2), Knot(0.875, 0.9)]


def made(**changes: Any) -> CalibrationMap:
    """Return a map that says 0.9 of three equal votes by the preset thrifty."""
    known: dict[str, Any] = {
        "name": "sums", "model": MODEL, "temperature": 0.7, "answers": "exact", "knots": KNOTS,
        "prompt_hash": hash_prompt(None, "exact"),
        "stopping": Stopping(rule="predictive", epsilon=0.05, max_responses=10),
        "measured": Measured(
            method="isotonic", questions=500, held_out=250, ece=0.0123, ece_raw=0.1,
            ece_floor=0.01, brier=0.1, brier_raw=0.2, targets={},
        ),
    }  # fmt: skip
    return CalibrationMap(**known | changes)


def asked(answers: list[Any], calibration: CalibrationMap | None, **settings: Any) -> Sampling:
    return finished(answers, preset="thrifty", calibration=calibration, **settings)


def test_a_map_tells_how_likely_the_answer_is_right() -> None:
    """The result names the map, its questions and its error; the sheet of any run shows it."""
    run = asked(["A"] * 3, made())

    ended = run.result()
    shown = fact(told(run), "probability right")

    assert (ended.probability_right, run.warnings) == (0.9, [])
    assert ended.calibration is not None
    assert ended.calibration.model_dump() == {
        "name": "sums", "questions": 500, "ece": 0.0123, "reason": None,
    }  # fmt: skip
    assert (shown.value, shown.note) == ("0.900", "by sums: 500 questions, calibration error 0.012")
    assert "probability" not in fact(told(run), "agreement").note
    assert (ended.below(Bars(probability=0.9)), ended.below(Bars(1.0, 0.9))) == (None, None)
    assert ended.below(Bars(probability=0.95)) == "probability 0.900 is below 0.95"


@pytest.mark.parametrize(
    ("changes", "settings", "reason"),
    [
        ({"model": "c/d"}, {}, f"model {MODEL}, where the map has c/d"),
        ({"temperature": 1.0}, {}, "temperature 0.7, where the map has 1.0"),
        ({"answers": "number"}, {}, "answers exact, where the map has number"),
        ({}, {"prompt_template": "Think."}, "prompt_hash "),
        ({}, {"system": "Think."}, "prompt_hash "),
        ({}, {"epsilon": 0.02}, "epsilon 0.02, where the map has 0.05"),
        ({}, {"rule": "ahead_by"}, "rule ahead_by, where the map has predictive"),
        ({}, {"max_responses": 9}, "max_responses 9, where the map has 10"),
        ({}, {"quorum": 2}, "quorum 2, where the map has 1"),
        ({}, {"futility": 0.1}, "futility 0.1, where the map has none"),
    ],
)
def test_a_map_tells_nothing_of_other_runs(
    changes: dict[str, Any], settings: dict[str, Any], reason: str
) -> None:
    """Maps do not transfer: the reason is in the result, and no bar is reached."""
    run = asked(["A"] * 3, made(**changes), **settings)

    ended = run.result()

    assert ended.probability_right is None
    assert ended.calibration is not None
    assert str(ended.calibration.reason).startswith(reason)
    assert fact(told(run), "probability right").note == ended.calibration.reason
    assert str(ended.below(Bars(probability=0.0))).endswith(f"({ended.calibration.reason})")


@pytest.mark.parametrize(
    ("answers", "end", "reason"),
    [
        (["A", "A", put_in(2, "A", "Ann")], None, "a person voted"),
        (["A", "A"], None, "it ended as finished_by_person"),
        ([None] * 10, None, "it ended as no_consensus"),
        ([failed(0, "Blocked"), "A", "A", "A"], None, None),
        (["A"] * 3, "budget", "it ended as budget"),
        (["A"] * 3, "deadline", "it ended as deadline"),
        (["A"] * 3, "accepted_by_person", "it ended as accepted_by_person"),
        (["A"] * 3, "review_timeout", None),
    ],
)
def test_a_map_tells_nothing_where_not_the_rule_ended_it(
    answers: list[Any], end: Any, reason: str | None
) -> None:
    """A failed call changes nothing, nor does waiting for a person in vain."""
    run = asked(answers, made())
    if end:
        run.settle(end, "it had to", None)

    probability, calibration = run.calibrated()

    assert calibration is not None
    assert (calibration.reason, probability) == (reason, None if reason else 0.9)


@pytest.mark.parametrize(("rule", "same"), [("predictive", True), ("fixed", False)])
def test_hurry_differs_only_where_it_changes_how_many_vote(rule: Any, same: bool) -> None:
    """`fixed` in a hurry counts fewer votes; other rules decide on the same ones."""
    usual, hurried = (Stopping(rule=rule, hurry=hurry) for hurry in (0, 5))
    run = made(stopping=usual).model_copy(update={"stopping": hurried})

    assert (made(stopping=usual).differences(run) == []) == same


def test_what_a_log_did_not_say_is_warned_of() -> None:
    """It fits a map that is given by hand, and no map of the worker's folder."""
    silent = made(model=None, temperature=None)
    by_hand, by_worker = asked(["A"] * 3, silent), asked(["A"] * 3, None)
    by_worker.maps = (silent,)

    assert by_hand.calibrated()[0] == 0.9
    assert by_hand.warnings == [
        "the calibration map may not fit: its log did not say model, temperature"
    ]
    assert by_worker.calibrated()[0] is None


def test_the_nearest_of_several_maps() -> None:
    """That of the run's model is nearer than any other; without a model several may be it."""
    other, same = made(name="a", model="c/d"), made(name="z", temperature=0.0)
    run = Setup(model=MODEL, answers="exact", stopping=made().stopping)

    assert nearest([other, same], run) == (same,)
    assert nearest([other, same], run.model_copy(update={"model": None})) == (other, same)


def test_without_a_map_agreement_is_no_probability() -> None:
    """The result has neither, and terminal, page and details say so in words."""
    run = asked(["A"] * 3, None)
    ended = run.result()

    assert (ended.probability_right, ended.calibration) == (None, None)
    assert fact(told(run), "agreement").note == "uncertainty low; a share, not a probability"
    assert str(ended.below(Bars(probability=0.5))).endswith("(there is no calibration map)")


def test_a_line_of_a_log_says_how_it_was_asked() -> None:
    """A map that is fitted on it is for runs with the same system message."""
    run = asked(["A"] * 3, None, system="Think.")

    line = json.loads(log_line(run.request, run.result()))

    assert line["prompt_hash"] == run.setup.prompt_hash != hash_prompt(None, "exact")


def test_a_map_is_read_as_strictly_as_a_request(tmp_path: Path, typed: Any) -> None:
    """A request with one goes through JSON unchanged; a file of another form is refused."""
    request = SelfConsistencyRequest(question="How much?", calibration=made())
    file = tmp_path / "map.json"
    file.write_text('{"name": "x"}', encoding="utf-8")

    refused = typed("ask", "How much?", "--calibration", str(file))

    assert parse_request(SelfConsistencyRequest, request.model_dump_json()) == request
    assert (refused.code, refused.request) == (2, None)


@pytest.mark.parametrize(
    ("first", "votes", "expected"),
    [
        # 3 of 3 votes are 3.5 of 4; 2 of 3 are 0.625, half way between two knots.
        (3, 3, 0.9),
        (2, 3, 0.3),
        (1, 2, 0.2),
        # Beyond the first and the last knot nothing is known but theirs.
        (1, 5, 0.2),
        (10, 10, 0.9),
    ],
)
def test_probability(first: int, votes: int, expected: float) -> None:
    """It is linear between knots, and constant beyond them."""
    knots = [Knot(0.5, 0.2), Knot(0.75, 0.4), Knot(0.875, 0.9)]

    assert probability(knots, first, votes) == pytest.approx(expected)
    assert probability(knots[-1:], first, votes) == 0.9


@pytest.mark.parametrize(
    "knots",
    [[], [(0.5, 0.2), (0.5, 0.3)], [(0.5, 0.2), (0.6, 0.1)], [(0.5, 1.2)], [(0.1, 0.1)] * 51],
)
def test_knots_that_are_no_map(knots: list[tuple[float, float]]) -> None:
    """Shares rise, probabilities do not fall, and there are 1 to 50 knots."""
    field = CalibrationMap.model_fields["knots"]

    with pytest.raises(ValidationError):
        TypeAdapter(field.rebuild_annotation()).validate_python(knots)
