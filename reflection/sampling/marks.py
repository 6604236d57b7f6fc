r"""How an answer is marked in a text, and how its characters are normalized.

An answer is marked by a line `Answer: …` or `#### …`, or by `\boxed{…}`. Each search looks at a
character a bounded number of times, so a hostile text costs no more than an honest one of its
length.
"""

import re
from typing import NamedTuple
from unicodedata import normalize

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
    """A marked answer, and what stands before its mark."""

    before: str
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
