"""Answers compared as texts."""

import pytest

from reflection.convergence.answers.kinds import read_answer


@pytest.mark.parametrize(
    ("raw", "form"),
    [
        ("Paris.", "paris"),
        (" PARIS! ", "paris"),
        ("Paris !", "paris"),
        ("**Paris**", "paris"),
        ('"Paris".', "paris"),
        ("«Paris»", "paris"),
        ("\uff30\uff41\uff52\uff49\uff53", "paris"),
        ("Stra\u00dfe", "strasse"),
        ("New-York", "new york"),
        ("new\u00a0 york", "new york"),
        ("Paris, France", "paris france"),
        ("the “Titanic” sank.", "the titanic sank"),
        ("don\u2019t", "don't"),
        ("5.", "5"),
        ("\u22125", "-5"),
        ("a < b", "a<b"),
        ("(10 - 6) * (4 + 5)", "(10-6)*(4+5)"),
        ("C++.", "c++"),
        ("10²", "10^2"),
        ("3½", "3 1/2"),
        ("東京。", "東京"),
        ("?", "?"),
        ("...", "..."),
        ("\u200b", None),
        ("  ", None),
    ],
)
def test_a_text_votes_without_case_punctuation_and_spacing(raw: str, form: str | None) -> None:
    """A text votes without case, punctuation and spacing."""
    assert read_answer("text", raw) == form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-5", "5"),
        ("1.5", "15"),
        ("1,5", "15"),
        ("3/4", "34"),
        ("50%", "50"),
        ("5!", "5"),
        ("n!", "n"),
        ("0.333...", "0.333"),
        ("a < b", "a > b"),
        ("a != b", "a = b"),
        ("a - b", "a b"),
        ("x-5", "x 5"),
        ("C++", "C"),
        ("C#", "C"),
        ("10²", "102"),
        ("3½", "31/2"),
        ("f'(x)", "f(x)"),
        ("$5", "5"),
        ("[1, 2]", "(1, 2)"),
        ("(10-6)*(4+5)", "(10-6)*(4-5)"),
        ("(10-4)*5-6", "(10-4)*(5-6)"),
        ('print("5")', "print(5)"),
        (".", "?"),
    ],
)
def test_a_text_never_joins_what_differs_in_meaning(one: str, other: str) -> None:
    """Texts that differ in a sign, a symbol or a bracket vote apart."""
    assert read_answer("text", one) != read_answer("text", other)
