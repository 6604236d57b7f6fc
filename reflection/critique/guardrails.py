'''Guardrails: rules that cap a judge's score, each with proof.

The proof is in the request and the draft: a broken JSON where JSON was asked for, `[7]` where six
sources were given, a reply that its provider cut off. A rule without proof can only lower the
judge's confidence.

Add your own at the end of this file, and name it in a request beside Mull's own:
`"guardrails": ["default", "no_prices"]`. It must be pure: no model, file, clock or network.

    @guardrail("no_prices")
    def no_prices(checked: Checked) -> Finding | None:
        """Cap a draft that names a price: prices come from the shop alone."""
        if "$" not in checked.draft:
            return None
        return Finding(cap=0.4, reason="the draft names a price: leave it to the shop")
'''

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from rapidfuzz.distance import Indel

from reflection.critique.criteria import SIMPLE, complexity
from reflection.critique.evaluation import Cap
from reflection.critique.injections import is_refusal, said_to_judge
from reflection.critique.prose import (
    AUTHOR_OR_LIST,
    BRACKETS,
    FOOTNOTE,
    Reading,
    addresses,
    asked_words,
    cited_numbers,
    defect,
    lack,
    length_of,
    read,
)
from reflection.run import Record, cut_encoded
from reflection.text import fold, terminal_safe, words

DEFAULT = "default"
REASON_BYTES = 300


class Checked(Record):
    """The input of a guardrail; nothing in it comes from the judge.

    `previous` is the draft that this one revises, and `previous_score` its score. `asks_for` are
    the names of the criteria.
    """

    query: str
    draft: str
    finish_reason: str | None = None
    cut: bool = False
    previous: str | None = None
    previous_score: float | None = None
    sources: tuple[str, ...] = ()
    format: Literal["json", "python", "markdown"] | None = None
    asks_for: tuple[str, ...] = ()


class Report(Record):
    """What the guardrails found, and which of them failed and how.

    `doubts` cap nothing: they make the confidence in a score above `above` low.
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


def check(checked: Checked, names: Sequence[str]) -> Report:
    """Run the named guardrails on a draft; the name `default` stands for all default ones.

    A guardrail that raises or is not registered caps nothing and is listed among the failures.
    """
    found, failures = list[Cap](), list[str]()
    named = (one for name in names for one in (_BY_DEFAULT if name == DEFAULT else [name]))
    for name in dict.fromkeys(named):
        if name not in _GUARDRAILS:
            failures.append(f"guardrail {name} is no longer registered")
            continue
        try:
            if finding := _GUARDRAILS[name](checked):
                cap, reason, above = finding
                above = cap if above is None else above
                reason = cut_encoded(reason, REASON_BYTES)
                found.append(Cap(guardrail=name, cap=cap, above=above, reason=reason))
        except Exception as error:
            failures.append(f"guardrail {name} failed: {type(error).__name__}")
    return Report(
        caps=tuple(cap for cap in found if cap.cap < 1),
        doubts=tuple(cap for cap in found if cap.cap == 1),
        failures=tuple(failures),
    )


LONG_FORMS = frozenset({"citation_coverage", "source_quality", "navigability", "comparability"})
"""Criteria that only the presets research, documentation and competitive_analysis have."""

A_LITTLE = re.compile(
    r"\b(?:one|an?|single|two|three|[1-3]|einem?|une?|una?)[ -](?:short |single |sola |seule )?"
    r"(?:sentence|line|word|phrase|satz|wort|mot|frase|palabra)s?\b"
    r"|\b(?:brief(?:ly)?|concise(?:ly)?|short(?:ly)?|tl;?dr|yes or no|kurz|brièvement|brevemente)\b"
)
ASKING = frozenset(words("write explain describe discuss least words essay article about"))


@guardrail("too_short", default=True)
def too_short(checked: Checked) -> Finding | None:
    """Cap a draft without text, or a short one when the query asks for length.

    If the query asks for 81 to 20,000 words, less than two thirds of them are too few at any
    score. If it asks for 100 or more, or the criteria are those of research, documentation or
    competitive analysis, a draft under 500 bytes with a score above 0.8 is capped. Otherwise such
    a draft only lowers the confidence in a high score: one line can be right. White space, markup
    and repetitions do not count.
    Source: the reflection chapter, 11.9, method 2, and its exercise 3, rule 1.
    """
    if not fold(checked.draft).strip(" \t\n\r*_#>~`|=-"):
        return Finding(0.5, "the draft has no text: write the answer")
    query = " ".join(fold(f"{checked.query[:2_000]} {checked.query[-2_000:]}").casefold().split())
    asked = asked_words(query)
    written, size = length_of(read(checked.draft))
    said = fold(checked.draft).casefold()
    named = [one for one in dict.fromkeys(words(checked.query[:2_000])) if one not in ASKING]
    missing = [one for one in named if len(one) > 4 and one[:5] not in said][:5]
    add = f"add {', '.join(missing) or 'reasons, facts and examples'}"
    if written < asked * 2 / 3:
        return Finding(0.5, f"the draft is well short of {asked:,} words: {add}")
    if size >= 500 or checked.format in {"json", "python"} or A_LITTLE.search(query):
        return None
    if asked >= 100 or LONG_FORMS & set(checked.asks_for):
        return Finding(0.5, f"the draft says too little: {add}", above=0.8)
    if asked or complexity(checked.query) <= SIMPLE:
        return None
    return Finding(1, "the draft is short for an open question", above=0.8)


@guardrail("no_sources", default=True)
def no_sources(checked: Checked) -> Finding | None:
    """Cap a research answer that cites nothing.

    An answer counts as research if it is judged by citation_coverage, source_quality or evidence,
    or if sources were given. A citation is [1], [^1], a link to a host, a DOI, (Smith, 2020), or a
    list of references; citations in code, [citation needed], an empty heading and example.com do
    not count.
    Source: the reflection chapter's exercise 3, rule 2.
    """
    research = {"citation_coverage", "source_quality", "evidence"} & set(checked.asks_for)
    if not (checked.sources or research) or checked.format in {"json", "python"}:
        return None
    reading = read(checked.draft)
    text = "\n\n".join([*reading.prose, *reading.quoted]).translate(BRACKETS)
    cites = [FOOTNOTE.search(text), *cited_numbers(text), *addresses(text, reading.links)]
    if any(cites) or AUTHOR_OR_LIST.search(text):
        return None
    how = f"[1] to [{len(checked.sources)}]" if checked.sources else "citations or links"
    return Finding(0.5, f"the draft cites no source: support its claims with {how}")


@guardrail("unknown_citation", default=True)
def unknown_citation(checked: Checked) -> Finding | None:
    """Cap a draft that cites something other than the given sources.

    That is a number above the last source, an undefined footnote, or a link or DOI that no source
    contains (if any source contains one). Only prose can cite: an index, an interval, an array, a
    regular expression or a year is not a citation. Without given sources nothing can be proven.
    """
    if not checked.sources or checked.format in {"json", "python"}:
        return None
    reading = read(checked.draft)
    text, most = reading.text.translate(BRACKETS), len(checked.sources)
    numbers = list(cited_numbers(text))
    cites = any(single and number <= most for number, single in numbers)
    unknown = [f"[{n}]" for n, single in numbers if n > most and (single or cites)]
    notes = (note for note in dict.fromkeys(FOOTNOTE.findall(text)) if f"[^{note}]:" not in text)
    unknown += [f"[^{note}]" for note in notes if not note.isdecimal() or int(note) > most]
    if known := set(addresses(fold("\n".join([*checked.sources, checked.query])))):
        pages = (one for one in addresses(text, reading.links) if "/" in one)
        unknown += [page for page in pages if not _is_among(page, known)]
    if not unknown:
        return None
    shown = ", ".join(terminal_safe(one, 60) for one in list(dict.fromkeys(unknown))[:3])
    return Finding(0.5, f"the draft cites {shown}, not among the given sources (1 to {most})")


def _is_among(page: str, known: set[str]) -> bool:
    """Tell whether an address, its beginning or the DOI that it ends with is known."""
    parts = page.split("/", 20)
    cuts = range(len(parts) + 1)
    return any({"/".join(parts[:cut]), "/".join(parts[cut:])} & known for cut in cuts)


@guardrail("malformed", default=True)
def malformed(checked: Checked) -> Finding | None:
    """Cap a draft that does not parse as what was asked for.

    The request's format is checked strictly: JSON without anything around it, without NaN and
    duplicate names; every fenced block of Python, or the whole draft (parsed, never run); Markdown
    that renders as intended. A format that only the query's words ask for (JSON, a table, Python)
    must be present at least once and parse.
    Source: the reflection chapter's exercise 3, rule 3.
    """
    if checked.format:
        wrong = defect(checked.draft, checked.format)
        named = f"the draft is not well-formed {checked.format}"
    else:
        wrong = lack(checked.draft, checked.query)
        named = "the query asks for another form"
    return Finding(0.3, f"{named}: {wrong}") if wrong else None


PLACEHOLDER = re.compile(
    r"[\[<{(](?:\.{3}|…)?\s?(?:insert\b|todo\b|tbd\b|to be (?:continued|added|completed|written)|"
    r"rest (?:omitted|of )|remainder\b|(?:text |section )?(?:omitted|truncated)|placeholder\b|"
    r"add .{0,30}here|your .{1,30} here|continued\b|fill in|content goes here)[^\]>})\n]{0,100}"
    r"[\]>})]|\b(?:details|more|numbers|rest) (?:to follow|to come|follows? later)\b"
    r"|\bomitted for (?:brevity|space)|\blorem ipsum dolor|^(?:TODO|FIXME|TBD): ?\S"
    r"|(?:^|[.!?] )[*_(]*(?:to be continued|fortsetzung folgt|à suivre|continuará)\W*\Z",
    re.IGNORECASE | re.MULTILINE,
)
LEFT_OUT = re.compile(
    r"(?:#|//|/\*|--|<!--)[ \t]{0,8}(?:\.{3}|…)?[ \t]{0,8}(?:(?:the )?(?:rest|remainder) of "
    r"(?:the|your)\b|(?:add |implement |write |put )?your (?:code|implementation|logic)\b"
    r"|todo:? implement|(?:implementation|code) (?:goes )?here\b|omitted for brevity)"
    r"|^[ \t]*raise NotImplementedError\b",
    re.IGNORECASE | re.MULTILINE,
)
MAY_LEAVE_OUT = re.compile(
    r"template|placeholder|to-?do|lorem|fixme|skeleton|stub|scaffold|boilerplate|vorlage|plantilla"
    r"|modèle|abstract|interface|base class|subclass|override|omitted|notimplemented",
    re.IGNORECASE,
)
DANGLING = re.compile(
    r"(?:\b(?:the|an|and|or|but|because|whose|such as|including|although|whereas|und|oder|weil|dass"
    r"|et|ou|parce que|mais|y|pero|porque|aunque|или|потому что)"
    r"|[^\W\d_]{2}-|\b(?:are|is|following|follows|sind|folgende|sont|son):"
    r"|(?:^|\s)\([^\W\d_][^()]*\w)$",
    re.IGNORECASE,
)


@guardrail("unfinished", default=True)
def unfinished(checked: Checked) -> Finding | None:
    """Cap a draft that was cut off, breaks off, or leaves something to be filled in.

    Cut off: by the provider, or because it is too long to be kept. Breaking off: an open code fence
    or bracket, or a last sentence that ends with a word such as `and`, a hyphen, or "are:". Left to
    fill in: `[insert ...]`, "details to follow", "omitted for brevity", NotImplementedError. A
    missing full stop, a semicolon or an ellipsis proves nothing.
    """
    if checked.cut or (checked.finish_reason or "").casefold() in {"length", "max_tokens"}:
        return Finding(0.5, "the draft was cut off at its limit: write a shorter one, to its end")
    reading = read(checked.draft)
    if fence := next((block for block in reading.code if not block.closed), None):
        return Finding(0.5, f"the code fence of line {fence.line - 1} is never closed")
    if left := None if MAY_LEAVE_OUT.search(checked.query) else _left_out(reading):
        left = terminal_safe(left.strip(), 60)
        return Finding(0.5, f"the draft has the placeholder {left!r}: write the missing part")
    last = re.split(r"[.!?\n] ?", reading.ending[-2_000:].rstrip("*_ \n"))[-1]
    prose = checked.format not in {"json", "python"} and "|" not in last and len(last.split()) > 2
    if prose and DANGLING.search(last[-200:]):
        return Finding(
            0.5, f"the draft breaks off at {terminal_safe(last[-40:], 60)!r}: write its end"
        )
    return None


def _left_out(reading: Reading) -> str | None:
    text = re.sub(r'"[^"\n]{1,300}"', "", f"{reading.text}\n\n{reading.html}")
    if found := PLACEHOLDER.search(text):
        return found[0]
    for block in reading.code:
        found = LEFT_OUT.search(block.text)
        if found and not MAY_LEAVE_OUT.search(block.text.replace(found[0], "") + reading.text):
            return found[0]
    return None


ASKS_TO_DECLINE = re.compile(
    r"\b(?:refus|declin|reject|turn(?:ing)? down|say(?:ing)? no|can(?:no|')t help|apolog"
    r"|jailbreak|absag)"
)


@guardrail("refusal", default=True)
def refusal(checked: Checked) -> Finding | None:
    """Cap a draft that as a whole declines to answer.

    It says that it cannot help, answer or comply, and has at most 40 other words besides apologies
    and offers; or it says that it cannot write or provide something, and has at most 8. A quoted
    refusal does not count, nor does one that the query asks for.
    """
    asked = ASKS_TO_DECLINE.search(fold(checked.query[:4_000]).casefold())
    if asked or len(checked.draft) > 3_000:
        return None
    reading = read(checked.draft)
    text = re.sub(r"[*_~]+", "", "\n".join([*reading.prose, *reading.quoted])).casefold().strip()
    if reading.code or not is_refusal(text):
        return None
    return Finding(0.2, "the draft declines: answer what can be answered, and say what cannot")


PROMPTED = re.compile(
    r"^=== (?:draft|source) \d+ ===$|^Important: the previous response to the request below needs "
    r"improvement|^What to change, point by point:$",
    re.MULTILINE,
)


@guardrail("near_copy", default=True)
def near_copy(checked: Checked) -> Finding | None:
    """Cap a draft at the score of the previous one if the two are nearly identical.

    Case, punctuation, the order of sentences, filler and repetitions are ignored; apart from these
    a copy shares 97 % of its words. A correction is not a copy: a number, a name or code replaced,
    a negation or citation added or removed, or five or more words removed. A draft that repeats
    the query, or the prompt and marks that its writer was shown, is capped at 0.5.
    """
    if PROMPTED.search(checked.draft) and not PROMPTED.search(checked.query):
        return Finding(0.5, "the draft repeats its instructions: reply with the response alone")
    written = words(checked.draft)
    if len(written) > 7 and written == words(checked.query):
        return Finding(0.5, "the draft repeats the query: answer it")
    if checked.previous is None or not _is_copy(checked.previous, checked.draft):
        return None
    score = 0.5 if checked.previous_score is None else checked.previous_score
    return Finding(
        score, "the draft is nearly identical to the previous one: make the changes asked for"
    )


NEGATIONS = words(
    "not no never none without cannot nor isn't aren't wasn't weren't don't doesn't didn't can't"
    " won't couldn't shouldn't wouldn't hasn't haven't nicht kein keine nie ne pas jamais nunca"
)
FILLER = frozenset(
    words(
        "very really quite rather truly indeed actually simply just also please sure certainly of a"
        " absolutely course here is the an this that revised improved updated new final version"
        " draft answer response below now overall clearly basically conclusion hope helps i it so"
        " in"
    )
)
SIGNED = re.compile(r"(?<![\w.])[-−+]?\d+(?:[.,:/]\d+)*%?")
NAME = re.compile(r"(?<=[a-z,;\d)] )[^\W\d_a-z][^\W\d_]+")


def _is_copy(previous: str, draft: str) -> bool:
    """Tell whether a draft says the same as the previous one, in nearly the same words."""
    old, new = read(previous), read(draft)
    was, now = fold(previous), fold(draft)
    numbers, others = Counter(SIGNED.findall(was)), Counter(SIGNED.findall(now))
    if _kept(old) != _kept(new) or (numbers - others and others - numbers):
        return False
    if _sentences(old.text) == _sentences(new.text):
        return True
    before, after = words(old.text), words(new.text)
    out, put = Counter(before) - Counter(after), Counter(after) - Counter(before)
    names = [name for name in NAME.findall(was) if name.casefold() in out]
    negated = any(out[word] != put[word] for word in NEGATIONS)
    if negated or (out.total() >= 5 and not put):
        return False
    if names and any(name.casefold() in put for name in NAME.findall(now)):
        return False
    before, after = ([word for word in one if word not in FILLER] for one in (before, after))
    return Indel.normalized_similarity(before, after, score_cutoff=0.97) >= 0.97


def _kept(reading: Reading) -> tuple[list[str], set[str]]:
    """Return the code without comments, and the citations: changing them makes no copy."""
    code = "\n".join(block.text for block in reading.code)
    bare = re.sub(r"(?:^|(?<=\s))(?:#|//|--)[^\n]*", "", code)
    numbers = re.findall(r"\[\^?(\d[\d ,;-]{0,40})\]", reading.text)
    return re.findall(r"\w+|[^\w\s]", bare), {*numbers, *addresses(reading.text, reading.links)}


def _sentences(text: str) -> set[str]:
    """Collect the sentences as words without filler."""
    said = re.split(r"(?<![.!?。])[.!?。]++(?:\s+|$)|\n+|(?<=。)", text)
    return {" ".join(word for word in words(one) if word not in FILLER) for one in said} - {""}


@guardrail("addresses_judge", default=True)
def addresses_judge(checked: Checked) -> Finding | None:
    """Cap a draft that tells its judge what to do, or plays the judge.

    It overrides instructions, demands or claims a full score for itself, addresses a judge model,
    contains a judge's reply or a chat template's tokens, or pretends to end. Code and quotations
    count as examples; if the query is about judging or about such texts, so does everything.
    """
    reading = read(checked.draft)
    said = said_to_judge(f"{reading.text}\n\n{reading.html}", checked.query, checked.asks_for)
    if said is None:
        return None
    return Finding(
        0.3, f"the draft speaks to its judge ({terminal_safe(said, 50)!r}): take that out"
    )


# Your own guardrails go here.
