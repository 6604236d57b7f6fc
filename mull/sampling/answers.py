r"""How an answer is marked in a text, its canonical form, and the cluster that it votes for.

An answer is marked by a line `Answer: …` or `#### …`, or by `\boxed{…}`. Two answers are the same
vote exactly when their forms are equal. A form must never join answers that differ in meaning: in
doubt they stay apart, or count as unreadable. Each search looks at a character a bounded number of
times, so a hostile text costs no more than an honest one of its length.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple
from unicodedata import decimal, normalize

from mull.sampling.request import AnswerKind
from mull.text import well_formed

MARK_LINE = re.compile(
    r"(?:[\s>#*_`-]*(?:(?:the|my)\s+)?(?:final\s+)?answer[\s*_]*[:\uff1a]\**|\s*####(?!#))(.*)",
    re.IGNORECASE | re.DOTALL,
)
ANSWER_IS = re.compile(r"\banswer\s+(?:is|would\s+be|must\s+be)\b[\s:]*", re.IGNORECASE)
BOXES = ("\\boxed{", "\\fbox{")
WRAPPINGS = ("**", "`", "$", '"', "'")

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


class Marked(NamedTuple):
    """A marked answer, never empty, and the reasoning: what stands before its mark."""

    reasoning: str
    answer: str


def find_marked(text: str) -> Marked | None:
    """Find the last marked answer, or None where no mark has an answer.

    The answer is the rest of the mark's line, or where that is empty the next line with text.
    A box in or after the last mark counts for it.
    """
    line, box = _last_line(text), _last_box(text)
    found = line or box
    if found is None:
        return None
    start, answer = found
    if box and box[0] >= start:
        answer = box[1]
    return Marked(text[:start].strip(), answer)


def claimed(text: str) -> str:
    """Return what `text` gives as its answer: the marked part, what follows `answer is`, or all."""
    marked = find_marked(text)
    return ANSWER_IS.split(marked.answer if marked else text)[-1]


def _last_line(text: str) -> tuple[int, str] | None:
    start, below = len(text), ""
    for line in reversed(text.splitlines(keepends=True)):
        start -= len(line)
        mark = MARK_LINE.match(line)
        answer = unwrapped(mark[1]) or unwrapped(below) if mark else ""
        if answer:
            return start, answer
        below = line if line.strip() else below
    return None


def _last_box(text: str) -> tuple[int, str] | None:
    start, box = max((text.rfind(box), box) for box in BOXES)
    if start < 0:
        return None
    content = start + len(box)
    depth = 1
    for brace in re.finditer(r"[{}]", text[content:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            inside = unwrapped(text[content : content + brace.start()])
            return (start, inside) if inside else None
    return None


def unwrapped(text: str) -> str:
    """Remove Markdown, LaTeX or quotation marks around a whole answer."""
    inside = text.strip()
    if inside.count("**") % 2:
        inside = inside.removesuffix("**").rstrip()
    for mark in WRAPPINGS:
        within = inside.removeprefix(mark).removesuffix(mark)
        if len(inside) - len(within) == 2 * len(mark) and within and mark not in within:
            inside = within.strip()
    return inside


def normal_form(text: str) -> str:
    """Bring one character's several spellings to one, by NFKC, without losing its meaning.

    NFKC alone would read `10²` as 102 and `3½` as 31/2: here they are `10^2` and `3 1/2`.
    """
    raised = RAISED_RUN.sub(lambda run: "^" + run[0].translate(RAISED), text)
    apart = VULGAR_FRACTION.sub(" ", LOWERED_DIGIT.sub("_", raised))
    return normalize("NFKC", normalize("NFKC", apart).translate(SAME_SIGN))


# Longer answers are not read as numbers or choices, and longer texts are compared as they stand.
ANSWER_CHARACTERS, TEXT_CHARACTERS = 10_000, 2_000

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
NUMERALS = re.compile(NUMERAL)
REMARK = re.compile(r"[(\[{][^()\[\]{}\d]*[)\]}]")
# A comma after an opening bracket, which may be that of ]3,4[, or before a closing one.
LISTED = re.compile(r"(?:[(\[{]|(?<!\w)\])[^()\[\]{},;]*[,;]|[,;][^()\[\]{},;]*[)\]}]")
EQUALS = re.compile(r"(?<![<>!])==?|≈|≃|≅")
SEVERAL = re.compile(r"[;\n]|,(?!\d)|\b(?:and|or)\b")
# Magnitudes such as $2M, and symbols of units that a small letter would confuse: 5 M, 5 m.
MAGNITUDE = re.compile(r"\d ?[A-KM-Z]\b|[$€£¥₹] ?[\d.,]+ ?[a-z]\b")

OTHER_AMOUNTS = (
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
    rf"|n't\b|\b(?:{OTHER_AMOUNTS})s?\b"
)


def read_number(stripped: str) -> str | None:
    """Return the exact value of the one number in an answer, or None where there is not one.

    Forms: an integer `129`, a decimal `0.75` where it ends within 30 decimals, else `1/3`. What
    is read: signs (`-5`, `−5`), thousands and decimal signs (see `numeral`), `1.29e3`,
    `2.5 × 10^3`, `3/4`, `3 1/2` and `3½` (both 3.5), `50 %` and `50 percent` (both 0.5, as 3/4
    is 0.75), `2 million`, LaTeX and Markdown around a number.

    Words around it, currencies and units are left out: `$12`, `12 apples`, `5 km`, `The answer
    is 42.` and `x = 5`. After an equals sign the last side counts, where the others name it
    (`x`) or work it out (`2 + 2`). None: several different numbers, a pair, a set or an interval
    (`(3,4]`, though `3,4` is 3.4 and `(1,000)` is 1000), a calculation or a formula (`10-6`, `5!`,
    `2x`, `2π`), a bound (`< 5`, `at least 5`), number words (`forty`), `$2M`, NaN, infinity, a
    division by zero, and more than 1,000 digits.
    """
    if len(stripped) > ANSWER_CHARACTERS:
        return None
    answer = claimed(stripped)
    if MAGNITUDE.search(answer):
        return None
    form = " ".join(normal_form(answer).casefold().split())
    form = "".join(str(decimal(character, character)) for character in form)
    for spelling, replacement in SPELLINGS:
        form = spelling.sub(replacement, form)
    *sides, last = EQUALS.split(unwrapped(form))
    for side in sides:
        mixed = re.search(r"\d", side) and re.search(r"[^\W\d_]", side)
        if mixed or SEVERAL.search(side):
            return None
    if "\x00" in last or _lists(last) or PART_OF_MORE.search(AMOUNT.sub("\x00", last)):
        return None
    values = {_value(amount) for amount in AMOUNT.finditer(last)}
    value = values.pop() if len(values) == 1 else None
    return None if value is None else written(value)


def _lists(form: str) -> bool:
    """Tell whether brackets hold a list of numbers, not one number with thousands marked."""
    plain = NUMERALS.sub(lambda one: "0" if ENGLISH.fullmatch(one[0]) else one[0], form)
    return LISTED.search(REMARK.sub("", plain)) is not None


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


WRAPPED = re.compile(r"""\*\*([^*]+)\*\*|"([^"]+)"|'([^']+)'|`([^`]+)`""")
SPACED_OPERATOR = re.compile(r"(?<=[\w)\]}]) ([-+*/=<>^|&×÷≤≥≠≈]+) (?=[\w(\[{.$€£])")
HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})")
LOOSE_MARK = re.compile(r"(?<=[^\W\d_]{2}) (?=[.,;:!?。、]+(?: |$))")
MARKS_AFTER_WORD = re.compile(r"(?<=[^\W\d_]{2})[.,;:!?。、]+(?= |$)")
OPENING_MARKS = re.compile(r"(?<![^ ])[¿¡]+(?=\w)")
QUOTED_WORDS = re.compile(r'(?<![^ ])"([^\W\d_][^"]*)"(?![^ .,;:!?])')

DECORATION = re.compile(r"\\text(?:bf)?(?=\{)|[*`${}]|\\[()\[\]]")
NAMED = r"(?i:\b(?:option|choice|letter|answer)(?:\s*[:(]\s*|\s+)\(?)"

ALONE = re.compile(r"""[(\["'<]*([A-Za-z])[)\]"'>.,:;!?]*""")
LEADING = re.compile(r"[(\[]?([A-Za-z])(?:[)\]]|[.:](?=\s)|\s+[-–—](?=\s))")
CLAIMS = (
    re.compile(r"(?<!\w)[(\[]([A-Za-z])[)\]]"),
    re.compile(r"(?<![\w.'-])([A-Z])(?:\)|:(?=\s))"),
    re.compile(r"(?:[\n,;]\s*|\b(?:or|and)\s+)([A-Z])\.(?=\s)"),
    re.compile(NAMED + r"([B-HJ-Zb-hj-z]|A|I(?!\s+(?!is\b)[a-z])|[ai](?=[).:,;!?]|$))(?![\w'-])"),
    re.compile(r"(?<![\w.'-])([A-Z])\s+is\s+(?:the\s+)?(?:correct|right|answer|best)\b"),
)
CAPITAL = re.compile(r"(?<![\w.'-])([A-Z])(?![\w'+#-])")
ARTICLE_OR_PRONOUN = re.compile(r"(?<![\w.'-])[AI](?=\s+(?!(?:or|and)\b)[a-z])")
LETTER_AT_END = re.compile(r"\b(?:is|be|choose|pick|select|say|with)\s+[A-Z][.!]?\Z")
DENIED = re.compile(r"\b(?:not|never|neither|except|cannot)\b|n't\b", re.IGNORECASE)


def read_answer(kind: AnswerKind, raw: str | None) -> str | None:
    """Return the canonical form under which `raw` votes, or None where it can't be read.

    Reading a canonical form again gives the same form. Any text at all is taken, of any length,
    without an error; lone surrogates become U+FFFD, so that every form can be stored as UTF-8.

    - `exact`: the characters as they are, without the white space around them.
    - `text`: without case, punctuation and spacing, see `read_text`.
    - `number`: its exact value, see `read_number`.
    - `choice`: a capital letter, see `read_choice`.
    - `llm`: as `text`, so that equal texts need no question whether they mean the same.
    """
    if raw is None:
        return None
    stripped = well_formed(raw).strip()
    return READERS[kind](stripped) if stripped else None


def read_text(stripped: str) -> str | None:
    """Return a text without case, punctuation and spacing; None if nothing is left.

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
    form = " ".join(normal_form(text).casefold().split())
    whole = WRAPPED.fullmatch(form)
    form = (whole[whole.lastindex or 0] if whole else form).strip()
    form = SPACED_OPERATOR.sub(r"\1", QUOTED_WORDS.sub(r"\1", OPENING_MARKS.sub("", form)))
    form = MARKS_AFTER_WORD.sub("", LOOSE_MARK.sub("", HYPHEN.sub(" ", form)))
    shorter = form.rstrip(".,;:?。、")
    return form if ".." in form[len(shorter) :] else shorter.rstrip() or form


def read_choice(stripped: str) -> str | None:
    """Return the capital letter that an answer chooses, or None where it is not exactly one.

    A letter counts, in either case, where it stands alone (`a`, `(b)`, `C.`), leads (`B. Paris`,
    `b) Paris`, `B: Paris`, `B - Paris`), stands in brackets (`it is (C)`) or is named (`Option C`,
    `Answer: D`, `The answer is c`). In prose a capital at the very end counts (`I think it is
    A`), never a small letter (`I think it is a`), and never the article or the pronoun (`A dog`,
    `I agree`). Two different letters are None, and so is a denial where no letter leads.
    """
    if len(stripped) > ANSWER_CHARACTERS:
        return None
    text = unwrapped(DECORATION.sub("", claimed(normalize("NFKC", stripped))))
    alone = ALONE.fullmatch(text)
    distinct = {letter.upper() for letter in ([alone[1]] if alone else _claims(text))}
    return distinct.pop() if len(distinct) == 1 else None


def _claims(text: str) -> list[str]:
    leading = LEADING.match(text)
    if DENIED.search(text) and not leading:
        return []
    claims = [letter for claim in CLAIMS for letter in claim.findall(text)]
    if leading:
        return [*claims, leading[1]]
    if claims or not LETTER_AT_END.search(text):
        return claims
    return CAPITAL.findall(ARTICLE_OR_PRONOUN.sub(" ", text))


READERS: dict[AnswerKind, Callable[[str], str | None]] = {
    "exact": str,
    "text": read_text,
    "number": read_number,
    "choice": read_choice,
    "llm": read_text,
}


class Clusters:
    """The clusters of answers, each named by its first answer; they are never merged later.

    A number or a choice is named by its canonical form, a text as it was first written.
    """

    def __init__(self, kind: AnswerKind) -> None:
        self._kind = kind
        self._names: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clusters, in the order in which they were first seen."""
        return tuple(dict.fromkeys(self._names.values()))

    def find(self, canonical: str) -> str | None:
        """Name the cluster that this canonical form belongs to already, if any."""
        return self._names.get(canonical)

    def join(self, canonical: str, name: str) -> str:
        """Add a canonical form to the cluster called `name`, for good."""
        return self._names.setdefault(canonical, name)

    def open(self, canonical: str, written: str) -> str:
        """Begin a cluster with this answer, and return its name."""
        as_given = self._kind in {"text", "llm"}
        return self.join(canonical, " ".join(written.split()) if as_given else canonical)
