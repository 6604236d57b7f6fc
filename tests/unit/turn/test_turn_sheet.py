"""What is shown of a turn: the same facts while it runs and after."""

import io
from typing import Any

import pytest
from rich.console import Console

from commands.html.rendering import page_html
from commands.terminal import print_review, print_sheet, print_waiting
from mull.details import details
from mull.loops import TURN
from mull.sheet import Sheet
from mull.turn.sheet import sheet
from tests.unit.turn.test_budget import after
from tests.unit.turn.turns import Driven, calls, says

WAITS = "waiting_for_permission"


def test_a_turn_that_waits_for_a_person() -> None:
    """It says for which call, and until when; steps so far stay as they are."""
    turn = Driven([]).turn
    turn.decide(after(0))
    turn.replied(calls("mail a", "read b"))
    turn.decide(after(1))
    turn.calls.admit(0, after(1))
    turn.calls.judge(0, after(1))

    shown = sheet(turn.record(step=WAITS, review_until=after(900), at=after(2)))

    assert shown.verdict.words == "waits for a person's word on call 1"
    assert shown.waiting is not None
    assert [step.words for step in shown.steps] == ["step 1 of 6"]
    assert "mull review turn-1" in details(shown, None, "turn-1")
    assert "time left" in details(shown)


def on_the_terminal(shown: Sheet) -> str:
    console = Console(file=io.StringIO(), width=400)
    print_review(console, shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def followed(shown: Sheet) -> str:
    console = Console(file=io.StringIO(), width=400)
    assert shown.waiting is not None
    print_waiting(console, "turn-1", shown.waiting)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def shown_by_show(shown: Sheet) -> str:
    console = Console(file=io.StringIO(), width=400)
    print_sheet(console, shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("shows", [on_the_terminal, followed, shown_by_show, page_html, details])
def test_what_hides_in_a_call_is_shown(shows: Any) -> None:
    """As escapes, and with a warning, by each renderer, before it is allowed and after."""
    turn = Driven([]).turn
    turn.decide(after(0))
    turn.replied(calls("mail \U000e0041\u2060", "mail p\u0430y"))
    for index in range(2):
        turn.calls.admit(index, after(1))
        turn.calls.judge(index, after(1))

    found = shows(sheet(turn.record(step=WAITS, review_until=after(900), at=after(2))))

    assert "\\U000e0041\\u2060" in found
    assert "p\\u0430y" in found
    assert not {"\U000e0041", "\u2060", "\u0430"} & {*found}
    for number in (1, 2):
        warned = f"call {number}: characters that can't be seen, or look like others"
        assert warned in found.replace("\\", "").replace("&#39;", "'")


def test_nothing_is_asked_before_the_turn_waits() -> None:
    """Until then its arguments may turn out to be wrong, and no time runs."""
    turn = Driven([]).turn
    turn.decide(after(0))
    turn.replied(calls("mail a"))
    turn.calls.admit(0, after(1))
    turn.calls.judge(0, after(1))

    seen = [turn.record(step=step, at=after(2)) for step in ("call_tools", WAITS)]

    assert [one.asking for one in seen] == [(), (1,)]
    assert [len(one.questions) for one in seen] == [0, 1]


def test_answers_are_not_touched() -> None:
    """Joiners are honest there, and nobody allows anything."""
    text = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 p\u0430y"
    shown = sheet(Driven([says(text)]).run().turn.result())

    assert shown.answer is not None
    assert shown.answer.content == text
    assert text in page_html(shown)


def test_a_turn_without_an_answer() -> None:
    """It is a warning, and what the turn has stands in the place of an answer."""
    turn = Driven([calls("calc a")], max_steps=1).run().turn

    shown = sheet(turn.result())

    assert shown.verdict.tone == "warning"
    assert shown.flags == ("the turn ended before an answer",)
    assert shown.answer is not None
    assert shown.answer.content.endswith("calc returned:\nresult of a")
    assert "time left" not in details(shown)


def test_a_turn_that_was_cancelled_has_no_time_left() -> None:
    """Nor does it wait for a person any more."""
    turn = Driven([]).turn
    turn.decide(after(0))
    turn.replied(calls("mail a"))
    turn.decide(after(1))
    seen = turn.record(step="calling tools", in_flight=1, review_until=after(900), at=after(2))

    shown = TURN.stood_at(seen)

    assert shown.waiting is None
    assert not {"time left", "waiting"} & {fact.label for fact in shown.facts}
