"""The state of a session: what it keeps, what it refuses, and that it stays small."""

from typing import Any

import pytest

from mull.request import parse_request
from mull.run import Spending, Usage
from mull.turn.loop import EARLIER_TOKENS
from mull.turn.request import ToolTurnRequest
from mull.turn.result import ToolTurnResult
from mull.turn.session import Session, SessionAnswer, SessionMessage, SessionRequest, sheet, turn_id
from tests.unit.turn.turns import Driven, says

EVENT_BYTES = 512 * 1024
RESULT = Driven([says("b")]).run().turn.result()
SPENT = Usage(
    calls=1, input_tokens=8, output_tokens=2, cost_usd=0.5, parts={"generating": Spending(calls=1)}
)


def result(answer: str = "b", summary: str | None = None, summarized: int = 0) -> Any:
    known = {"answer": answer, "summary": summary, "summarized": summarized, "usage": SPENT}
    return RESULT.model_copy(update=known)


def said(session: Session, message: str, made: ToolTurnResult, **more: Any) -> SessionAnswer:
    """Send a message, and answer it with this result of its turn."""
    asked = SessionMessage(message=message, **more)
    assert session.refuses(asked, f"id-{message[:9]}") is None
    taken = session.take(asked, f"id-{message[:9]}")
    shown = session.begin().summary
    session.answered(made.model_copy(update={"summary": made.summary or shown}))
    assert taken.answer is not None
    return taken.answer


def roles(session: Session) -> list[str]:
    return [f"{one.role}: {one.content}" for one in session.messages]


def test_a_turn_is_held_to_what_the_session_was_begun_with() -> None:
    """With the earlier messages, their summary, and its own number."""
    earlier = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    request = SessionRequest(
        messages=earlier, max_steps=3, context=("sea",), summary="s", turn_count=7
    )
    session = Session(request)

    session.take(SessionMessage(message="c", context=("sky",), stream=True), "1")

    assert session.begin() == ToolTurnRequest(
        messages=earlier,
        message="c",
        max_steps=3,
        context=("sea", "sky"),
        stream=True,
        summary="s",
        turn_count=7,
    )


def test_what_a_turn_summarized_is_replaced() -> None:
    """The summary is the turn's, and the messages that it stands for are gone."""
    session = Session(SessionRequest())
    said(session, "a", result("1"))
    said(session, "c", result("2"))

    answer = said(session, "e", result("3", "what was", 2))

    assert roles(session) == ["user: c", "assistant: 2", "user: e", "assistant: 3"]
    assert (session.summary, answer.number, answer.answer) == ("what was", 3, "3")
    assert (session.usage.calls, session.usage.tokens, session.usage.cost_usd) == (3, 30, 1.5)
    assert session.usage.parts["generating"].calls == 3


def test_a_failed_message_is_not_in_the_conversation() -> None:
    """Its answer is the error, and the next turn has the next number."""
    session = Session(SessionRequest())
    taken = session.take(SessionMessage(message="a"), "1")
    session.begin()

    session.lost("x" * 900)

    assert taken.answer is not None
    assert (taken.answer.number, len(taken.answer.error or "") <= 400) == (1, True)
    assert (session.messages, session.waiting, session.failed) == ([], [], 1)
    assert said(session, "b", result()).number == 2


def test_a_message_has_one_answer() -> None:
    """Sent again, it is answered at once, and waits for no turn."""
    session = Session(SessionRequest())
    answer = said(session, "a", result())

    again = session.take(SessionMessage(message="a"), "id-a")

    assert (again.answer, session.waiting) == (answer, [])


def test_what_is_known_of_the_last_hundred_messages_is_bounded() -> None:
    """The newest answers stay whole while there is room, and older ones keep their beginning."""
    session = Session(SessionRequest())
    for number in range(120):
        said(session, f"{number}", result(f"{number} {'é' * 9_000}"))

    kept = list(session.answers.items())

    assert [its_id for its_id, _ in kept] == [f"id-{number}" for number in range(20, 120)]
    assert [len(one.answer or "") > 9_000 for _, one in kept] == [False] * 97 + [True] * 3
    assert (kept[0][1].answer or "").startswith("20 éé")
    assert len(session.going_on().model_dump_json()) < EVENT_BYTES


WIDE = '"\n'


@pytest.mark.parametrize("answer", ["b", "b" * 100_000, "é" * 60_000, WIDE * 20_000])
@pytest.mark.parametrize("context", [("c" * 90_000,), ()])
def test_what_goes_on_in_a_new_history_fits_an_event(answer: str, context: tuple[str, ...]) -> None:
    """With the largest of everything; what had no room is left out, and a warning says so."""
    rules = [{"tool": "x" * 200, "arguments": {}, "action": "ask", "why": "y" * 200}] * 60
    known = {"approve": rules, "system": "s" * 5_000, "summary": "y" * 19_900}
    session = Session(SessionRequest.model_validate(known))
    for number in range(20):
        said(session, f"{number:09}{'m' * 90_000}", result(answer), context=context)
        assert roles(session)[0].startswith("user: ")

    request = session.going_on()

    assert len(request.model_dump_json().encode()) < EVENT_BYTES
    assert session.warnings == ["older messages had no room, and were left out"]
    assert (session.summary or "").count("had no room") == 1
    assert parse_request(SessionRequest, request.model_dump_json()) == request
    assert Session(request).going_on() == request


@pytest.mark.parametrize(
    ("pairs", "letters", "context", "least", "most"),
    [(1_000, 1, (), 2_000, 2_000), (1_450, 60, ("c" * 20_000,), 2_401, 2_899)],
)
def test_short_messages_count_with_what_stands_around_them(
    pairs: int, letters: int, context: tuple[str, ...], least: int, most: int
) -> None:
    """Two thousand of a letter are what a request may hold; others make room for a long text."""
    text = "a" * letters
    earlier = [{"role": role, "content": text} for role in ("user", "assistant")] * pairs
    session = Session(SessionRequest.model_validate({"messages": earlier}))

    session.take(SessionMessage(message="a", context=context), "1")

    assert least <= len(session.begin().messages) <= most
    assert context or session.warnings == []


def test_the_texts_of_a_message_are_kept_within_the_limit() -> None:
    """They stay quoted, and what is cut is cut within the quotes; the message stays whole."""
    session = Session(SessionRequest())
    said(session, "m" * 40_000, result(), context=("a" * 50_000, WIDE * 9_000))
    said(session, "n" * 100_000, result(), context=("a" * 90_000,))

    first, _, second, _ = (one.content for one in session.messages)

    assert first.endswith("m" * 40_000)
    assert "bytes left out here" in first
    assert '2. "\\"\\n' in first
    assert second == "n" * 100_000


def test_earlier_messages_over_the_limit_are_summarized_first() -> None:
    """By the turn itself, before its first step; the newest stay, and half of the limit is free."""
    earlier = [
        {"role": role, "content": f"{number} {'x' * 9_000}"}
        for number in range(9)
        for role in ("user", "assistant")
    ]
    driven = Driven([says("b")], messages=earlier, reflections=["What was."]).run()

    made = driven.turn.result()

    assert [one.next for one in made.decisions] == ["compact", "ask", None]
    assert f"over the limit of {EARLIER_TOKENS:,}" in made.decisions[0].reason
    assert (made.summarized, made.stop_reason) == (14, "answered")
    assert "What was." in (made.summary or "")


def test_the_sheet_of_a_session() -> None:
    """It says how far the session is, who waits, and what it spent; no text is on it."""
    session = Session(SessionRequest())
    said(session, "a", result())
    session.take(SessionMessage(message="secret"), "1")
    session.begin()

    running = sheet(session.record())
    session.lost("gone")
    session.ended = "idle", "no message for 5 seconds"
    ended = sheet(session.record())

    facts = {fact.label: (fact.value, fact.note) for fact in running.facts}
    verdict = (running.verdict.words, running.verdict.tone)
    assert verdict == ("2 turns; turn 2 is under way", "running")
    assert facts["waiting"][0] == "1 message"
    assert facts["conversation"] == ("2 messages, 6 bytes", "")
    assert facts["spent"][0] == "1 call, 8 tokens in and 2 out, cost $0.50"
    assert ended.verdict.words == "2 turns; no message for 5 seconds"
    assert ended.facts[0].note == "1 of them failed"
    assert "waiting" not in {fact.label for fact in ended.facts}
    assert "secret" not in ended.model_dump_json() + running.model_dump_json()
    assert turn_id("a", 3) == "a-turn-3"
