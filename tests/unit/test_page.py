"""A sheet as one HTML file."""

from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
from markupsafe import escape

from commands.found import error_sheet
from commands.html.rendering import RunFacts, page_html
from mull.batch.request import BatchRequest
from mull.errors import RunFailedError
from mull.handle import Run
from mull.loops import BATCH, SAMPLING, Loop
from mull.sampling.request import SelfConsistencyRequest
from mull.sheet import Sheet, Text
from mull.text import neutral
from tests.unit.sheets import ASKED, FACTS, HOSTILE, SHEETS


class Page(HTMLParser):
    """Every element and attribute of a page, and whether each element is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.mark.parametrize("shown", SHEETS.values(), ids=SHEETS)
def test_a_page_is_whole_and_loads_nothing(shown: Sheet) -> None:
    """Every element is closed in order, none loads or runs anything, and the policy forbids it."""
    text = page_html(shown, FACTS)
    page = Page(text)
    names = {name for _, attributes in page.elements for name in attributes}

    assert page.open == []
    scopes = {"row", "col"} if shown.tables else set()
    assert {header.get("scope") for header in page.named("th")} == scopes
    assert not {tag for tag, _ in page.elements} & {"script", "img", "link", "iframe", "object"}
    assert not {name for name in names if name.startswith("on")} | names & {"src", "srcset"}
    assert "url(" not in text
    assert "@import" not in text
    assert page.named("meta")[1]["content"] == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    )


def test_everything_from_outside_is_escaped() -> None:
    """Text of models, people and callers is shown as it is, its control characters as pictures."""
    asked = SelfConsistencyRequest(question="?", context=(HOSTILE,))
    run = RunFacts(HOSTILE, HOSTILE, web_ui=f"http://x/{HOSTILE}", request=asked)

    page = page_html(SHEETS["hostile"], run)

    assert page.count("<script") == 0
    assert page.count("&lt;script&gt;") >= 20
    assert not {"\x1b", "\x00", "\u202e"} & set(page)


@pytest.mark.parametrize("shown", SHEETS.values(), ids=SHEETS)
def test_every_flag_and_warning_stands_on_it(shown: Sheet) -> None:
    """What a reader has to know is never missing, a run that was cut short among it."""
    page = page_html(shown)

    assert page.count('<li class="flag') == len(shown.flags) + len(shown.warnings)
    assert ("cut short" in page) == any("cut short" in flag for flag in shown.flags)


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "//x", "file:///x"])
def test_only_web_addresses_are_linked(address: str) -> None:
    """The run's page in the Web UI is the one link; an address of another scheme is text."""
    other = Page(page_html(ASKED, FACTS._replace(web_ui=address)))

    assert other.named("a") == []
    assert Page(page_html(ASKED, FACTS)).named("a") == [{"href": FACTS.web_ui, "rel": "noreferrer"}]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("# Costs\n\n**Low** [1]", "<h1>Costs</h1>\n<p><strong>Low</strong> [1]</p>"),
        ("| a |\n|---|\n| 1 |", "<td>1</td>"),
        ("[a](https://x/y)", '<p><a href="https://x/y">a</a></p>'),
        ("![a](https://x/y.png)", '<p>!<a href="https://x/y.png">a</a></p>'),
        ("[a](javascript:x) [b](//x) [c](http:x)", "[a](javascript:x) [b](//x) [c](http:x)"),
        ("<b>a</b>\n\n<script>", "<p>&lt;b&gt;a&lt;/b&gt;</p>\n<p>&lt;script&gt;</p>"),
        ("a&#x202e;b \x1b", "<p>ab \u241b</p>"),
        ("|a|b|\n|-:|:-|\n|1|2|", '<td class="number">1</td>\n<td>2</td>'),
    ],
)
def test_a_report_is_rendered_and_still_loads_nothing(written: str, shown: str) -> None:
    """Its Markdown makes headings, tables and web links; HTML stays text, and images are links."""
    texts = [Text(title="report", content=written, kind=kind) for kind in ("markdown", "code")]

    page, code = (page_html(ASKED.model_copy(update={"answer": text})) for text in texts)

    assert shown in page
    assert f'<div class="text best code">{escape(neutral(written))}</div>' in code


PRIME = SelfConsistencyRequest(question="Is 91 prime?")
BATCHED = BatchRequest.model_validate(
    {"items": [{"question": "a"}], "variants": [{"name": "ask", "workflow": SAMPLING.workflow}]}
)


@pytest.mark.parametrize(
    ("loop", "request_", "subject"),
    [(BATCH, BATCHED, "its-id"), (SAMPLING, None, "its-id"), (SAMPLING, PRIME, "Is 91 prime?")],
)
def test_a_run_that_failed_has_a_page_though_no_worker_answers(
    loop: Loop, request_: Any, subject: str
) -> None:
    """It is about what was asked, or else names the run by its id."""
    handle: Any = SimpleNamespace(id="its-id")
    error = RunFailedError("its-id", "NotFoundError", "no such model")

    shown = error_sheet(error, Run[Any](handle, loop, handle), None, request_)

    assert shown.subject == subject
    assert "NotFoundError: no such model" in page_html(shown)
