"""How a record shows in a notebook."""

from html.parser import HTMLParser
from typing import Any

import pytest

from mull.notebook import html_of
from tests.unit.critique.reflected import reflected
from tests.unit.multipath.agent_runs import UNCLEAR, coded, researched, verdict
from tests.unit.runs import sampled

HOSTILE = '<script>alert("x")</script> & $5 and $6'


class Tags(HTMLParser):
    """The tags and the text of a page; each tag that is opened has to be closed in its order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.seen, self.text = list[str](), set[str](), ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        del attrs
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (sampled(["A", "A", "B", "A", "A"]).result(), ["agreement 0.8 reaches 0.8", "Votes"]),
        (reflected([0.8]).result(), ["Drafts", "spent"]),
        (researched([[UNCLEAR]] * 3).result(), ["1 critique remains", "Sources"]),
        (coded([verdict(True, False)], max_revisions=1).result(), ["Tests"]),
        (sampled(["A", HOSTILE]).record(), [HOSTILE]),
    ],
)
def test_a_record_shows_as_its_headline_and_tables(record: Any, shown: list[str]) -> None:
    """Whole or under way; what a model wrote is text, and no part of the page."""
    page = html_of(record) or ""
    tags = Tags(page)

    assert [words for words in shown if words not in tags.text] == []
    assert tags.open == []
    assert {"div", "table"} <= tags.seen <= {
        "b", "details", "div", "li", "summary", "table", "td", "th", "tr", "ul",
    }  # fmt: skip
    # Else a notebook would set what stands between two dollars as a formula.
    assert page.startswith('<div class="tex2jax_ignore mathjax_ignore">')
    assert record.answer_field in type(record).model_fields


def test_a_record_knows_its_run_if_it_was_read_from_the_server() -> None:
    """It is no part of what is recorded, compared with or sent."""
    record = sampled(["A"] * 5).result()
    named = record.model_copy()
    named._id = "ask-91"

    assert (record.id, named.id, named.model_copy().id) == ("", "ask-91", "ask-91")
    assert "ask-91" in (html_of(named) or "")
    assert named.model_dump_json() == record.model_dump_json()
