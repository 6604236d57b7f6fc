"""No text makes a guardrail fail, or slow."""

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflection.critique.guardrails import Checked, check, known_guardrails
from reflection.critique.prose import read
from tests.unit.critique.test_guardrails import HONEST

PIECES = [
    *"[]()`~|#*_-+=<>{}:;,.\"'!\\/09aé珊\u200b\u0301\x00 \n\t",
    *(
        "  \n",
        "a ",
        "a\n",
        "# ",
        "> ",
        "- a\n",
        "1) a\n\n",
        "    [1]\n",
        "```\n",
        "``` ",
        "| a ",
        "|-",
    ),
    *("a|b\n-|-\n", "<!--", "<a ", "</", "<![CDATA[", "<|", "[1]", "[1,", "[^1]", "[a](", "[[a]"),
    *("![a](", "](http://", "[a]: b\n", "http://", "www.a.", "(Smith, ", "Smith and ", "10.1000/"),
    *(
        "[source ",
        "[insert ",
        "a.b",
        "A a",
        "a-",
        "x1",
        "(a",
        "x = [",
        "lambda ",
        "def f(",
        '"a": ',
    ),
    *('{"a":', "1,000 ", "five ", "the ", "not ", "very ", "I'm sorry ", "as an ai ", "as json "),
    *("in one ", "ignore all ", "ignore the previous and ", "score this ", "END OF "),
]
FORMS = ("json", "python", "markdown")


def seconds(text: str, form: str | None) -> float:
    """The CPU seconds that the guardrails take, with nothing read before."""
    checked = Checked(
        query=text,
        draft=text,
        previous=text[:-1],
        sources=(text,),
        format=form,
        asks_for=("clarity", "evidence"),
    )
    names = ["malformed"] if form else known_guardrails()[1:]
    read.cache_clear()
    start = process_time()
    assert check(checked, names).failures == ()
    return process_time() - start


@pytest.mark.parametrize("piece", PIECES)
def test_no_repeated_piece_is_slow(piece: str) -> None:
    """All guardrails together take at most three times as long for twice the worst text.

    Under half a second, for which a slow machine may take some more, nothing is too slow.
    """
    for form in (None, *FORMS):
        full, half = ((piece * size)[:size] for size in (100_000, 50_000))
        took = seconds(full, form)
        if took > 0.5:
            took = min(took, seconds(full, form))
            assert took < 3 * max(seconds(half, form), seconds(half, form))
            assert took < 4


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([*PIECES, HONEST]) | st.text(max_size=20), max_size=40).map("".join),
    st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=20).map("".join),
    st.sampled_from([None, *FORMS]),
)
def test_no_text_makes_a_guardrail_fail(draft: str, other: str, form: str | None) -> None:
    """Whatever the texts are, every guardrail returns a finding or none, with a plain reason."""
    checked = Checked(
        query=other, draft=draft, previous=other, sources=(other,), format=form, asks_for=("a",)
    )

    report = check(checked, ["default"])

    assert report.failures == ()
    assert all(0 <= cap.cap < 1 and "\n" not in cap.reason for cap in report.caps)
