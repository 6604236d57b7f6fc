"""Tests for the code that examples/roman.txt asks for: pytest runs them beside it, in a sandbox."""

import pytest
from solution import from_roman, to_roman


@pytest.mark.parametrize(
    ("number", "numeral"),
    [
        (1, "I"),
        (4, "IV"),
        (9, "IX"),
        (14, "XIV"),
        (40, "XL"),
        (90, "XC"),
        (400, "CD"),
        (944, "CMXLIV"),
        (1888, "MDCCCLXXXVIII"),
        (2024, "MMXXIV"),
        (3999, "MMMCMXCIX"),
    ],
)
def test_numerals(number, numeral):
    assert to_roman(number) == numeral
    assert from_roman(numeral) == number


def test_numbers_come_back():
    numbers = list(range(1, 4000, 37))
    assert [from_roman(to_roman(number)) for number in numbers] == numbers


@pytest.mark.parametrize("number", [0, -1, 4000])
def test_numbers_out_of_range(number):
    with pytest.raises(ValueError):
        to_roman(number)


@pytest.mark.parametrize("text", ["", "A", "IIII", "IC", "VX", "LL", "XM", "iv", "MMMM", "IVI"])
def test_what_is_no_numeral(text):
    with pytest.raises(ValueError):
        from_roman(text)
