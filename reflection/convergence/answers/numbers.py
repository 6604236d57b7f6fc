"""Answers that are one number, by their exact value."""

import re
from unicodedata import decimal

from reflection.convergence.answers.amounts import AMOUNT, SCALES, amount_value, written
from reflection.convergence.answers.marks import claimed, unwrapped
from reflection.convergence.answers.texts import fold

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
# Each is a sign that the number found (NUL stands for it) is a part of something else.
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
    form = " ".join(fold(text).casefold().split())
    form = "".join(str(decimal(each, each)) for each in form)
    for spelling, replacement in SPELLINGS:
        form = spelling.sub(replacement, form)
    return unwrapped(form)


def _explains(side: str) -> bool:
    return not SEVERAL.search(side) and not (DIGIT.search(side) and LETTER.search(side))


def _only_number(text: str) -> str | None:
    amounts = list(AMOUNT.finditer(text))
    if not amounts or "\x00" in text or PART_OF_MORE.search(AMOUNT.sub("\x00", text)):
        return None
    values = {amount_value(amount) for amount in amounts}
    value = values.pop() if len(values) == 1 else None
    return None if value is None else written(value)
