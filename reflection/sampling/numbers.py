"""Answers that are one number: spellings, exact value and canonical form."""

import re
from fractions import Fraction
from unicodedata import decimal

from reflection.sampling.marks import claimed, normal_form, unwrapped

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

NUMBER_CHARACTERS = 10_000

SPELLINGS = (
    (re.compile(r"\\[()\[\]]|\$\$|\\[!,;]"), ""),
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"(?<=\d)(?=\\[dt]?frac)"), " "),
    (re.compile(r"\\[dt]?frac ?\{ ?(-?[\d.,]+) ?\} ?\{ ?([\d.,]+) ?\}"), r"\1/\2"),
    (re.compile(r"\\[dt]?frac ?(\d)(\d)(?!\d)"), r"\1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf) ?\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\(?:times|cdot)"), "×"),
    (re.compile(r"\^ ?[{(] ?([-+]?\d+) ?[)}]"), r"^\1"),
    (re.compile(r"(?<=\d) ?[×x*·] ?10 ?\^ ?([-+]?\d+)"), r"e\1"),
    (re.compile(r"(?<![\w.,])10 ?\^ ?([-+]?\d+)"), r"1e\1"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"\1"),
    (re.compile(r"\b(?:minus|negative) (?=[\d.$€£])"), "-"),
    (re.compile(r"\b(?:per ?cent|pct)\b"), "%"),
    (re.compile(r" +"), " "),
)
EQUALS = re.compile(r"(?<![<>!])==?|≈|≃|≅")
SEVERAL = re.compile(r"[;\n]|,(?!\d)|\b(?:and|or)\b")
# Magnitudes such as $2M, and symbols of units that a small letter would confuse: 5 M, 5 m.
MAGNITUDE = re.compile(r"\d ?[A-KM-Z]\b|[$€£¥₹] ?[\d.,]+ ?[a-z]\b")
DIGIT = re.compile(r"\d")
LETTER = re.compile(r"[^\W\d_]")

DENIED = (
    "not cannot least most less more fewer greater than under above below between up half halves "
    "quarter quarters third thirds fourths fifths sixths sevenths eighths ninths tenths "
    "hundredths thousandths twice double triple pi sqrt root log ln exp sin cos tan mod "
    "modulo choose factorial squared cubed minus negative " + " ".join(SCALES)
).replace(" ", "|")
# Signs that the number found (NUL stands for it) is part of something larger.
PART_OF_MORE = re.compile(
    r"[^\w\s\x00.,;:?!()\[\]\"'`~/&$€£¥₹₽₩°-]|[\d_]"
    r"|[-/&] ?\x00|\x00 ?[-/&]|[^\W\d]\x00|[\w)\x00]\(|\)\x00"
    r"|\x00(?:!|\.\.|['\"])|\x00[\s.,;:?]*\x00"
    r"|\x00 ?(?![mgshl]\b)[^\W\d_]\b"
    r"|\b(?:times|plus|over|by|power of|square of|cube of) \x00"
    rf"|n't\b|\b(?:{DENIED})s?\b"
)


def read_number(stripped: str) -> str | None:
    """Return the exact value of the one number in an answer, or None where there is not one.

    Forms: an integer `129`, a decimal `0.75` where it ends within 30 decimals, else `1/3`. What
    is read: signs (`-5`, `−5`), thousands and decimal signs (see `numeral`), `1.29e3`,
    `2.5 × 10^3`, `3/4`, `3 1/2` and `3½` (both 3.5), `50 %` and `50 percent` (both 0.5, as 3/4
    is 0.75), `2 million`, LaTeX and Markdown around a number.

    Words around it, currencies and units are left out: `$12`, `12 apples`, `5 km`, `The answer
    is 42.` and `x = 5`. After an equals sign the last side counts, where the others name it
    (`x`) or work it out (`2 + 2`). None: several different numbers, a calculation or a formula
    (`10-6`, `5!`, `2x`, `2π`), a bound (`< 5`, `at least 5`), number words (`forty`), `$2M`, NaN,
    infinity, a division by zero, and more than 1,000 digits.
    """
    if len(stripped) > NUMBER_CHARACTERS:
        return None
    answer = claimed(stripped)
    if MAGNITUDE.search(answer):
        return None
    *sides, last = EQUALS.split(_spelled(answer))
    return _only_number(last) if all(_explains(side) for side in sides) else None


def _spelled(text: str) -> str:
    form = " ".join(normal_form(text).casefold().split())
    form = "".join(str(decimal(character, character)) for character in form)
    for spelling, replacement in SPELLINGS:
        form = spelling.sub(replacement, form)
    return unwrapped(form)


def _explains(side: str) -> bool:
    return not SEVERAL.search(side) and not (DIGIT.search(side) and LETTER.search(side))


def _only_number(text: str) -> str | None:
    amounts = list(AMOUNT.finditer(text))
    if not amounts or "\x00" in text or PART_OF_MORE.search(AMOUNT.sub("\x00", text)):
        return None
    values = {_value(amount) for amount in amounts}
    value = values.pop() if len(values) == 1 else None
    return None if value is None else written(value)


def _value(amount: re.Match[str]) -> Fraction | None:
    """Compute the exact value of a match of AMOUNT; None if it has none or is too large.

    Numerator and denominator stay below 10 to the power of DIGITS, before and after.
    """
    top, below = amount["top"], numeral(amount["below"] or "1")
    exponent = amount["exponent"] or "0"
    if not below or len(exponent) > len(str(DIGITS)) + 1 or abs(int(exponent)) > DIGITS:
        return None
    mixed = MIXED.fullmatch(top) if len(top) <= LITERAL_CHARACTERS else None
    if amount["below"] and mixed and int(mixed[2]) < below:
        value = int(mixed[1]) + int(mixed[2]) / below
    elif (whole := numeral(top)) is not None:
        value = whole * Fraction(10) ** int(exponent) / below
    else:
        return None
    value *= SCALES.get(amount["scale"], 1)
    value /= SHARES.get(amount["share"], 1)
    negative = "-" in {amount["sign"], amount["after"]}
    fits = value.numerator < LIMIT and value.denominator < LIMIT
    return (-value if negative else value) if fits else None


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
