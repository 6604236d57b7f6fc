"""Answers compared as numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflection.convergence.answers.kinds import read_answer


@pytest.mark.parametrize(
    ("raw", "form"),
    [
        ("129", "129"),
        ("129.", "129"),
        ("007", "7"),
        ("-0", "0"),
        ("+5", "5"),
        ("\u22125", "-5"),
        ("minus 5", "-5"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("$1,290.00", "1290"),
        ("1,290", "1290"),
        ("1\u202f290", "1290"),
        ("1\u00a0290", "1290"),
        ("1 000 000", "1000000"),
        ("1,00,000", "100000"),
        ("1.290,50", "1290.5"),
        ("1.290.000", "1290000"),
        ("1,5", "1.5"),
        ("0,290", "0.29"),
        ("1.290", "1.29"),
        ("1.29e3", "1290"),
        ("1.29E3", "1290"),
        ("2.5 × 10^3", "2500"),
        ("2.5 \\times 10^{3}", "2500"),
        ("10³", "1000"),
        ("1.5 million", "1500000"),
        ("5 millions", "5000000"),
        ("3/4", "0.75"),
        ("1/3", "1/3"),
        ("-2/6", "-1/3"),
        ("0.50", "0.5"),
        (".5", "0.5"),
        ("1/2", "0.5"),
        ("50 %", "0.5"),
        ("50 percent", "0.5"),
        ("5 ‰", "0.005"),
        ("3 1/2", "3.5"),
        ("3½", "3.5"),
        ("3\\frac{1}{2}", "3.5"),
        ("-\\frac{3}{4}", "-0.75"),
        ("\\frac12", "0.5"),
        ("1e-30", "0.000000000000000000000000000001"),
        ("1e-31", "1/10000000000000000000000000000000"),
        ("1e30", "1000000000000000000000000000000"),
        ("€ 12", "12"),
        ("12 €", "12"),
        ("12 apples", "12"),
        ("5 km", "5"),
        ("50 km/h", "50"),
        ("90°", "90"),
        ("x = 5", "5"),
        ("2 + 2 = 4", "4"),
        ("π ≈ 3.14", "3.14"),
        ("The answer is 42.", "42"),
        ("5 + 3 is 8, so the answer is 8", "8"),
        ("42 (42.0)", "42"),
        ("\\boxed{42}", "42"),
        ("$\\boxed{\\frac{1}{2}}$", "0.5"),
        ("**42**", "42"),
        ("'42'", "42"),
        ("\\(42\\)", "42"),
        ("Answer: 42", "42"),
        ("#### 1,290", "1290"),
        ("\uff11\uff12", "12"),
        ("٤٢", "42"),
    ],
)
def test_a_number_votes_by_its_exact_value(raw: str, form: str) -> None:
    """The spellings of one number have one form."""
    assert read_answer("number", raw) == form


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "",
        "forty",
        "NaN",
        "inf",
        "∞",
        "1/0",
        "0/0",
        "1e999999999",
        "1e-999999999",
        "1e1000000000000",
        "9" * 1_001,
        "9" * 100_000,
        "1." + "0" * 1_100,
        "1e1000",
        "5 or 6",
        "x = 2, y = 3",
        "x = 2 or x = 3",
        "3x + 2 = 17",
        "10-6",
        "5-5",
        "2+2",
        "2**3",
        "2^2",
        "5!",
        "2x",
        "2π",
        "2 pi",
        "√2",
        "f(5)",
        "3+4i",
        "< 5",
        "x != 5",
        "±5",
        "at least 5",
        "not 5",
        "5+",
        "$2M",
        "$5m",
        "3k",
        "3 tenths",
        "2 hundred thousand",
        "12:30",
        "2024-05-01",
        "12/25/2024",
        "1.2.3",
        "1,2,3",
        "5 5",
        "12 34",
        "5'10\"",
        "0x1F",
        "A5",
        "0.333...",
        "1\x002",
    ],
)
def test_what_is_not_one_number_is_unreadable(raw: str | None) -> None:
    """Words, formulas, bounds, several numbers and numbers beyond all bounds are None."""
    assert read_answer("number", raw) is None


@settings(deadline=None)
@given(numerator=st.integers(), denominator=st.integers(min_value=1))
def test_a_fraction_and_its_form_are_one_vote(numerator: int, denominator: int) -> None:
    """A fraction and the same one with both parts tripled have one form."""
    form = read_answer("number", f"{numerator}/{denominator}")

    tripled = read_answer("number", f"{3 * numerator} / {3 * denominator}")

    assert form is not None
    assert tripled == form
