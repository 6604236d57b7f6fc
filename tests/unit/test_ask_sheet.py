"""What a run of self-consistency shows, whichever renderer draws it."""

import json

import pytest

from mull.sampling.sheet import sheet
from mull.sheet import reason_words
from tests.unit.runs import failed, finished, put_in, sampled
from tests.unit.sheets import column, fact, table, told


def test_a_run_that_goes_on() -> None:
    """The wave, the calls in flight, the leader so far and what was spent."""
    shown = told(sampled(["129", "139"]))

    asking = sampled(["129"])
    asking.put_in.append(put_in(1, "129", "Ann"))
    added = sheet(asking.record(in_flight=4))

    assert added.busy.endswith("1 of at most 10 answers, 1 added answer next, 4 calls in flight")
    asked = sampled([])
    asked.begin_wave(10)
    first = sheet(asked.record(in_flight=6))
    words = "wave 1 is running (4 of its 10 calls came back), 0 of at most 10 answers"
    assert first.busy == f"{words}, 6 calls in flight"
    assert shown.verdict.tone == "running"
    assert shown.verdict.words == "wave 1 is running, 2 of at most 10 answers, 3 calls in flight"
    assert (fact(shown, "leader").value, fact(shown, "leader").note) == ("129", "tied")
    assert fact(shown, "spent").value == "2 calls, 200 tokens in and 80 out, cost $0.00040"
    assert fact(told(sampled([])), "leader").value == "no readable answer yet"
    assert (shown.waiting, shown.flags) == (None, ())


@pytest.mark.parametrize(
    ("answers", "value", "note"),
    [
        (["A", "B"], "a tie: 2 answers have 1 vote each", ""),
        ([*"ABCDE"], "a tie: 5 answers have 1 vote each", ""),
        (["A", "B"] * 5, "a tie: 2 answers have 5 votes each", ""),
        ([*"ABABA"], "emerging", ""),
        ([*"ABABABA"], "binary", "two answers are close"),
        ([*"AAAAA"], "strong", ""),
    ],
)
def test_the_pattern_of_the_votes(answers: list[str], value: str, note: str) -> None:
    """A tie is called one; the field and the search attribute keep the source's word."""
    found = fact(told(finished(answers)), "consensus")

    assert (found.value, found.note) == (value, note)


SHORT = "cut short: only 3 of at least 5 readable answers, so their agreement means little"


@pytest.mark.parametrize(
    ("answers", "changes", "flag"),
    [
        (["A", "B"] * 5, {}, "tied: several answers share the lead, and the one seen first was"),
        ([None] * 10, {}, "no answer could be read"),
        (["A", "B"] * 5, {"quorum_met": False}, "the quorum of readable answers was not met"),
        (["A", "B"] * 5, {"stop_reason": "no_consensus"}, "no consensus: the answers do not"),
        (["A", "B"] * 5, {"valid_responses": 3}, SHORT),
        (
            ["A"] * 5,
            {"stop_reason": "replaced_by_person", "final_answer": "B"},
            "a person gave the answer; the votes gave A",
        ),
    ],
)
def test_what_a_reader_has_to_know_is_flagged(
    answers: list[str | None], changes: dict[str, object], flag: str
) -> None:
    """Each reason not to build on an answer is a flag."""
    assert any(said.startswith(flag) for said in told(sampled(answers), **changes).flags)


@pytest.mark.parametrize("name", ['the owner" (verified', "a person", "by ann", "None"])
def test_a_name_is_shown_as_the_claim_that_it_is(name: str) -> None:
    """Whatever it holds: any client of the namespace may give any."""
    shown = told(finished(["A", put_in(1, "B", name)]))
    claim = "a person" if name == "a person" else f"{json.dumps(name)} (unverified)"

    assert str(column(shown.decisions, "because")[1]).endswith(f"(by {claim})")


@pytest.mark.parametrize(
    ("reason", "author", "said"),
    [
        ("scored 0.5 by ann", "an", 'scored 0.5 by ann (by "an" (unverified))'),
        ("a draft", "a", 'a draft (by "a" (unverified))'),
        ("by the owner: seen by the owner", "the owner",
         'by "the owner" (unverified): seen by "the owner" (unverified)'),
        ("finished by a person", "a person", "finished by a person"),
    ],
)  # fmt: skip
def test_no_name_stands_as_if_it_were_the_run_s_word(reason: str, author: str, said: str) -> None:
    """Wherever it stands, and though it is a part of other words."""
    [made] = finished(["A", put_in(1, "B", "Ann")]).decisions[-1:]

    assert reason_words(made.model_copy(update={"reason": reason, "author": author})) == said


def test_a_person_is_named() -> None:
    """An answer that a person put in, and a person's wish to finish, carry the name."""
    shown = told(finished(["A", put_in(1, "B", "Ann")]))

    assert column(shown.decisions, "decision")[2] == "stop: finished_by_person"
    assert column(shown.decisions, "vote") == ["A", "B", ""]
    assert shown.steps[-1].words == 'stop: finished by "Ann" (unverified)'


def test_what_failed_is_not_called_unreadable() -> None:
    """Neither while the run goes on, nor where nothing else came."""
    sampling = sampled([failed(0, "Blocked"), "A", None])
    none = finished([failed(0, "Blocked")])

    assert fact(told(sampling), "answers").value == "3, 1 failed, 1 unreadable, in 1 wave"
    assert "no reply came" in told(none).flags


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["A"] * 5, "concentrated"),
        (["A"] * 4 + ["B"], "widely scattered"),
        (["A", "A", "B", "C", "D"], "widely scattered"),
        (["A", "B"] * 5, "uniform"),
    ],
)
def test_only_what_is_even_is_called_uniform(answers: list[str | None], words: str) -> None:
    """The source calls everything above 0.7 so: its field stays, and people read what is so."""
    entropy = fact(told(finished(answers)), "entropy")

    assert entropy.note == f"{words}; 0: all agree, 1: even"


def test_agreement_is_said_to_be_no_probability() -> None:
    """So is that most votes are for other answers, where a rule ended such a run."""
    shown = told(finished(["A"] * 4 + ["B"] * 3 + ["C"] * 3, rule="fixed"))

    agreement = fact(shown, "agreement")
    assert agreement.note == "uncertainty high; a share, not a probability"
    assert any(flag.startswith("most votes are for other answers") for flag in shown.flags)


def test_what_is_no_longer_listed_is_not_called_unreadable() -> None:
    """Of a result that lists its newest responses alone, the others are known by their number."""
    sampling = sampled([None, failed(1, "Blocked"), None, "A", failed(4, "Blocked")])

    shown = told(sampling, responses=tuple(sampling.responses[2:]))

    said = "5, 1 failed, 1 unreadable, 2 without a vote, in 1 wave"
    assert fact(shown, "answers").value == said


def test_what_failed_is_told() -> None:
    """The commonest errors are facts, each with how often it came; a failure is no reply."""
    shown = told(sampled([failed(0, "Blocked"), failed(1, "Blocked"), *[None] * 8]))

    assert (fact(shown, "error").value, fact(shown, "error").note) == ("Blocked", "2 x")
    assert shown.verdict.tone == "bad"
    assert shown.answer is None
    assert shown.charts == ()
    assert table(shown, "Votes").rows == (
        ("(failed): 2 answers", 0, 0.0),
        ("(unreadable): 8 answers", 0, 0.0),
    )
    assert fact(shown, "answers").value == "10, 2 failed, 8 unreadable, in 2 waves"
    assert shown.texts[0].title == "1. (failed)"
    assert shown.texts[0].content == "Blocked"
