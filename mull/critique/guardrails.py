'''Guardrails: rules that cap a judge's score, each with proof.

The proof is in the request and the draft: a broken JSON where JSON was asked for, `[7]` where six
sources were given, a reply that its provider cut off. A rule without proof can only lower the
judge's confidence.

Add your own at the end of this file, or in a module that the worker imports, and name it in a
request beside Mull's own: `"guardrails": ["default", "no_prices"]`. It must be pure, without model,
file, clock or network, and runs for at most five seconds in a process that imports its module.

    @guardrail("no_prices")
    def no_prices(checked: Checked) -> Finding | None:
        """Cap a draft that names a price: prices come from the shop alone."""
        if "$" not in checked.draft:
            return None
        return Finding(cap=0.4, reason="the draft names a price: leave it to the shop")

One of Mull's own has `default=True`, so it returns None where nothing asks for what it looks for.
One that belongs to a preset is gated by a set in criteria.py, as `no_sources` is by
`ASKS_FOR_CITATIONS`. Add its rows to `HOSTILE` and `HONEST_TEXTS` in
tests/unit/critique/test_guardrails.py, to docs/guide.md and to the table in docs/glossary.md.
'''

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Self

from mull.critique.criteria import ASKS_FOR_CITATIONS, ASKS_FOR_LENGTH, SIMPLE, complexity
from mull.critique.evaluation import Cap
from mull.critique.forms import defect, forms_asked, read, unclosed
from mull.critique.injections import told_judge
from mull.request import Record
from mull.text import cut_encoded, fold, terminal_safe, words

DEFAULT = "default"
REASON_BYTES = 300
NO_PROSE = frozenset({"json", "python"})


class Checked(Record):
    """The input of a guardrail; nothing in it comes from the judge.

    `previous` is the draft that this one revises. `asks_for` are the names of the criteria.
    """

    query: str
    draft: str
    finish_reason: str | None = None
    cut: bool = False
    previous: str | None = None
    previous_score: float | None = None
    sources: tuple[str, ...] = ()
    material: tuple[str, ...] = ()
    format: Literal["json", "python", "markdown"] | None = None
    asks_for: tuple[str, ...] = ()

    @classmethod
    def of(cls, asked: Any, draft: Any, **known: Any) -> Self:
        """Take what was asked, a request or a task, and a draft; `known` are the other fields."""
        shared = {name: getattr(asked, name) for name in ("query", "sources", "format")}
        shared |= {name: getattr(draft, name) for name in ("finish_reason", "cut")}
        return cls(draft=draft.text or "", **shared, **known)


class Report(Record):
    """What the guardrails found; `doubts` only lower the confidence in a score above `above`.

    `failures` say which guardrails could not run, and why.
    """

    caps: tuple[Cap, ...] = ()
    doubts: tuple[Cap, ...] = ()
    failures: tuple[str, ...] = ()


class Finding(NamedTuple):
    """What is wrong: a score above `above` (the cap itself, if None) becomes `cap`.

    `reason` says what to change, in one line: it is the next revision's feedback. A cap of 1 keeps
    the score, and makes its confidence low.
    """

    cap: float
    reason: str
    above: float | None = None


Guardrail = Callable[[Checked], Finding | None]
_GUARDRAILS: dict[str, Guardrail] = {}
_BY_DEFAULT: list[str] = []


def guardrail(name: str, *, default: bool = False) -> Callable[[Guardrail], Guardrail]:
    """Register a function as a guardrail. Raises ValueError if the name is taken.

    A guardrail that is not `default` runs only for requests that name it.
    """

    def register(function: Guardrail) -> Guardrail:
        if name in _GUARDRAILS or name == DEFAULT:
            raise ValueError(f"guardrail {name} is already registered")
        _GUARDRAILS[name] = function
        if default:
            _BY_DEFAULT.append(name)
        return function

    return register


def known_guardrails() -> list[str]:
    """List every name that a request may give."""
    return [DEFAULT, *_GUARDRAILS]


def default_guardrails() -> list[str]:
    """List those that run unless a request says otherwise."""
    return [*_BY_DEFAULT]


def modules_of(names: Sequence[str]) -> tuple[str, ...]:
    """List the modules that register the named guardrails, for a process that has none of them."""
    named = named_guardrails(names)
    modules = (_GUARDRAILS[name].__module__ for name in named if name in _GUARDRAILS)
    return tuple(dict.fromkeys(modules))


def named_guardrails(names: Sequence[str]) -> tuple[str, ...]:
    """List these guardrails by their own names; `default` stands for all default ones."""
    named = (one for name in names for one in (_BY_DEFAULT if name == DEFAULT else [name]))
    return tuple(dict.fromkeys(named))


def check(checked: Checked, names: Sequence[str]) -> Report:
    """Run the named guardrails on a draft; the name `default` stands for all default ones.

    A guardrail that raises or is not registered is listed among the failures.
    """
    found, failures = list[Cap](), list[str]()
    for name in named_guardrails(names):
        if name not in _GUARDRAILS:
            failures.append(f"guardrail {name} is not registered in a module that can be imported")
            continue
        try:
            finding = _GUARDRAILS[name](checked)
        except Exception as error:
            failures.append(f"guardrail {name} failed: {type(error).__name__}")
            continue
        if finding:
            above = finding.cap if finding.above is None else finding.above
            reason = cut_encoded(finding.reason, REASON_BYTES)
            found.append(Cap(guardrail=name, cap=finding.cap, above=above, reason=reason))
    return Report(
        caps=tuple(cap for cap in found if cap.cap < 1),
        doubts=tuple(cap for cap in found if cap.cap == 1),
        failures=tuple(failures),
    )


LENGTH = re.compile(
    r"\b(?:at least|about|around|exactly|in|with|write|an?|of|de|mindestens|etwa|environ|unos) "
    r"(\d[\d,.]{1,5}\d)(?: ?(?:to|–|-) ?\d+)?[ -](?:words?|wörtern?|mots|palabras)\b"
)
NOT_LONG = re.compile(
    r"\b(?:(?:one|two|einem?|une?) (?:sentence|line|word|satz|wort|mot|phrase)|brief|concise|short|"
    r"yes or no|at most|or (?:less|fewer)|max|limit|kurz|summar|zusammenfass|translat|übersetz)"
)


@guardrail("too_short", default=True)
def too_short(checked: Checked) -> Finding | None:
    """Cap a draft without text, or a short one when the query asks for length.

    If the query asks for 100 words or more, less than two thirds of them are too few at any score.
    If it does, or the criteria are those of research, documentation or competitive analysis, a
    draft under 500 bytes with a score above 0.8 is capped. Otherwise such a draft only lowers the
    confidence in a high score: one line can be right. Repetitions do not count.
    Source: the reflection chapter, 11.9, method 2, and its exercise 3, rule 1.
    """
    draft = fold(checked.draft).casefold()
    if not draft.strip(" \t\n\r*_#>~`|=-"):
        return Finding(0.5, "the draft has no text: write the answer")
    query = " ".join(fold(checked.query[:4_000]).casefold().split())
    not_long = NOT_LONG.search(query)
    length = None if not_long else LENGTH.search(query)
    asked = int(re.sub(r"\D", "", length[1])) if length else 0
    # What repeats four words in a row counts once, and comments and addresses never.
    seen = re.sub(r"<!--.*?(?:-->|\Z)|\]\([^()\s]*\)|\s+", " ", draft, flags=re.DOTALL).strip()
    listed = words(seen)
    fresh = len(set(zip(listed, listed[1:], listed[2:], listed[3:], strict=False))) + 3
    size = len(seen.encode(errors="replace")) * min(1, fresh / max(1, len(listed)))
    missing = [word for word in words(query) if len(word) > 5 and word[:5] not in draft]
    add = ", ".join([*dict.fromkeys(missing)][:5]) or "reasons and examples"
    reason = f"the draft leaves out what was asked for: add {add}"
    if fresh < asked * 2 / 3:
        return Finding(0.5, reason)
    if size >= 500 or checked.format in NO_PROSE:
        return None
    if asked or ASKS_FOR_LENGTH & set(checked.asks_for):
        return Finding(0.5, reason, above=0.8)
    open_question = not not_long and complexity(checked.query) > SIMPLE
    doubt = Finding(1, "the draft is short for an open question", above=0.8)
    return doubt if open_question else None


# A number or footnote in brackets, a link or DOI, (Smith, 2020), or a list under its heading.
CITES = re.compile(
    r"\[\^\w|[\[【][1-9]\d{0,2}(?!\d)|https?://(?!(?:www\.)?(?:example\.|your))|\b10\.\d{4,9}/"
    r"|[A-Z][\w-]{1,40}(?: et al\.?)?,? \(?(?:1[5-9]|20)\d\d[a-z]?\)"
    r"|\b(?:arXiv|PMID|ISBN|RFC)[: ]{1,2}\d{3}"
    r"|^[#*_ ]*(?i:references|sources|quellen|literatur|références|fuentes)[*_ :]*\n\W*\w",
    re.MULTILINE,
)


@guardrail("no_sources", default=True)
def no_sources(checked: Checked) -> Finding | None:
    """Cap a research answer that cites nothing, code aside.

    Research is what is judged by citations or evidence, or has sources given.
    Source: the reflection chapter's exercise 3, rule 2.
    """
    research = checked.sources or ASKS_FOR_CITATIONS & set(checked.asks_for)
    if not research or checked.format in NO_PROSE:
        return None
    reading = read(checked.draft)
    if CITES.search(f"{reading.text}\n{reading.quoted}"):
        return None
    how = f"[1] to [{len(checked.sources)}]" if checked.sources else "citations or links"
    return Finding(0.5, f"the draft cites no source: support its claims with {how}")


# Neither a link, [1](…), nor a regex, [0-9]+, nor an assignment.
NUMBERED = re.compile(
    r"[\[【] ?(\d{1,3}(?: ?[,;–-] ?\d{1,3}){0,30})(?:†[^\]】\n]{0,60})? ?[\]】]"
    r"(?!\(|\[(?!\d{1,3}\])|[*+?{=]|\.\w| ?=)"
)
# What stands before an index, an interval or a list.
DATA = re.compile(r"(?:\b(?:array|list|index|returns?|is)|\w*[_\d]|\b\w|[=∈→(\[{:|^])\s?$")
FOOTNOTE = re.compile(r"[\w.,;!?\"')\]]\[\^(\d{1,3}|[A-Za-z]\w{3,30})\](?![:*+?{])")
PAGE = re.compile(
    r"\b(10\.\d{4,9}/[^\s\"<>)\],;]+)|\bhttps?://(?!(?:www\.)?example\.)(?:dx\.)?(?!doi\.org/)"
    r"(?:www\.)?([\w.-]+\.[a-z]{2,24}\b/[^\s<>\"')\]}|`*#?]*)"
)


def addresses(text: str) -> list[str]:
    """List the pages that a text links to, without scheme, query and fragment, and its DOIs."""
    return [(doi or page).rstrip(".,;:!/") for doi, page in PAGE.findall(text.casefold())]


@guardrail("unknown_citation", default=True)
def unknown_citation(checked: Checked) -> Finding | None:
    """Cap a draft that cites something other than the given sources.

    That is a number above the last source, alone or after one that is a source's; a footnote that
    is not written out; or a page or DOI that no source contains, if any source contains one. Only
    prose cites: an index, an interval, an array or a regular expression does not.
    """
    if not checked.sources or checked.format in NO_PROSE:
        return None
    text, most, unknown = read(checked.draft).text, len(checked.sources), list[str]()
    for found in NUMBERED.finditer(text):
        group = [int(number) for number in re.findall(r"\d+", found[1])]
        before = text[max(0, found.start() - 30) : found.start()]
        cites = (len(group) == 1 or 0 < group[0] <= most) and not DATA.search(before)
        unknown += [f"[{found[1]}]"] if cites and group[-1] > most else []
    defined = {*re.findall(r"\[\^(\w{1,31})\]:", text), *map(str, range(most + 1))}
    unknown += [f"[^{note}]" for note in FOOTNOTE.findall(text) if note not in defined]
    known = set(addresses(fold("\n".join([*checked.sources, checked.query]))))
    known |= set(addresses(fold("\n".join(checked.material)))) if known else set()
    for page in addresses(text) if known else ():
        if known.isdisjoint(accumulate(page.split("/", 20), "{}/{}".format)):
            unknown.append(page)
    if not unknown:
        return None
    shown = ", ".join(terminal_safe(one, 60) for one in [*dict.fromkeys(unknown)][:3])
    return Finding(0.5, f"the draft cites {shown}, not among the given sources (1 to {most})")


@guardrail("malformed", default=True)
def malformed(checked: Checked) -> Finding | None:
    """Cap a draft that does not parse as what was asked for.

    The request's format is checked strictly: JSON alone, without NaN and duplicate names; every
    block of Python (parsed, never run); Markdown without uneven tables. A form that only the
    query's words ask for (JSON, YAML, a table, Python) must be there once.
    Source: the reflection chapter's exercise 3, rule 3.
    """
    alone = checked.format is not None
    for form in [checked.format] if checked.format else forms_asked(checked.query):
        if wrong := defect(checked.draft, form, alone=alone):
            asked = f"well-formed {form}" if alone else f"the {form} that was asked for"
            return Finding(0.3, f"the draft is not {asked}: {wrong}")
    return None


PLACEHOLDER = re.compile(
    r"\[(?:\.{3}|…)? ?(?:insert|todo|tbd|to be (?:added|written)|rest of|fill in)\b[^\]\n]{0,100}\]"
    r"|\b(?:omitted for (?:brevity|space)|details to follow|your (?:code|implementation) here)\b"
    r"|(?:#|//) ?(?:\.{3}|…)? ?(?:todo:? implement|(?:the )?rest of (?:the|your) code)\b"
    r"|\bto be continued\W*\Z|^[ \t]*raise NotImplementedError\b",
    re.IGNORECASE | re.MULTILINE,
)
# An invitation may leave its details open, and a base class its methods.
MAY_LEAVE_OUT = re.compile(
    r"(?i)template|vorlage|placeholder|abstract|interface|base class|invit|mail"
)
DANGLING = re.compile(
    r"(?i)\w \w+,? (?:(?:the|and|or|but|because|such as|including|although|which|und|oder|aber|"
    r"weil|dass|mais|parce que)|[^\W\d_]{2,40}-|\([^\W\d_][^()]*\w|(?:are|following|sind|sont):)$"
)


@guardrail("unfinished", default=True)
def unfinished(checked: Checked) -> Finding | None:
    """Cap a draft that was cut off, breaks off, or leaves something to be filled in.

    Cut off: by the provider, or since it is too long to be kept. Breaking off: an open code fence
    or bracket, or a last sentence that ends with a word such as `and`, a hyphen, "are:", or the
    beginning of an earlier word. Left to fill in: `[insert ...]`, "omitted for brevity",
    NotImplementedError. A missing full stop or a semicolon proves nothing, nor does a verse.
    """
    if checked.cut or (checked.finish_reason or "").casefold() in {"length", "max_tokens"}:
        return Finding(0.5, "the draft was cut off at its limit: write a shorter one, to its end")
    reading = read(checked.draft)
    if reading.open_fence:
        return Finding(0.5, f"the code fence of line {reading.open_fence} is never closed")
    if opened := unclosed(checked.draft):
        return Finding(0.5, f"the draft breaks off within a structure: {opened}")
    code = "\n".join(block.content for block in reading.code)
    left = PLACEHOLDER.search(f"{reading.text}\n{code}")
    if left and not MAY_LEAVE_OUT.search(f"{checked.query}\n{code}"):
        place = terminal_safe(left[0], 60)
        return Finding(0.5, f"the draft has the placeholder {place!r}: write the missing part")
    *earlier, cut = words(reading.text) or [""]
    # Two whole sentences show that this writer ends them; a signature or a hashtag has no end.
    ends = len(re.findall(r"[.!?] ", reading.ending)) > 1
    within = ends and re.search(r"\w \w*[^\W\d_]{2}$", reading.ending[-200:])
    begun = within and cut not in earlier and any(word[:-1].startswith(cut) for word in earlier)
    breaks = DANGLING.search(reading.ending[-200:])
    if (begun or breaks) and not checked.format and "\n" not in reading.ending:
        place = terminal_safe(reading.ending[-40:], 60)
        return Finding(0.5, f"the draft breaks off at {place!r}: write its end")
    return None


CANNOT = r"\bi ?(?:can ?not|can't|won't|will not|(?:am|'m) (?:unable|not able) to|must decline to)"
DECLINES = re.compile(
    rf"(?:{CANNOT}(?: \w+){{0,2}} (?:help|assist|comply|answer|respond|fulfil|do|write|provide|"
    r"create|discuss|share|engage)(?: \w+){0,3}? (?:this|that|it|your|such)\b"
    rf"|{CANNOT}(?: \w+){{0,2}} (?:help|assist)(?: you)?\W*$"
    rf"|\bas an? (?:ai|(?:large )?language model)\b.{{0,60}}{CANNOT}"
    r"|\bkann ich (?:\w+ ){0,3}nicht (?:\w+ )?(?:helfen|beantworten)|抱歉.{0,8}(?:无法|不能)"
    r"|\bje ne peux pas (?:vous |t')?(?:aider|répondre)|\bno puedo (?:\w+ )?(?:ayudar|responder))"
    r"(?!.*(?:\b(?:but|aber|mais|pero)\b|;))"
)
ASKS_TO_DECLINE = re.compile(r"\b(?:refus|declin|reject|say(?:ing)? no|apolog|jailbreak|absag)")


@guardrail("refusal", default=True)
def refusal(checked: Checked) -> Finding | None:
    """Cap a draft that as a whole declines to answer.

    It says that it cannot help, answer or comply, and has at most 30 words in other sentences. A
    quoted refusal does not count, nor does one that the query asks for, or that goes on with "but".
    """
    reading, query = read(checked.draft), fold(checked.query[:4_000]).casefold()
    if ASKS_TO_DECLINE.search(query) or reading.code:
        return None
    text = f"{reading.text}\n{reading.quoted}".casefold()
    spoken = re.sub(r'"[^"\n]{0,500}"', "", re.sub(r'\A\s*"([^"]*)"\s*\Z', r"\1", text))
    sentences = [" ".join(one.split()) for one in re.split(r"[.!?\n。]+", spoken)]
    others = " ".join(one for one in sentences if not DECLINES.search(one))
    if others == " ".join(sentences) or len(others.split()) > 30:
        return None
    return Finding(0.2, "the draft declines: answer what can be answered, and say what cannot")


# What only the prompts of `prompts.py` say to a writer.
PROMPTED = re.compile(
    r"(?m)^=== (?:draft|source) \d+ ===$|^Important: the previous response to the request below "
    r"needs|^What to change, point by point:$|^Cite these sources as \[1\], \[2\] and so on"
)
FILLER = frozenset(
    words(
        "very really quite rather truly indeed actually simply just also please sure certainly of a"
        " course here is the an this revised improved updated new final version draft answer text"
        " response below now overall clearly basically i hope helps it so"
    )
)


@guardrail("near_copy", default=True)
def near_copy(checked: Checked) -> Finding | None:
    """Cap a draft at the score of the previous one if the two say the same in the same words.

    Case, punctuation, the order of sentences, filler and repetitions are ignored; anything else
    that differs, even one word or sign, may be the correction. A draft that repeats the query, or
    the prompt and marks that its writer was shown, is capped at 0.5.
    """
    if PROMPTED.search(checked.draft) and not PROMPTED.search(checked.query):
        return Finding(0.5, "the draft repeats its instructions: reply with the response alone")
    written = words(checked.draft)
    if len(written) > 7 and written == words(checked.query):
        return Finding(0.5, "the draft repeats the query: answer it")
    if checked.previous is None or _sayings(checked.previous) != _sayings(checked.draft):
        return None
    score = 0.5 if checked.previous_score is None else checked.previous_score
    same = "the draft is nearly identical to the previous one: make the changes asked for"
    return Finding(score, same)


def _sayings(text: str) -> set[tuple[str, ...]]:
    """Return what copies have in common: sentences without filler, with their figures, and code."""
    reading = read(text)
    code = {tuple(re.findall(r"\w+|[^\w\s]", block.content)) for block in reading.code}
    said = re.split(r"[.!?。]\s+|\n+|(?<=。)", f"{reading.text}\n{reading.quoted}".casefold())
    token = re.compile(r"(?<![\w.])[-−+]?\d+(?:[.,:/]\d+)*(?: ?%)?|https?://\S+|[^\W_]+")
    sentences = {tuple(one for one in token.findall(part) if one not in FILLER) for part in said}
    return code | sentences - {()}


@guardrail("addresses_judge", default=True)
def addresses_judge(checked: Checked) -> Finding | None:
    """Cap a draft that tells its judge what to do, or plays the judge; the second line of defence.

    The first: a draft is quoted as data in the judge's prompt, and only the judge's one JSON object
    counts.
    """
    told = told_judge(checked.query, read(checked.draft), checked.asks_for)
    if told is None:
        return None
    shown = terminal_safe(told, 50)
    return Finding(0.3, f"the draft speaks to its judge ({shown!r}): take that out")


OF_MULL = frozenset(_GUARDRAILS)
"""Those above, which take time linear in the length of a text."""

# Your own guardrails go here.
