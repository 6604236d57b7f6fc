"""A request's fields as a form, and a form that was sent as a request."""

import asyncio
import re
from html import unescape
from inspect import signature
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import FormData, UploadFile

from commands.lines import COMMANDS as LOOPS
from commands.options import HEADINGS
from commands.reflexion import reflexion
from commands.start import agent, ask, reflect
from commands.turn import turn
from commands.web.forms import SAID, Filled, form_of, read_form
from mull.errors import MullError, NoWorkerError, RequestError
from mull.multipath.suite import TestFile
from mull.request import Request
from tests.unit.web.pages import pages, said

COMMANDS = {"ask": ask, "reflect": reflect, "agent": agent, "turn": turn, "reflexion": reflexion}
RUN = "0197c2aa-0000-4000-8000-000000000000"


class Began:
    """A client that notes what it begins; with an error it refuses, or has no worker."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.begun: list[tuple[Request, str]] = []

    async def need_workers(self, queues: tuple[str, ...]) -> None:
        assert queues[0] == "mull"
        if isinstance(self.error, NoWorkerError):
            raise self.error

    async def begin(self, request: Request, identity: str, *, priority: int) -> Any:
        if self.error is not None:
            raise self.error
        assert priority == 2
        self.begun.append((request, identity))
        handle = SimpleNamespace(first_execution_run_id=RUN)
        return SimpleNamespace(description=None, handle=handle)


def file(text: str | bytes, name: str = "a.txt") -> UploadFile:
    data = text.encode() if isinstance(text, str) else text
    return UploadFile(BytesIO(data), filename=name)


def filled(command: str, *parts: tuple[str, str | UploadFile]) -> Filled:
    return asyncio.run(read_form(command, FormData([*parts])))


def set_in(found: Filled) -> dict[str, Any]:
    assert found.errors == {}
    fields: dict[str, Any] = found.request.model_dump(mode="json", exclude_unset=True)
    return fields


@pytest.mark.parametrize("name", SAID)
def test_a_form_has_what_the_command_has_in_the_command_s_order(name: str) -> None:
    """Common fields, headings and helps are the command's; folders of the worker are left out."""
    command: Any = COMMANDS[name]
    options = {
        one.name: one.annotation.__metadata__[0] for one in signature(command).parameters.values()
    }
    fields = {one.name: one for one in form_of(name) if not one.name.startswith("limits.")}
    subject = LOOPS[name].request.subject_field

    known = [one for one in fields if one in options]
    off = {one.partition("__")[0]: one for one in options if one.endswith("__off")}
    assert fields.keys() - options.keys() - off.keys() <= {subject}
    assert {one for one in fields if fields[one].common} - {subject} == (
        command.common & fields.keys()
    ) - {subject}
    headings = [fields[one].option.heading for one in fields if not fields[one].required]
    assert headings == sorted(headings, key=HEADINGS.index)
    own = {subject, "draft", "tests"}
    plain = [
        one for one in known if fields[one].kind not in {"switch", "choice"} and one not in own
    ]
    for one in plain:
        assert options[one].help.startswith(fields[one].help.rstrip("."))
        assert "; or --" not in fields[one].help
    assert not {"docs", "tasks", "folder", "passages"} & fields.keys()


def test_what_is_typed_is_read_as_on_the_command_line() -> None:
    found = filled(
        "ask",
        ("question", "Is 91\r\nprime?"),
        ("max_responses", " 3 "),
        ("options", "top_p=0.5\r\nstop=a\r\nstop=b"),
        ("messages", '[{"role": "user", "content": "Hi"}]'),
        ("answers", "number"),
        ("preset", ""),
        ("model", ""),
    )

    fields = set_in(found)

    assert fields.pop("min_responses") == 3
    assert fields == {
        "question": "Is 91\nprime?",
        "max_responses": 3,
        "options": {"top_p": 0.5, "stop": ["a", "b"]},
        "messages": [{"role": "user", "content": "Hi"}],
        "answers": "number",
    }


def test_a_text_that_is_typed_and_uploaded_is_asked_about() -> None:
    """Neither wins unseen; what was typed stays."""
    found = filled("ask", ("question", "Typed?"), ("question", file("Uploaded?")))

    assert (found.errors, found.request) == (
        {"question": "typed and uploaded; give one of the two"},
        None,
    )
    assert found.values["question"] == "Typed?"


def test_texts_are_uploaded_and_a_file_stays_as_it_is() -> None:
    found = filled(
        "reflect",
        ("query", "Judge it"),
        ("draft", ""),
        ("draft", file("One\r\ntwo\n")),
        ("context", "typed"),
        ("context", file("first")),
        ("context", file("second")),
        ("context", UploadFile(BytesIO(), filename="")),
        ("reflect", "on"),
    )

    assert set_in(found) == {
        "query": "Judge it",
        "draft": "One\r\ntwo\n",
        "context": ["typed", "first", "second"],
    }


def test_a_switch_that_is_off_is_set() -> None:
    """A browser does not send it."""
    fields = set_in(filled("agent", ("prompt", "Write it")))

    assert fields == {"prompt": "Write it", "creative": False}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (file("import solution", "check.py"), "check.py"),
        (file("def test_a(): pass", "test_a.py"), "test_a.py"),
        ("\n" * 60_000 + "assert True", "check.py"),
        ("def test_a(): pass", "test_code.py"),
        ("assert True", "check.py"),
    ],
)
def test_tests_make_it_a_run_of_code(given: str | UploadFile, named: str) -> None:
    found = filled("agent", ("prompt", "x"), ("tests", given), ("limits.wall_seconds", "3"))

    assert isinstance(found.request.tests, TestFile)
    assert (found.request.tests.name, found.request.mode) == (named, "code")
    assert found.request.limits.wall_seconds == 3


def test_no_tool_may_be_used() -> None:
    """As the help says, by two quotation marks."""
    fields = set_in(
        filled("turn", ("message", "Hi"), ("tools", '""'), ("reflect_on_tool_error", "on"))
    )

    assert fields == {"message": "Hi", "tools": []}


@pytest.mark.parametrize(
    ("command", "parts", "field", "words"),
    [
        ("ask", [], "question", "missing"),
        ("ask", [("max_responses", "ten")], "max_responses", "should be a whole number"),
        ("ask", [("max_responses", "0")], "max_responses", "greater than or equal to 1"),
        ("ask", [("model", "http://evil/x")], "model", "an address (://) can't be part"),
        ("ask", [("options", "top_p")], "options", "expected NAME=VALUE, such as top_p=0.9"),
        ("ask", [("options", "key=1")], "options", "there is no key; the options are top_p"),
        ("ask", [("messages", "[{]")], "messages", "not valid JSON (line 1, column 3); expected ["),
        ("ask", [("context", file(b"\xff", "b\x1b.txt"))], "context", "b␛.txt is not UTF-8 text"),
        (
            "reflect",
            [("query", "q"), ("draft", "x" * 200_000)],
            "draft",
            "200,000 bytes exceed the limit",
        ),
        ("agent", [("limits.memory_mb", "1")], "limits.memory_mb", "greater than or equal to 32"),
        ("agent", [("tests", file("def", "t.py"))], "tests", "not Python: invalid syntax"),
        ("agent", [("tests", file("(" * 300_000, "t.py"))], "tests", "300,000 bytes exceed"),
        ("agent", [("mode", "research"), ("entry", "fib")], "entry", "only for code"),
        ("reflexion", [], "environment", "missing"),
    ],
)
def test_an_error_stands_at_its_field_in_the_command_line_s_words(
    command: str, parts: list[Any], field: str, words: str
) -> None:
    found = filled(command, *parts)

    assert words in found.errors[field]
    assert found.request is None


def test_what_is_wrong_with_the_whole_is_said_of_the_whole() -> None:
    found = filled("ask", ("question", "Why?"), ("answers", "llm"), ("max_responses", "100"))

    assert list(found.errors) == [""]
    assert found.errors[""].startswith("max_responses is at most 50")


def key_of(page: str) -> str:
    found = re.search(r'name="key" value="([0-9a-f]{32})"', page)
    assert found is not None
    return found[1]


def test_a_form_that_is_sent_twice_starts_one_run() -> None:
    """Its key and what it asks make the id; what was changed meanwhile is another run."""
    client = Began()
    browser = pages(client)
    form = {"key": key_of(browser.get("/start/ask").text), "question": "Is 91 prime?"}

    answers = [browser.post("/start/ask", data=form) for _ in range(2)]
    browser.post("/start/ask", data={**form, "question": "Is 92 prime?"})
    browser.post("/start/ask", data={**form, "key": key_of(browser.get("/start/ask").text)})

    first, again, changed, anew = (identity for _, identity in client.begun)
    assert first == again
    assert first.startswith("ask-is-91-prime-")
    assert len({first, changed, anew}) == 3
    assert {(one.status_code, one.headers["location"]) for one in answers} == {
        (303, f"/runs/{RUN}")
    }


def test_an_id_has_no_words_where_payloads_are_encrypted() -> None:
    client = Began()

    pages(client, encrypted=True).post("/start/ask", data={"question": "Is Ann ill?"})

    assert re.fullmatch(r"ask-[0-9a-f]{8}", client.begun[0][1])


def test_what_is_wrong_is_shown_beside_what_was_typed() -> None:
    """Nothing that was typed or uploaded is lost, and it stays what was typed."""
    client = Began()
    parts = {"question": "<script>1</script>", "max_responses": "ten"}
    upload = {"context": ("a.txt", b"one <b>file</b>")}

    answer = pages(client).post("/start/ask", data=parts, files=upload)

    assert (answer.status_code, client.begun) == (422, [])
    assert "<script>1" not in answer.text
    assert "&lt;script&gt;1&lt;/script&gt;</textarea>" in answer.text
    assert "one &lt;b&gt;file&lt;/b&gt;</textarea>" in answer.text
    assert 'aria-describedby="help-max_responses wrong-max_responses" aria-invalid="true"' in (
        answer.text
    )
    assert "max responses : should be a whole number" in said(answer.text)
    assert "<title>Error: Start ask" in answer.text


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoWorkerError("no worker is polling", "Start one."), 503),
        (RequestError("the run has another request", "Choose another id.", "id"), 422),
    ],
)
def test_what_was_not_started_can_be_sent_again(error: MullError, status: int) -> None:
    """The form keeps its key, so that a run which began all the same is found."""
    form = {"question": "Is 91 prime?", "key": "k1"}

    answer = pages(Began(error)).post("/start/ask", data=form)

    assert answer.status_code == status
    assert str(error) in unescape(answer.text)
    assert 'name="key" value="k1"' in answer.text
    assert "Is 91 prime?</textarea>" in answer.text


@pytest.mark.parametrize("command", SAID)
def test_each_form_is_a_page(command: str) -> None:
    """With a label for each field; what is not common is folded."""
    page = pages(Began()).get(f"/start/{command}").text

    for one in form_of(command):
        assert f'<label for="{one.name}">' in page
    folded = {one.option.heading for one in form_of(command) if not one.common}
    assert page.count("<details") == len(folded)
    assert "<details open" not in page
    assert f'href="/start/{command}" aria-current="page">{command}<' in page


def test_there_is_no_form_where_there_is_no_such_command_or_nothing_is_written() -> None:
    assert pages(Began()).get("/start/train").status_code == 404
    assert pages(Began(), read_only=True).get("/start/ask").status_code == 403
