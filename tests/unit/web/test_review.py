"""The review queue: what it asks, what a decision does, and what who is too late is told."""

import asyncio
import re
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from commands.run_list import Listed
from commands.web import review
from commands.web.waiting import WaitingItem, items_of
from mull.errors import RequestError
from mull.handle import Run
from mull.loops import CRITIQUE, SAMPLING, TURN, Loop
from mull.request import Review
from mull.turn.approval import Permission
from tests.unit.critique.reflected import reflected, write
from tests.unit.runs import START, sampled
from tests.unit.turn.test_budget import after
from tests.unit.turn.test_loop import asks
from tests.unit.web.pages import pages, said

RUN = "0197c2aa-0000-4000-8000-00000000000{}"


class Waits(Run[Any]):
    """A run that waits, with the loop's own state, which takes and refuses what a worker would."""

    def __init__(self, loop: Loop, state: Any, **shown: Any) -> None:
        self.loop, self.state, self.description = loop, state, None
        self.handle: Any = SimpleNamespace(id="words-of-a-question")
        self.temporal: Any = None
        self.shown = {"step": f"waiting_for_{'permission' if loop is TURN else 'review'}", **shown}
        self.given: list[Review | Permission] = []

    async def look(self) -> Any:
        if self.state.stopped and self.loop is not SAMPLING:
            return self.state.result()
        return self.state.record(**self.shown)

    async def glance(self, _: timedelta | None = None) -> Any:
        return await self.look()

    async def update(self, name: str, argument: Any = None) -> None:
        refuses: Callable[[Any], str | None]
        refuses = self.state.calls.refuses if name == "permit" else self.state.refused
        why = "the run is not waiting for a review" if self.state.stopped else refuses(argument)
        if why is not None and (self.loop is not SAMPLING or refuses(argument)):
            raise RequestError(f"refused: {why}")
        self.given.append(argument)


def waiting_draft() -> Waits:
    """A weak draft, the second one, that waits for a person."""
    return Waits(CRITIQUE, reflected([0.3, 0.42], max_revisions=1, review_below=0.6))


def waiting_calls(*asked: str) -> Waits:
    return Waits(TURN, asks(*asked), at=after(2))


def seen(run: Waits, number: int = 1) -> list[WaitingItem]:
    return list(items_of(run, RUN.format(number), asyncio.run(run.look())))


def found(monkeypatch: pytest.MonkeyPatch, *runs: Waits) -> None:
    """Have the server list these runs, and each address name the run of its last digit."""
    rows: list[Any] = [
        {"id": str(number), "run_id": RUN.format(number), "workflow": run.loop.workflow}
        for number, run in enumerate(runs)
    ]

    async def listed(*_: object, **_texts: bool) -> Listed:
        return Listed(rows)

    async def named(_: object, run_id: str) -> Waits:
        return runs[int(run_id[-1])]

    def of(
        _temporal: object, _loop: object, _id: str, _seen: object = None, run_id: str = ""
    ) -> Waits:
        return runs[int(run_id[-1])]

    monkeypatch.setattr("commands.web.runs.list_runs", listed)
    monkeypatch.setattr(review, "find", named)
    monkeypatch.setattr(Run, "of", of)


def field(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None
    return found[1]


CLIENT: Any = SimpleNamespace(temporal=None)
PART = {"hx-request": "true"}


def test_a_result_is_asked_about_with_the_draft_that_is_shown() -> None:
    [item] = seen(waiting_draft())

    assert (item.draft, item.call, item.key) == (1, None, item.run_id)
    assert item.since == START + timedelta(seconds=15)
    assert item.run.loop.actions == ("accept", "revise", "replace", "score")


def test_each_call_is_asked_about_by_itself_with_nothing_hidden() -> None:
    """A value is laid out, and its invisible letters are escapes, with a warning beside it."""
    run = waiting_calls('mail {"path": "a\\u2060b", "lines": ["x", {"deep": 1}]}', "mail c")

    first, second = seen(run)

    assert first.call is not None
    assert second.call is not None
    assert dict(first.call.arguments) == {
        "path": "a\\u2060b",
        "lines": '[\n  "x",\n  {\n    "deep": 1\n  }\n]',
    }
    assert first.call.doubts == (
        "characters that can't be seen, or look like others, are shown as escapes",
    )
    assert (second.call.tool, second.call.arguments, second.call.doubts) == (
        "mail",
        (("path", "c"),),
        (),
    )
    assert first.key != second.key


def test_what_does_not_wait_is_not_asked_about() -> None:
    assert seen(Waits(CRITIQUE, reflected([0.9]))) == []


def test_the_queue_has_the_longest_wait_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever kind it is; what no worker answers for is counted."""
    late, early = waiting_calls("mail a"), waiting_draft()
    silent = waiting_draft()

    async def nothing(_: object) -> None:
        return None

    monkeypatch.setattr(silent, "glance", nothing)
    found(monkeypatch, early, late, silent)

    words = said(pages(CLIENT).get("/review").text)

    assert words.index("Call 1 of mail") < words.index("Kafka keeps a log. Revision 1.")
    assert "1 more wait, but no worker answers for them now." in words


async def test_a_queue_of_long_drafts_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn beside the answers to others."""
    long = waiting_draft()
    text = "\u00e9 and \u00e8\n" * 15_000
    long.state.drafts[1] = long.state.drafts[1].model_copy(update={"text": text})
    found(monkeypatch, *[long] * 10)
    moments = [time.monotonic()]

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            moments.append(time.monotonic())

    ticking = asyncio.create_task(tick())
    transport = httpx.ASGITransport(pages(CLIENT).app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8401") as browser:
        page = await browser.get("/review")
    ticking.cancel()
    moments.append(time.monotonic())

    gaps = [after - before for before, after in pairwise(moments)]
    assert page.text.count(text) >= 10
    assert max(gaps) < sum(gaps) / 3


def test_where_search_attributes_are_not_registered_the_queue_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(*_: object, **_texts: bool) -> None:
        return None

    monkeypatch.setattr("commands.web.runs.list_runs", refused)

    answer = pages(CLIENT).get("/review")

    assert answer.status_code == 400
    assert "Register them with `mull register`." in answer.text


@pytest.mark.parametrize(
    ("form", "taken"),
    [
        ({"action": "accept"}, {"accept": True}),
        ({"action": "revise", "words": "Shorter,\r\nplease."}, {"revise": "Shorter,\nplease."}),
        ({"action": "replace", "words": "Mine."}, {"replace": "Mine."}),
        ({"action": "score", "words": "0.8"}, {"score": 0.8}),
    ],
)
def test_a_person_decides_on_the_draft_that_they_saw(
    monkeypatch: pytest.MonkeyPatch, form: dict[str, str], taken: dict[str, Any]
) -> None:
    """By the name that the proxy gives, and then the queue is shown again."""
    run = waiting_draft()
    found(monkeypatch, run)
    browser = pages(CLIENT, "ann")
    page = browser.get("/review").text

    answer = browser.post(
        f"/runs/{RUN.format(0)}/decide", data={**form, "draft": field(page, "draft")}
    )

    assert (answer.status_code, answer.headers["location"]) == (303, "/review")
    assert run.given == [Review(**taken, draft=1, author="ann")]


def test_a_draft_that_moved_on_is_refused_and_the_new_one_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the words of the command line; what was typed stands beside the new draft."""
    run = waiting_draft()
    found(monkeypatch, run)
    write(run.state, "A third draft.")
    run.state.chosen = 2
    form = {"action": "revise", "words": "Name <b>dates</b>.", "draft": "1", "key": RUN.format(0)}

    answer = pages(CLIENT).post(f"/runs/{RUN.format(0)}/decide", data=form, headers=PART)

    assert (answer.status_code, run.given) == (409, [])
    assert "Refused: draft 3 is under review now." in answer.text
    assert field(answer.text, "draft") == "2"
    assert "Name &lt;b&gt;dates&lt;/b&gt;.</textarea>" in answer.text
    assert "<html" not in answer.text


@pytest.mark.parametrize("headers", [PART, {}])
def test_who_is_too_late_is_told_who_decided(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    """The name is a claim, since anybody can give any."""
    run = waiting_draft()
    found(monkeypatch, run)
    run.state.settle("accepted_by_person", "accepted by ann", START, "ann")

    answer = pages(CLIENT, "bob").post(
        f"/runs/{RUN.format(0)}/decide", data={"action": "accept", "draft": "1"}, headers=headers
    )

    assert (answer.status_code, run.given) == (409, [])
    assert (
        said(answer.text).count(
            'Refused: the run is not waiting for a review. accepted by "ann" (unverified),'
            " at 2026-03-01 12:00:00 UTC."
        )
        == 1
    )
    assert ("<html" in answer.text) is (not headers)


def test_a_call_is_allowed_by_all_that_was_shown_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = waiting_calls("mail a", "mail b")
    found(monkeypatch, run)
    browser = pages(CLIENT, "ann")
    page = browser.get("/review").text
    form = {"action": "allow", **{name: field(page, name) for name in ("call", "run_id", "digest")}}

    answer = browser.post(f"/runs/{RUN.format(0)}/decide", data=form, headers=PART)
    other = browser.post(
        f"/runs/{RUN.format(0)}/decide", data={**form, "digest": "0" * 32}, headers=PART
    )

    [question, _] = run.state.calls.questions
    about = {"call": 1, "run_id": question.run_id, "digest": question.digest}
    assert run.given == [Permission(**about, allow=True, author="ann")]
    assert (answer.status_code, said(answer.text)) == (200, "Call 1 is allowed. The run")
    assert other.status_code == 409
    assert "call 1 is not the one that was shown: look at it again" in said(other.text)


def test_a_call_is_denied_with_a_reason_and_the_next_person_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = waiting_calls("mail a")
    found(monkeypatch, run)
    browser = pages(CLIENT, "ann")
    page = browser.get("/review").text
    form = {"action": "deny", **{name: field(page, name) for name in ("call", "run_id", "digest")}}
    address = f"/runs/{RUN.format(0)}/decide"

    browser.post(address, data={**form, "words": "ask the owner"})
    [word] = run.given
    assert isinstance(word, Permission)
    run.state.calls.permit(word, "ann", START)
    late = browser.post(address, data=form, headers=PART)

    assert (word.allow, word.why) == (False, "ask the owner")
    assert late.status_code == 409
    assert 'Call 1: deny, by "ann" (unverified): ask the owner.' in said(late.text)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"action": "revise"}, "revise: should have at least 1 character"),
        ({"action": "score", "words": "good"}, "score: should be a valid number"),
        ({"action": "score", "words": "1.5"}, "score: should be less than or equal to 1"),
    ],
)
def test_what_is_no_decision_is_refused(
    monkeypatch: pytest.MonkeyPatch, form: dict[str, str], words: str
) -> None:
    run = waiting_draft()
    found(monkeypatch, run)

    answer = pages(CLIENT).post(
        f"/runs/{RUN.format(0)}/decide", data={**form, "key": RUN.format(0)}, headers=PART
    )

    assert (answer.status_code, run.given) == (409, [])
    assert words in said(answer.text).lower()


@pytest.mark.parametrize(
    "form", [{"call": "²"}, {"call": "9" * 5_000}, {}, {"call": "0"}, {"call": "1", "digest": "d"}]
)
def test_a_call_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, form: dict[str, str]
) -> None:
    run = waiting_calls("mail a")
    found(monkeypatch, run)

    answer = pages(CLIENT).post(f"/runs/{RUN.format(0)}/decide", data={"action": "allow", **form})

    assert (answer.status_code, run.given) == (409, [])


def test_a_draft_is_decided_on_whatever_call_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    run = waiting_draft()
    found(monkeypatch, run)

    answer = pages(CLIENT).post(
        f"/runs/{RUN.format(0)}/decide", data={"action": "accept", "call": "²", "draft": "1"}
    )

    assert (answer.status_code, len(run.given)) == (303, 1)


def test_an_answer_takes_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """So there is no button for it, and what is sent all the same is refused."""
    run = Waits(SAMPLING, sampled(["A", "B"] * 5, review_when="high"), in_flight=0)
    found(monkeypatch, run)
    browser = pages(CLIENT)

    answer = browser.post(f"/runs/{RUN.format(0)}/decide", data={"action": "score", "words": "1"})

    assert (answer.status_code, run.given) == (400, [])
    assert "A run of ask takes accept or replace" in said(answer.text)


def test_a_name_is_kept_for_the_decisions_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cookie that no script reads; what a proxy says goes before it."""
    run = waiting_draft()
    found(monkeypatch, run)
    browser = pages(CLIENT)

    kept = browser.post("/name", data={"name": " Änn; <b>\r\n"})
    browser.post(f"/runs/{RUN.format(0)}/decide", data={"action": "accept"})
    page = browser.get("/review").text

    assert run.given[0].author == "Änn; <b>"
    assert 'value="Änn; &lt;b&gt;"' in page
    assert {"HttpOnly", "SameSite=strict"} <= {*kept.headers["set-cookie"].split("; ")}
    proxied = pages(CLIENT, "bob")
    proxied.cookies = browser.cookies
    proxied.post(f"/runs/{RUN.format(0)}/decide", data={"action": "accept"})
    assert run.given[1].author == "bob"


def test_hostile_texts_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "</textarea><script>alert(1)</script>\u202e"
    state = reflected([0.42], max_revisions=0, review_below=0.6, query=f"{hostile} and so on")
    state.drafts[0] = state.drafts[0].model_copy(update={"text": hostile})
    call = waiting_calls('mail {"<script>": "</pre><script>alert(1)</script>"}')
    found(monkeypatch, Waits(CRITIQUE, state), call)

    page = pages(CLIENT).get("/review").text

    assert "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&lt;/textarea&gt;&lt;script&gt;alert(1)&lt;/script&gt;</textarea>" in page
    assert page.count("<script") == len(
        re.findall(r'<script src="/static/[a-z.-]+"(?: defer)?>', page)
    )
    assert "\u202e" not in page


def test_where_nothing_is_written_nothing_asks_for_a_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What waits is shown all the same."""
    found(monkeypatch, waiting_draft())

    page = pages(CLIENT, read_only=True).get("/review").text

    assert "Kafka keeps a log. Revision 1." in page
    assert 'method="post"' not in page
    assert 'href="/start/ask"' not in page


@pytest.mark.parametrize(("action", "typed"), [("score", "2"), ("revise", " "), ("replace", " ")])
def test_what_was_refused_stays_open_with_its_error_beside_it(
    monkeypatch: pytest.MonkeyPatch, action: str, typed: str
) -> None:
    """In its field alone; the two that a browser has meanwhile share no name, which closes one."""
    found(monkeypatch, waiting_draft())
    form = {"action": action, "words": typed, "draft": "1", "key": RUN.format(0)}

    page = pages(CLIENT).post(f"/runs/{RUN.format(0)}/decide", data=form, headers=PART).text

    at = f"{action}-{RUN.format(0)}"
    [opened] = re.findall(r"<details open><summary data-key.*?</details>", page, re.DOTALL)
    assert f'role="alert" id="error-{at}"' in opened
    assert f'aria-invalid="true" aria-describedby="error-{at}"' in opened
    assert (f'value="{typed}"' in opened) or (f"{typed}</textarea>" in opened)
    assert (page.count("aria-invalid"), page.count('role="alert"')) == (1, 1)
    assert "<details name" not in page


def test_what_came_of_a_decision_names_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, waiting_draft())
    browser = pages(CLIENT)
    page = browser.get("/review").text
    form = {"action": "accept", "draft": "1", "about": field(page, "about")}

    answer = browser.post(f"/runs/{RUN.format(0)}/decide", data=form, headers=PART)

    assert said(answer.text) == "Accepted. The run: Compare Kafka and Pulsar for an audit log."
