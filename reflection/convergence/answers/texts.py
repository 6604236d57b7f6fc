"""Answers compared as texts: case, punctuation and spacing do not count, symbols do."""

import re
from unicodedata import normalize

TEXT_CHARACTERS = 2_000

RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni")
RAISED_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ]+")
LOWERED_DIGIT = re.compile(r"(?<=\d)(?=[₀-₉])")
VULGAR_FRACTION = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞↉])")
SAME_SIGN = {
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"), "-"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u00ab\u00bb"), '"'),
    **dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b"), "'"),
    **dict.fromkeys(map(ord, "\u00ad\u200b\u200e\u200f\u2060\ufeff"), None),
    0x2044: "/",
}

WRAPPED = re.compile(r"""\*\*([^*]+)\*\*|"([^"]+)"|'([^']+)'|`([^`]+)`""")
SPACED_OPERATOR = re.compile(r"(?<=[\w)\]}]) ([-+*/=<>^|&×÷≤≥≠≈]+) (?=[\w(\[{.$€£])")
HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})")
LOOSE_MARK = re.compile(r"(?<=[^\W\d_]{2}) (?=[.,;:!?。、]+(?: |$))")
MARKS_AFTER_WORD = re.compile(r"(?<=[^\W\d_]{2})[.,;:!?。、]+(?= |$)")
OPENING_MARKS = re.compile(r"(?<![^ ])[¿¡]+(?=\w)")
QUOTED_WORDS = re.compile(r'(?<![^ ])"([^\W\d_][^"]*)"(?![^ .,;:!?])')


def read_text(stripped: str) -> str | None:
    """Return the form of a text without case, punctuation and spacing; None where none shows.

    What is equal: letters by Unicode's NFKC and case folding; every run of white space; the
    several dashes, minus signs and quotation marks. What is dropped: `. , ; : ! ?` after a word
    (two letters or more) and, except `!` and an ellipsis, at the very end; `¿ ¡` before a word;
    `**`, back-quotes and quotation marks around the whole answer, double ones around words in it
    too; white space around an operator that has it on both sides. A hyphen between two words is
    a space.

    Everything else stays: signs, points and commas next to digits, operators, brackets, `% # + $`
    and marks after a single letter, so that `-5`, `1.5`, `3/4`, `5!`, `C++`, `a < b` and `x²`
    (as `x^2`) differ from what is left without them. An answer of nothing but punctuation stays
    what it is. Above TEXT_CHARACTERS characters a text is compared as it stands.
    """
    if len(stripped) > TEXT_CHARACTERS:
        return stripped
    form, before = _simpler(stripped), stripped
    while form != before:
        form, before = _simpler(form), form
    return form or None


def _simpler(text: str) -> str:
    form = " ".join(fold(text).casefold().split())
    whole = WRAPPED.fullmatch(form)
    form = (whole[whole.lastindex or 0] if whole else form).strip()
    form = SPACED_OPERATOR.sub(r"\1", QUOTED_WORDS.sub(r"\1", OPENING_MARKS.sub("", form)))
    form = MARKS_AFTER_WORD.sub("", LOOSE_MARK.sub("", HYPHEN.sub(" ", form)))
    return _without_last_mark(form)


def _without_last_mark(form: str) -> str:
    shorter = form.rstrip(".,;:?。、")
    return form if ".." in form[len(shorter) :] else shorter.rstrip() or form


def fold(text: str) -> str:
    """Bring one character's several spellings to one, by NFKC, without losing its meaning.

    NFKC alone would read `10²` as 102 and `3½` as 31/2: here they are `10^2` and `3 1/2`.
    """
    raised = RAISED_RUN.sub(lambda run: "^" + run[0].translate(RAISED), text)
    apart = VULGAR_FRACTION.sub(" ", LOWERED_DIGIT.sub("_", raised))
    return normalize("NFKC", normalize("NFKC", apart).translate(SAME_SIGN))
