"""Answers that are one letter of A to Z."""

import re
from unicodedata import normalize

from reflection.convergence.answers.marks import claimed, unwrapped

CHOICE_CHARACTERS = 10_000

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


def read_choice(stripped: str) -> str | None:
    """Return the capital letter that an answer chooses, or None where it is not exactly one.

    A letter counts, in either case, where it stands alone (`a`, `(b)`, `C.`), leads (`B. Paris`,
    `b) Paris`, `B: Paris`, `B - Paris`), stands in brackets (`it is (C)`) or is named (`Option C`,
    `Answer: D`, `The answer is c`). In prose a capital at the very end counts (`I think it is
    A`), never a small letter (`I think it is a`), and never the article or the pronoun (`A dog`,
    `I agree`). Two different letters are None, and so is a denial where no letter leads.
    """
    if len(stripped) > CHOICE_CHARACTERS:
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
    return [*claims, leading[1]] if leading else claims or _in_prose(text)


def _in_prose(text: str) -> list[str]:
    return CAPITAL.findall(ARTICLE_OR_PRONOUN.sub(" ", text)) if LETTER_AT_END.search(text) else []
