"""Answers that are one letter."""

import pytest

from reflection.convergence.answers.kinds import read_answer


@pytest.mark.parametrize(
    ("raw", "form"),
    [
        ("A", "A"),
        ("a", "A"),
        ("I", "I"),
        ("a)", "A"),
        ("(b)", "B"),
        ("[c].", "C"),
        ("Ⓑ", "B"),
        ("Option C", "C"),
        ("option a", "A"),
        ("Answer: D", "D"),
        ("**Answer: (D) 42**", "D"),
        ("**B**", "B"),
        ("B. Paris", "B"),
        ("b) Paris", "B"),
        ("B: Paris", "B"),
        ("B - Paris", "B"),
        ("B. Vitamin C", "B"),
        ("A. John F. Kennedy", "A"),
        ("B. It does not rain", "B"),
        ("it is (C)", "C"),
        ("The answer is (C).", "C"),
        ("The answer is a", "A"),
        ("C is correct", "C"),
        ("\\boxed{B}", "B"),
        ("$\\boxed{\\text{C}}$", "C"),
        ("I think it is A", "A"),
        ("I think it is B.", "B"),
        ("A good choice is B", "B"),
    ],
)
def test_a_choice_votes_as_its_capital_letter(raw: str, form: str) -> None:
    """A choice is a capital letter however it is marked, and A is never lost."""
    assert read_answer("choice", raw) == form


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "",
        "?",
        "5",
        "Paris",
        "A dog",
        "Answer: A dog",
        "I agree",
        "I think it is a",
        "Vitamin C",
        "A+",
        "C++",
        "A or B",
        "Both A and C",
        "(A) or (B)",
        "(A)(B)",
        "A) and C)",
        "A: correct, B: wrong",
        "Options B and C",
        "It is not B",
        "The answer is not B",
        "A. " * 5_000,
    ],
)
def test_what_is_not_one_letter_is_unreadable(raw: str | None) -> None:
    """An article, a denial and two different letters are None."""
    assert read_answer("choice", raw) is None
