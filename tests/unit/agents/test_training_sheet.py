"""What a training shows: the facts on its sheet, whichever renderer draws it."""

from typing import Any

import pytest
from pydantic import ValidationError

from commands.html.rendering import page_html
from commands.terminal import print_sheet
from mull.agents.training import RetroformerTrainingRequest, Training
from mull.agents.training_result import LogPoint, Measured, StageResult
from mull.agents.training_sheet import sheet
from mull.run import usage
from tests.unit.agents.trained import FIRST, rollout, trained, training
from tests.unit.runs import START
from tests.unit.sheets import HOSTILE, console, fact, table, written


def test_a_gain_of_rounding_alone_is_not_good() -> None:
    """0.1 + 0.2 gains nothing over 0.3."""
    state = training("t")
    before = state.before.good

    state.ended(FIRST, rollout("t", 1, (0.1 + 0.2 - 0.3, 0.5)))

    assert state.before.good == before + 1


def test_a_training_under_way_says_how_far_it_came() -> None:
    """Its phase, the step of it, and what was rated so far."""
    state = training("7")
    state.begin("reward_model")
    state.step, state.of = 3, 9
    seen = sheet(state.record(in_flight=4))

    assert (seen.verdict.tone, seen.charts) == ("running", ())
    assert seen.verdict.words == "reward model 3 of 9, 4 rollouts in flight"
    assert fact(seen, "pairs").value == "2 of 2"


def test_a_tuned_reflector_that_is_not_reached_is_doubted() -> None:
    """Where either's rollouts have no reflections no gain is known; solving all needs none."""
    doubts = []
    for before, gains, solved in ((1, (), False), (1, (), True), (0, (1.0,), False)):
        state = training("7")
        state.before, state.held_out = Measured(made=1, reflections=before, good=before), (0,)
        state.begin("measuring")
        one = rollout("7", 1, gains)
        state.ended(FIRST, one.model_copy(update={"solved": solved}))
        state.decide("the reflector was tuned by ppo", START, "trained")
        doubts.append(state.record().doubt)

    said = "no reflection of the {} reflector was rated, so the gain is not known"
    assert doubts == [said.format("tuned"), "", said.format("untrained")]


def test_a_task_of_any_name_fits_both_renderers() -> None:
    """80 columns are enough, and no name is markup."""
    seen, narrow = sheet(trained(training(HOSTILE, "n" * 500))), console()

    print_sheet(narrow, seen)

    assert max(map(len, written(narrow).splitlines())) <= 80
    assert "\x1b" not in written(narrow)
    assert "<script>alert" not in page_html(seen)


def test_rollouts_that_failed_are_seen_at_80_columns() -> None:
    """Where none failed there is no column for them."""
    none, some = training("7"), training("7")
    some.before = Measured(made=10, solved=2, failed=3, reflections=8, good=4)
    headers = []
    for state in (none, some):
        on = console()
        print_sheet(on, sheet(trained(state)))
        [header] = [line for line in written(on).splitlines() if "rollouts" in line]
        headers.append(header.split())

    assert [("failed" in header) for header in headers] == [False, True]


def test_the_warnings_of_rollouts_are_bounded() -> None:
    """Those of thousands would be a result that the server refuses."""
    state = training("7")
    for number in range(500):
        state.ended(FIRST, rollout("7", number, (), warnings=(f"warning {number}",)))

    assert len(state.warnings) == 50


def test_a_budget_counts_what_was_not_reported_as_the_largest() -> None:
    """Before the first rollout its size is unknown; where none reports any, none more is made."""
    state = training("7")
    state.request = state.request.model_copy(update={"budget_tokens": 1_000})
    known = usage({}, 0, 0).model_copy(update={"input_tokens": 300})
    unknown = known.model_copy(update={"input_tokens": None})
    silent = Training(request=state.request, workflow_id="silent", execution="1")
    beginning = [silent.has_room(in_flight) for in_flight in (0, 1)]
    for one in (known, unknown):
        state.ended(FIRST, rollout("7", 9, ()).model_copy(update={"usage": one}))
    silent.ended(FIRST, rollout("7", 9, ()).model_copy(update={"usage": unknown}))

    assert beginning == [True, False]
    assert [state.has_room(in_flight) for in_flight in (0, 1)] == [True, False]
    assert not silent.has_room(0)
    assert "can't be kept: the provider does not report tokens" in silent.warnings[0]


@pytest.mark.parametrize(
    ("good", "doubt"),
    [
        (30, "the tuned reflections are no better than those before"),
        (36, "rose by 0.06, which may be chance: two standard errors are 0.12"),
        (60, ""),
    ],
)
def test_a_gain_within_two_standard_errors_is_doubted(good: int, doubt: str) -> None:
    """What may be chance is said, and ends with another exit code."""
    state = training("7")
    state.before, state.held_out = Measured(made=100, reflections=200, good=60), (0,)
    state.begin("measuring")
    state.after = Measured(made=50, reflections=100, good=good)
    state.decide("tuned", START, "trained")

    assert (doubt in state.record().doubt) if doubt else state.record().doubt == ""


@pytest.mark.parametrize(
    ("rows", "held", "measured", "doubt"),
    [
        (19, (0,), True, "the reflector learned from only 19 rows"),
        (20, (0,), True, ""),
        (20, (), True, "the gain is measured on the tasks that were learned from"),
        # Whoever asks for no measure is told nothing of a gain.
        (20, (), False, ""),
        (2, (), False, "the reflector learned from only 2 rows"),
    ],
)
def test_a_gain_that_shows_little_is_doubted(
    rows: int, held: tuple[int, ...], measured: bool, doubt: str
) -> None:
    """Of few rows, or on the tasks that were learned from."""
    state = training("7")
    known: dict[str, Any] = {"folder": "r", "steps": 2, "seconds": 1.0, "device": "cpu"}
    state.stages = {"reflector": StageResult(examples=rows, **known)}
    state.before, state.held_out = Measured(made=100, reflections=200, good=60), held
    state.begin("measuring")
    state.after = Measured(made=100, reflections=200, good=190) if measured else None
    state.decide("tuned", START, "trained")

    assert state.record().doubt == doubt


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        # As if ten reflections had been made, not sixty: sqrt(0.25 / 9).
        ([0, 6] * 5, None, 0.1667),
        # Independent ones, as of a coin: sqrt(0.25 / 60), where tasks alone would have none.
        ([3] * 10, None, 0.0645),
        # Every task gained as much: no error but that of reflections.
        ([0, 3] * 5, [3, 6] * 5, 0.0799),
        # The same gain, on other tasks than those that went well before.
        ([0, 3] * 5, [6, 3] * 5, 0.1667),
    ],
)
def test_reflections_on_one_task_are_not_independent(
    before: list[int], after: list[int] | None, error: float
) -> None:
    """Six on each of ten tasks: the error is that of tasks, and never below that of reflections."""

    def counted(good: list[int]) -> Measured:
        ones = [
            Measured(made=6, reflections=6, good=one, by_task={place: (one, 6)})
            for place, one in enumerate(good)
        ]
        return sum(ones, Measured())

    found = counted(before)

    assert found.by_task == {place: (one, 6) for place, one in enumerate(before)}
    got = found.error if after is None else counted(after).gain(found)[1]
    assert got == pytest.approx(error, abs=1e-4)


def held_out(count: int, **given: Any) -> Training:
    """A training of so many tasks that has begun."""
    request = RetroformerTrainingRequest(
        environment="counting",
        tasks=tuple(str(number) for number in range(count)),
        reflector="base",
        base_model="tiny",
        tuned="first",
        **given,
    )
    state = Training(request=request, workflow_id="first", execution="1")
    state.hold_out()
    state.begin("collecting")
    return state


@pytest.mark.parametrize(
    ("tasks", "given", "held"),
    [
        (49, {}, 0),
        (50, {}, 10),
        (51, {}, 10),
        (100, {}, 20),
        (20, {"held_out": 5}, 5),
        (100, {"held_out": 0}, 0),
    ],
)
def test_a_fifth_of_the_tasks_only_measures(tasks: int, given: dict[str, Any], held: int) -> None:
    """Where there are fifty or more, or as asked; drawn by the seed; none is said."""
    state = held_out(tasks, **given)

    assert len(set(state.held_out)) == held
    assert state.held_out == held_out(tasks, **given).held_out
    assert (state.held_out != held_out(tasks, seed=1, **given).held_out) == (held > 0)
    assert [said.startswith("no task is held out") for said in state.warnings] == [True] * (
        not held
    )
    kept = [state.rollout(planned) for planned in state.planned()]
    assert sum(one.held_out for one in kept) == 3 * held
    assert all(one.kept for one in kept)


def test_a_training_needs_a_task_to_learn_from() -> None:
    with pytest.raises(ValidationError, match="no task is left to learn from"):
        held_out(5, held_out=5)


def measured(before: tuple[int, int], after: tuple[int, int]) -> Training:
    """A training after which so many of so many reflections on tasks held out are good."""
    state = held_out(50)
    for planned in state.planned():
        state.ended(planned, rollout(str(planned.task), 1, (0.0, 0.0)))
    state.before = Measured(made=50, reflections=before[1], good=before[0])
    state.begin("measuring")
    tried = [planned.task for planned in state.planned()]
    assert {*tried} == {*state.held_out}
    assert state.of == len(tried) == 30
    state.after = Measured(made=50, reflections=after[1], good=after[0])
    return state


def test_shares_are_those_of_the_tasks_held_out() -> None:
    """The others are counted beside them, and shown with their own errors."""
    state = measured((30, 100), (60, 100))

    assert (state.others.made, state.collected.made) == (120, 170)
    state.decide("tuned", START, "trained")
    shown = table(sheet(state.record()), "Reflections")
    assert [row[0] for row in shown.rows] == [
        "before, other tasks",
        "before, held out",
        "after, held out",
    ]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (30, "changed by +0.00, its error is 0.07"),
        (20, "changed by -0.10"),
        (36, "its error is 0.07"),
        (40, ""),
    ],
)
def test_a_gain_below_its_error_is_none(after: int, said: str) -> None:
    """On tasks held out; such a training ends as `no_signal`."""
    found = measured((30, 100), (after, 100)).nothing_learned

    assert (said in found) if said else found == ""


def test_one_good_reflection_is_no_signal() -> None:
    """A share of 0 or 1 has an error, too."""
    assert "its error is" in measured((0, 72), (1, 72)).nothing_learned
    assert measured((0, 72), (5, 72)).nothing_learned == ""


def test_a_task_is_named_once() -> None:
    """Or else it could be held out and learned from."""
    with pytest.raises(ValueError, match="a task is named more than once"):
        training("7", "7")


@pytest.mark.parametrize(
    ("method", "right", "nothing"),
    [("ppo", 21, True), ("rloo", 20, True), ("rloo", 22, False), ("kto", 10, False)],
)
def test_a_reward_model_by_chance_ends_what_learns_from_it(
    method: str, right: int, *, nothing: bool
) -> None:
    """Of 36 pairs it is right by chance on 18, give or take 3."""
    state = held_out(50, method=method)
    state.stages = {
        "reward_model": StageResult(
            folder="first/reward_model",
            steps=1,
            examples=1,
            seconds=1,
            device="CPU",
            tested=36,
            right=right,
        )
    }

    assert (state.nothing_learned != "") == nothing


@pytest.mark.parametrize("letter", ["n", "é", "\N{GRINNING FACE}"])
def test_what_a_long_training_carries_is_no_large_event(letter: str) -> None:
    """Its next history begins with the names of its tasks, and all that was rated and logged."""
    with pytest.raises(ValidationError, match="more than 100,000 bytes in all"):
        training(*(f"{number}{letter * 400}" for number in range(500)))
    state = training(*(f"{number}{letter * 40}" for number in range(200)))
    for number in range(500):
        one = rollout(letter * 500, number, (0.1, 0.2), warnings=(f"{number} {letter * 9_000}",))
        state.ended(FIRST, one)
        state.failed(FIRST, letter * 9_000)
    values = {f"{number}{letter}": 0.123456 for number in range(20)}
    log = tuple(LogPoint(step=step, values=values) for step in range(100))
    known: dict[str, Any] = {"examples": 4, "seconds": 1.6, "device": "cpu", "log": log}
    state.stages = {"reward_model": StageResult(folder="first/m", steps=2, **known)}

    carried = state.going_on(60.0)

    assert len(carried.model_dump_json().encode()) < 512 * 1024
    again = Training(
        request=carried, workflow_id="first", execution="1", **dict(carried.carried or {})
    )
    assert again.record() == state.record()
