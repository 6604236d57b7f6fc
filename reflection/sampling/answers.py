"""The canonical forms of answers, and the clusters that they vote for.

Two answers are the same vote exactly when their forms are equal. A form must never join answers
that differ in meaning: in doubt they stay apart, or unreadable.
"""

import re
from collections.abc import Callable
from unicodedata import normalize

from reflection.sampling.marks import claimed, normal_form, unwrapped
from reflection.sampling.numbers import read_number
from reflection.sampling.request import AnswerKind
from reflection.text import well_formed

WRITTEN_AS_GIVEN: frozenset[AnswerKind] = frozenset({"text", "llm"})

TEXT_CHARACTERS = 2_000

WRAPPED = re.compile(r"""\*\*([^*]+)\*\*|"([^"]+)"|'([^']+)'|`([^`]+)`""")
SPACED_OPERATOR = re.compile(r"(?<=[\w)\]}]) ([-+*/=<>^|&×÷≤≥≠≈]+) (?=[\w(\[{.$€£])")
HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})")
LOOSE_MARK = re.compile(r"(?<=[^\W\d_]{2}) (?=[.,;:!?。、]+(?: |$))")
MARKS_AFTER_WORD = re.compile(r"(?<=[^\W\d_]{2})[.,;:!?。、]+(?= |$)")
OPENING_MARKS = re.compile(r"(?<![^ ])[¿¡]+(?=\w)")
QUOTED_WORDS = re.compile(r'(?<![^ ])"([^\W\d_][^"]*)"(?![^ .,;:!?])')

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
        given = self._kind in WRITTEN_AS_GIVEN
        return self.join(canonical, " ".join(written.split()) if given else canonical)
