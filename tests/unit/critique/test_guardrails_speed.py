"""No text makes a guardrail fail, or slow."""

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflection.critique.guardrails import Checked, Report, check, known_guardrails
from tests.unit.critique.guarded import HONEST

PIECES = [
    *[
        "[",
        "]",
        "(",
        ")",
        "`",
        "~",
        "|",
        "#",
        "*",
        "_",
        "-",
        "+",
        "=",
        "<",
        ">",
        "{",
        "}",
        ":",
        ";",
        ",",
        ".",
        '"',
        "'",
        "!",
        "\n",
        "\t",
        "\\",
        "/",
        "0",
        "9",
        "a",
        "é",
        "珊",
        "\u200b",
        "́",
        "\x00",
    ],
    *("a ", "# ", "I'm sorry ", "[1]", "[1,", "[^1]", "```\n", "| a ", "|-", "<!--", "](http://"),
    *("http://", "www.a.", "(Smith, ", "10.1000/", "very ", "a.b", "ignore all ", "score this "),
    *(
        "you are the ",
        "<|",
        "- ",
        "1. ",
        '"a": ',
        '{"a":',
        "i g n o r e ",
        "as an ai ",
        "A a",
        "a_",
    ),
    *(
        "give me a ",
        "in one ",
        "1,000 ",
        "the ",
        "not ",
        "def f(",
        "    [1]\n",
        "\r\n",
        "(a",
        "![a](",
    ),
    *(
        "ignore the previous and ",
        "Smith and ",
        "x1",
        "a-",
        "END OF ",
        "[source ",
        "x = [",
        "lambda ",
    ),
]


FORMS = ("json", "python", "markdown")
READ_THE_FORM = {"too_short", "unfinished", "malformed"}


def timed(checked: Checked, name: str) -> tuple[float, Report]:
    start = process_time()
    report = check(checked, [name])
    return process_time() - start, report


def least_time(checked: Checked, name: str) -> tuple[float, Report]:
    """The CPU seconds of the best of three, which a noisy neighbour disturbs least."""
    took, report = timed(checked, name)
    for _ in range(2 if took > 0.1 else 0):
        took = min(took, timed(checked, name)[0])
    return took, report


def repeated(piece: str, form: str) -> Checked:
    text = (piece * 100_000)[:100_000]
    return Checked(query=text, draft=text, previous=text[:-1], format=form, sources=(text,))


@pytest.mark.parametrize("piece", [each for each in PIECES if each])
def test_no_repeated_piece_is_slow(piece: str) -> None:
    """Each guardrail takes 0.2 s at most for 100,000 of the worst letters.

    On a machine that is slow at that moment it takes four times the time of prose at most.
    """
    slow = []

    for name in known_guardrails()[1:]:
        for form in FORMS if name in READ_THE_FORM else FORMS[-1:]:
            took, report = least_time(repeated(piece, form), name)
            bound = 0.2
            if took > bound:
                bound = 4 * least_time(repeated(HONEST + " ", form), name)[0]
            if took > bound or report.failures:
                slow.append((name, form, round(took, 2), round(bound, 2), report.failures))

    assert slow == []


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([*PIECES, HONEST]) | st.text(max_size=20), max_size=40).map("".join),
    st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=20).map("".join),
    st.sampled_from([None, "json", "python", "markdown"]),
)
def test_no_text_makes_a_guardrail_fail(draft: str, other: str, form: str | None) -> None:
    """Whatever the texts are, every guardrail returns a finding or none, with a plain reason."""
    checked = Checked(
        query=other,
        draft=draft,
        previous=other,
        sources=(other,),
        format=form,
        asks_for=("clarity",),
    )

    report = check(checked, ["default"])

    assert report.failures == ()
    assert all(0 <= cap.cap <= 1 and "\n" not in cap.reason for cap in report.caps)
