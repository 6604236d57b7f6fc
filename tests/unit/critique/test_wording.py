from typing import get_args

import pytest

from reflection.critique import loop
from reflection.critique.evaluation import Cap, Evaluation, Feedback
from reflection.critique.loop import progress
from reflection.critique.result import Step, StopReason
from reflection.critique.words.wording import (
    STEP_WORDS,
    STOP_WORDS,
    best_of,
    change_words,
    decision_words,
    feedback_words,
    judged_words,
    score_words,
)
from reflection.text import lasting_words, until_words
from tests.unit.critique.reflected import START, reflected, write


def test_every_stop_reason_and_step_has_words() -> None:
    """No run ends, or stands, without a sentence for it."""
    assert set(STOP_WORDS) == set(get_args(StopReason))
    assert set(STEP_WORDS) == set(get_args(Step))


@pytest.mark.parametrize(
    ("score", "judges", "author", "caps", "words"),
    [
        (0.9, 0.9, None, [], ""),
        (0.5, 0.9, None, [("too_short", 0.8)], "judged 0.90, capped by too_short"),
        (0.5, 0.9, None, [("too_short", 0.8), ("strict", 0.95)],
         "judged 0.90, capped by too_short"),
        (0.4, 0.4, None, [("too_short", 0.8)], ""),
        (0.8, 0.4, "ann", [], "scored by ann, judged 0.40"),
        (0.8, None, "ann", [], "scored by ann"),
        (None, None, None, [], ""),
    ],
)  # fmt: skip
def test_who_made_a_score_what_it_is(
    score: float | None,
    judges: float | None,
    author: str | None,
    caps: list[tuple[str, float]],
    words: str,
) -> None:
    """A guardrail is named where it lowered the score, and a person who gave it."""
    held = tuple(Cap(guardrail=name, cap=0.5, above=above, reason="r") for name, above in caps)
    evaluation = Evaluation(score=score, judged=judges, author=author, guardrails=held)

    assert judged_words(evaluation) == words


@pytest.mark.parametrize(
    ("score", "words"), [(None, "-"), (0.0, "0.00"), (0.425, "0.42"), (1.0, "1.00")]
)
def test_a_score_has_two_digits(score: float | None, words: str) -> None:
    """A score that there is not is a dash, and never 0."""
    assert score_words(score) == words


@pytest.mark.parametrize(
    ("change", "words"), [(None, ""), (0.4, "+0.40"), (-0.1, "-0.10"), (0.0, "+0.00")]
)
def test_a_change_has_its_sign(change: float | None, words: str) -> None:
    """The first draft has no change."""
    assert change_words(change) == words


@pytest.mark.parametrize(
    ("criterion", "place", "words"),
    [
        (None, None, "Name it."),
        ("clarity", None, "clarity: Name it."),
        ("clarity", "the end", 'clarity, at "the end": Name it.'),
        (None, "the end", 'at "the end": Name it.'),
    ],
)
def test_feedback_is_one_line(criterion: str | None, place: str | None, words: str) -> None:
    """Where the judge did not say by which criterion or where, nothing stands for it."""
    given = Feedback(advice="Name\nit.", criterion=criterion, place=place)

    assert feedback_words(given, 80) == words


def test_a_guardrails_feedback_has_its_name() -> None:
    """What is said by no criterion is said by somebody."""
    given = Feedback(advice="Say more.", judge="too_short")

    assert feedback_words(given, 80) == "too_short: Say more."


def test_a_person_who_decides_is_named_once() -> None:
    """The author is added where the reason does not name them."""
    state = reflected([0.4])
    asked = loop.grant(state, "shorter", "ann", START)
    ended = state.stop("finished_by_person", "finished by ann", START, "ann")

    assert decision_words(asked, 80) == "revise: a person asked for a revision: shorter (by ann)"
    assert decision_words(ended, 80) == "stop: finished by ann"


def test_the_first_draft_is_the_best_where_none_has_a_score() -> None:
    """A run that ends before any evaluation has its draft all the same."""
    state = reflected([])
    write(state, "only one")

    best = best_of(progress(state, "evaluating", 1, None))

    assert best is not None
    assert best.text == "only one"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7_500, "2 h 5 min"), (90_000, "1 d 1 h")],
)
def test_a_length_of_time_is_its_two_largest_units(seconds: int, words: str) -> None:
    """A wait is told so that a person can take it in."""
    assert lasting_words(seconds) == words


def test_a_wait_without_an_end_has_no_words() -> None:
    """Only a wait that ends by itself has an until, in UTC."""
    assert until_words(None) == ""
    assert until_words(START) == "until 2026-03-01 12:00:00 UTC"
