"""The comparison of two versions: what counts as a difference, and what does not."""

import re
from dataclasses import replace
from typing import Any

import pytest

from bench.differential.comparison import ADDED, Comparison, Ended, Outcome, compare
from bench.differential.comparison import compare_documents as into
from bench.differential.model import Call
from bench.differential.scenarios import LOOPS, draw


def called(text: str, opened: float, closed: float, seed: int | None = None) -> Call:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": f"{text} in case ask-1"}]}
    return Call(body if seed is None else {**body, "seed": seed}, opened, closed)


def documents(base: Any, new: Any, added: str = "(?!)") -> Comparison:
    found = Comparison([], set())
    into(base, new, found, re.compile(added))
    return found


@pytest.mark.parametrize(
    ("base", "new", "differs"),
    [
        ({"answer": "7"}, {"answer": "7"}, ""),
        ({"answer": "7"}, {"answer": "8"}, 'answer: …"7"… is now …"8"…'),
        ({"decisions": [{"lead": 3}]}, {"decisions": [{"lead": 2}]}, "decisions[0].lead: …3…"),
        ({"cost": 0.0033816000000000002}, {"cost": 0.0033815999999999994}, ""),
        ({"votes": [1, 2]}, {"votes": [1]}, "votes[1] is gone: 2"),
        ({"a": 1}, {"a": 1, "b": 2}, "b is new: 2"),
        ({"at": "noon", "seconds": 1}, {"at": "night", "seconds": 2}, ""),
        ({"why": "at 2026-11-27T12:00:01Z"}, {"why": "at 2026-11-28T09:30:00Z"}, ""),
        ("Error", {"answer": "7"}, " is gone: "),
    ],
)
def test_each_value_is_compared(base: Any, new: Any, differs: str) -> None:
    """The first difference is told with its place; times are none."""
    found = documents(base, new)

    assert bool(found.differences) == bool(differs)
    assert "".join(found.differences[:1]).startswith(differs)


@pytest.mark.parametrize("value", [None, [], {}, 0, "", False])
def test_an_empty_field_of_one_version_is_a_note(value: object) -> None:
    """It is noted once for all of a list."""
    found = documents([{"a": 1}, {"a": 1}], [{"a": 1, "b": value}] * 2)

    assert not found.differences
    assert [note.partition(":")[0] for note in found.notes] == ["[N].b is new"]


def test_a_field_that_was_added_on_purpose_is_no_difference() -> None:
    """It is declared for its loop, and its value is compared where both versions have it."""
    before: dict[str, Any] = {"drafts": [{}]}
    after = {"drafts": [{"finish_reason": "stop"}]}

    assert not documents(before, after, ADDED["agent"]).differences
    assert documents(before, after).differences == ['drafts[0].finish_reason is new: "stop"']
    assert documents(after, before, ADDED["agent"]).differences
    assert documents(after, {"drafts": [{"finish_reason": "length"}]}, ADDED["agent"]).differences


def test_a_value_with_a_new_name_is_compared() -> None:
    """Its name alone is no difference."""
    before = {"leader": "9"}

    assert not documents(before, {"final_answer": "9"}).differences
    assert documents(before, {"final_answer": "8"}).differences


def told(base: list[Call], new: list[Call], *, killed: bool = False) -> list[str]:
    return compare(Outcome(calls=base), Outcome(calls=new), killed=killed).differences


def test_calls_that_were_open_together_have_no_order() -> None:
    """Those after each other have one."""
    together = [called("x", 0, 2), called("y", 1, 3)]
    swapped = [called("y", 0, 1), called("x", 2, 3)]
    apart = [called("x", 0, 1), called("y", 2, 3)]

    assert told(together, swapped) == told(together, apart) == []
    assert told(apart, swapped) == ['calls: "y in case ask-1" now comes before "x in case ask-1"']


def test_rollouts_side_by_side_have_no_order() -> None:
    """Nor have the warnings of those that failed."""
    sides = [
        Outcome([Ended(("train",), 0, {"warnings": words})], calls)
        for words, calls in (
            (["a", "b"], [called("x", 0, 1), called("y", 2, 3)]),
            (["b", "a"], [called("y", 0, 1), called("x", 2, 3)]),
        )
    ]

    assert not compare(*sides, ordered=False).differences
    assert len(compare(*sides).differences) == 1


def test_samples_that_differ_by_their_seed_have_no_order() -> None:
    """A worker may send those of a wave one by one."""
    base, new = ([called("x", 0, 1, one), called("x", 2, 3, 1 - one)] for one in (0, 1))

    assert not told(base, new)


def test_a_body_that_differs_by_a_word_is_shown() -> None:
    """So is a call that is missing, or more."""
    one, other = called("sail", 0, 1), called("row", 0, 1)

    assert "the first that differs: " in told([one], [other])[0]
    assert "…" in told([one], [other])[0]
    assert told([one, other], [one]) == ['calls: 2, now 1; gone is "row in case ask-1"']
    assert told([one], [one, other]) == ['calls: 1, now 2; new is "row in case ask-1"']


def test_a_call_may_be_repeated_after_a_kill_alone() -> None:
    """Otherwise it was paid for twice."""
    once, twice = [called("x", 0, 1)], [called("x", 0, 1), called("x", 2, 3)]

    assert told(once, twice)
    assert not told(once, twice, killed=True)


def test_calls_that_are_chance_are_not_compared() -> None:
    """All else is."""
    sides = Outcome(calls=[called("x", 0, 1)]), Outcome(calls=[called("y", 0, 1)])
    ended = [Outcome([Ended(("batch",), code, {})]) for code in (0, 4)]

    assert compare(*sides).differences
    assert not compare(*sides, asked=False).differences
    assert compare(*ended, asked=False).differences


def test_an_exit_code_is_compared() -> None:
    """The command's last words say why."""
    ended = Ended(("ask", "?"), 0, {})
    other = replace(Outcome(), commands=[ended._replace(code=4, said="Well.\nIt is a tie.\n")])

    found = compare(Outcome(commands=[ended]), other)

    assert found.differences == ["ask ?: exit code 0, now 4 (It is a tie.)"]


@pytest.mark.parametrize("code", [-9, 3])
def test_two_commands_without_an_end_prove_nothing(code: int) -> None:
    """They are a difference, though they are alike."""
    ended = Outcome(commands=[Ended(("ask", "?"), code, "")])

    assert compare(ended, ended).differences == [f"ask ?: no end, exit codes {code} and {code}"]


@pytest.mark.parametrize("loop", LOOPS)
def test_scenarios_follow_from_their_seed(loop: str) -> None:
    """Another seed draws others; a tenth is killed, and is otherwise calm."""
    drawn = [draw(loop, number, 0) for number in range(20)]

    assert drawn == [draw(loop, number, 0) for number in range(20)]
    assert drawn != [draw(loop, number, 1) for number in range(20)]
    assert [one.name for one in drawn if one.kill] == [f"{loop}-9", f"{loop}-19"]
    assert not any(one.disturbed or one.act for one in drawn if one.kill)
