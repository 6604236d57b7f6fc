"""The canonical form under which an answer votes."""

from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflection.convergence.answers.kinds import READERS, read_answer
from reflection.sampling.request import AnswerKind

KINDS = sorted(READERS)
WORDS = (
    "1 5 12 290 0 .5 , . - \u2212 + / % $ € ½ ² e3 × 10^3 = ( ) [ ] { } ** ` \" ' “ ” ? ! … a A "
    "B I is and or not x Paris New York million percent answer Answer: Option \\boxed{ "
    "\\frac{1}{2} #### \\text{ \u200b \ud800 \x00 ß İ ﷺ 東京 。"
)
PIECES = st.sampled_from([*WORDS.split(" "), " ", "\n", "\u00a0", "\u202f"])
TEXTS = st.one_of(st.text(), st.lists(PIECES).map("".join), st.lists(PIECES).map(" ".join))


@pytest.mark.parametrize(
    ("raw", "form"),
    [
        ("  Paris.\n", "Paris."),
        ("PARIS", "PARIS"),
        ("a  b", "a  b"),
        ("(10-6)*(4+5)", "(10-6)*(4+5)"),
        ("x\ud800", "x\ufffd"),
        ("", None),
        (" \t\u00a0", None),
        (None, None),
    ],
)
def test_an_exact_answer_loses_only_the_white_space_around_it(
    raw: str | None, form: str | None
) -> None:
    """An exact answer is its characters without the white space around them."""
    assert read_answer("exact", raw) == form


@pytest.mark.parametrize("raw", ["Exercise and stretching.", "x" * 3_000 + ".", "1.5", None])
def test_an_llm_answer_is_first_compared_as_a_text(raw: str | None) -> None:
    """An answer of the kind llm has the form that it has as a text."""
    assert read_answer("llm", raw) == read_answer("text", raw)


@settings(deadline=None)
@given(kind=st.sampled_from(KINDS), raw=TEXTS)
def test_reading_a_form_again_changes_nothing(kind: AnswerKind, raw: str) -> None:
    """Every text is read without an error, and a canonical form is its own."""
    form = read_answer(kind, raw)

    again = read_answer(kind, form)

    assert again == form
    assert form is None or form.encode()


HOSTILE = (
    *("9", "1 ", "1,", "1/", "e9", "10^", "\\frac{1}", "=", "²", "ﷺ", "\x00", "\ud800", " "),
    *("{", "\\boxed{", "Answer: ", "Answer: x\n", "answer is ", "**", '"', "\"'`", " a", "or A."),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", HOSTILE)
def test_a_hostile_text_is_read_in_linear_time(kind: AnswerKind, unit: str) -> None:
    """A text of 2,000, of 10,000 and of a million characters takes under five seconds in all."""
    start = perf_counter()

    for length in (2_000, 10_000, 1_000_000):
        read_answer(kind, "x" + unit * (length // len(unit) - 1))

    assert perf_counter() - start < 5
