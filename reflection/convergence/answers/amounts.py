"""A number as it is written, its exact value, and the one way Mull writes it."""

import re
from fractions import Fraction

DIGITS = 1_000
DECIMALS = 30
LITERAL_CHARACTERS = DIGITS + DECIMALS + 2
LIMIT = 10**DIGITS

SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1_000,
    "million": 10**6,
    "mn": 10**6,
    "billion": 10**9,
    "bn": 10**9,
    "trillion": 10**12,
    "quadrillion": 10**15,
    "lakh": 10**5,
    "crore": 10**7,
}
NUMERAL = r"(?:\d+(?:[.,'_ ]\d+)*|\.\d+)"
AMOUNT = re.compile(
    rf"(?P<sign>(?<![\w)%.])[-+])?(?:[$€£¥₹₽₩] ?(?P<after>[-+])?)?(?<!\w)(?P<top>{NUMERAL})"
    rf"(?:e(?P<exponent>[-+]?\d+)\b)?(?: ?/ ?(?P<below>{NUMERAL}))?"
    rf"(?: ?(?P<share>[%‰])| ?(?P<scale>{'|'.join(SCALES)})s?\b)?"
)
SHARES = {"%": 100, "‰": 1_000}

ENGLISH = re.compile(
    r"\d+|\d*\.\d+|(?!0)\d{1,3}([,' _])\d{3}(?:\1\d{3})*(?:\.\d+)?"
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?"
)
CONTINENTAL = re.compile(
    r"(?!0)\d{1,3}([.' ])\d{3}(?:\1\d{3})*,\d+|(?!0)\d{1,3}\.\d{3}(?:\.\d{3})+|\d+,\d+"
)
MIXED = re.compile(r"(\d+) (\d+)")


def amount_value(amount: re.Match[str]) -> Fraction | None:
    """Work out the exact value of a match of AMOUNT; None where it has none, or is too large.

    Numerator and denominator stay below 10 to the power of DIGITS, before and after.
    """
    value = _unsigned(amount["top"], amount["exponent"] or "0", amount["below"])
    if value is None:
        return None
    value *= SCALES.get(amount["scale"], 1)
    value /= SHARES.get(amount["share"], 1)
    negative = "-" in {amount["sign"], amount["after"]}
    fits = value.numerator < LIMIT and value.denominator < LIMIT
    return (-value if negative else value) if fits else None


def _unsigned(top: str, exponent: str, below: str | None) -> Fraction | None:
    if below is None:
        return _scaled(numeral(top), exponent)
    divisor = numeral(below)
    if not divisor:
        return None
    mixed = MIXED.fullmatch(top)
    if mixed and len(top) <= LITERAL_CHARACTERS and int(mixed[2]) < divisor:
        return int(mixed[1]) + int(mixed[2]) / divisor
    value = _scaled(numeral(top), exponent)
    return None if value is None else value / divisor


def _scaled(value: Fraction | None, exponent: str) -> Fraction | None:
    if value is None or len(exponent) > len(str(DIGITS)) + 1 or abs(int(exponent)) > DIGITS:
        return None
    return value * Fraction(10) ** int(exponent)


def numeral(text: str) -> Fraction | None:
    """Read digits with their decimal sign and thousands; None where the signs make no sense.

    `1,290` is 1290 and `1,29` is 1.29: a comma before exactly three digits, after one to three,
    parts thousands. A single point is a decimal point: `1.290` is 1.29. With both signs the last
    one is the decimal sign.
    """
    if len(text) > LITERAL_CHARACTERS:
        return None
    if ENGLISH.fullmatch(text):
        return Fraction(re.sub(r"[,' _]", "", text))
    if CONTINENTAL.fullmatch(text):
        return Fraction(re.sub(r"[.' ]", "", text).replace(",", "."))
    return None


def written(value: Fraction) -> str:
    """Write a value as `129`, as `0.75` where DECIMALS decimals are enough, else as `1/3`."""
    if 10**DECIMALS % value.denominator:
        return f"{value.numerator}/{value.denominator}"
    whole, part = divmod(abs(value.numerator) * 10**DECIMALS // value.denominator, 10**DECIMALS)
    decimals = f"{part:0{DECIMALS}}".rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"
