"""What a bearer key may use: places for its runs, and dollars of a day."""

from datetime import UTC, datetime, timedelta

import pytest

from mull.quota import ABSENT, FreedPlace, PlaceTask, Quota, QuotaRequest, Refusal, SeenRun

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
TOMORROW = NOON + timedelta(days=1)


def task(run: str = "a", runs: int = 4, /, **more: float) -> PlaceTask:
    return PlaceTask.model_validate({"run": run, "runs_at_once": runs, **more})


def quota(*runs: PlaceTask, spent: float = 0.0) -> Quota:
    made = Quota(QuotaRequest(name="ann", day=NOON.date(), spent_usd=spent))
    for run in runs:
        assert made.refusal(run, NOON) is None
        made.take(run, NOON)
    return made


def freed(held: Quota, run: str, usd: float | None, at: datetime = NOON) -> None:
    held.free(FreedPlace(place=held.places[run], usd=usd), at)


def refused(held: Quota, asked: PlaceTask, at: datetime = NOON) -> Refusal:
    found = held.refusal(asked, at)
    assert found is not None
    return found


def test_a_run_needs_a_place_and_keeps_it_until_it_has_ended() -> None:
    held = quota(task("a", 2), task("b", 2))

    assert refused(held, task("c", 2)) == Refusal(
        "this key has 2 runs under way, and may have 2 at once", 5.0
    )
    freed(held, "a", None)
    assert held.refusal(task("c", 2), NOON) is None


def test_a_run_that_has_a_place_takes_no_second_one() -> None:
    """Two servers may start a run with the same id: neither it nor its dollars count twice."""
    held = quota(task("a", 1, usd_a_day=3))
    again = held.take(task("a", 1, usd_a_day=3), NOON + timedelta(seconds=1))

    assert held.refusal(task("a", 1, usd_a_day=3), NOON) is None
    assert (again.taken, again.place) == (False, held.places["a"])
    assert held.left(task("b", 1, usd_a_day=3), NOON) == 0


@pytest.mark.parametrize(
    ("own", "spent", "kept"), [(None, 0, 1.25), (None, 3, 0.5), (0.1, 0, 0.1), (9, 4, 1), (2, 0, 2)]
)
def test_dollars_are_kept_for_a_run(own: float | None, spent: float, kept: float) -> None:
    """Its own budget as far as it is left, or one share for each place that is free."""
    more = {} if own is None else {"budget_usd": own}
    held = quota(spent=spent)

    assert held.take(task(usd_a_day=5, **more), NOON).place.usd == pytest.approx(kept)


def test_the_shares_of_all_places_are_what_is_left() -> None:
    held = quota(*(task(name, usd_a_day=5) for name in "abcd"))

    assert [place.usd for place in held.places.values()] == [1.25] * 4
    freed(held, "a", 0.05)
    assert held.left(task(usd_a_day=5), NOON) == pytest.approx(1.2)


def test_what_is_kept_is_no_longer_there_for_others() -> None:
    """Their runs may end soon, so a client asks again soon."""
    held = quota(task("a", usd_a_day=5, budget_usd=5))

    assert refused(held, task("b", usd_a_day=5)) == Refusal(
        "this key may spend $5.00 a day, which is spent or kept for runs that are under way", 5.0
    )


def test_what_is_spent_is_there_again_on_the_next_day() -> None:
    """The next one by UTC; what runs of the day before may still spend is kept."""
    held = quota(task("b", usd_a_day=5, budget_usd=1), task("a", usd_a_day=5, budget_usd=4))
    freed(held, "a", 5.5)

    assert refused(held, task("c", usd_a_day=5)) == Refusal(
        "this key may spend $5.00 a day, which is spent; a new day begins at 0:00 UTC", 12 * 3_600
    )
    assert held.left(task("c", usd_a_day=5), TOMORROW) == 4
    freed(held, "b", 0.5, TOMORROW)
    assert (held.day, held.spent_usd) == (TOMORROW.date(), 0.5)


def test_a_cost_that_nobody_knows_is_all_that_was_kept() -> None:
    held = quota(task("a", usd_a_day=5))
    freed(held, "a", None)

    assert held.spent_usd == 1.25


def test_a_place_is_freed_once() -> None:
    """A server may say late that a run has ended whose id a new run has."""
    held = quota(task("a", usd_a_day=5))
    ended = FreedPlace(place=held.places["a"], usd=1.0)
    held.free(ended, NOON)
    held.take(task("a", usd_a_day=5), NOON + timedelta(seconds=1))
    held.free(ended, NOON)

    assert (list(held.places), held.spent_usd) == (["a"], 1.0)


@pytest.mark.parametrize(
    ("state", "after", "left"),
    [
        ("running", ABSENT * 9, ["a"]),
        ("ended", timedelta(), []),
        ("absent", ABSENT - timedelta(seconds=1), ["a"]),
        ("absent", ABSENT, []),
    ],
)
def test_a_place_without_a_run_is_freed(state: str, after: timedelta, left: list[str]) -> None:
    """A run that was not started in time cost nothing; one that has ended, what it says."""
    held = quota(task("a", usd_a_day=5))
    seen = {"place": held.places["a"], "state": state, "usd": 0.25}
    held.see(SeenRun.model_validate(seen), NOON + after)

    assert list(held.places) == left
    assert held.spent_usd == (0.25 if state == "ended" else 0.0)


def test_a_new_history_goes_on_with_all_of_it() -> None:
    held = quota(task("a", usd_a_day=5), spent=2)
    follows = Quota(held.going_on())

    assert (follows.places, follows.day, follows.spent_usd) == (held.places, held.day, 2)
