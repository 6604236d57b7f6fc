'''Guardrails: rules that cap a judge's score, each with proof.

The proof is in the request and the draft: a broken JSON where JSON was asked for, `[7]` where six
sources were given, a reply that its provider cut off. A rule without proof can only lower the
judge's confidence.

Add your own at the end of this file, and name it in a request beside Mull's own:
`"guardrails": ["default", "no_prices"]`. It must be pure: no model, file, clock or network. Another
module that the worker imports will do too: your own run, for at most five seconds, in a process
that imports their module.

    @guardrail("no_prices")
    def no_prices(checked: Checked) -> Finding | None:
        """Cap a draft that names a price: prices come from the shop alone."""
        if "$" not in checked.draft:
            return None
        return Finding(cap=0.4, reason="the draft names a price: leave it to the shop")

One of Mull's own has `default=True` and runs on every draft, so it returns None where nothing asks
for what it looks for. One that belongs to a preset is gated by a set of criteria in criteria.py, as
`no_sources` is by `ASKS_FOR_CITATIONS`: without such a criterion `--guardrail` does nothing for it.
Add its rows to `HOSTILE` and `HONEST_TEXTS` in tests/unit/critique/test_guardrails.py, to the list
in docs/guide.md and to the table in docs/glossary.md.
'''

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from reflection.critique.complexity import SIMPLE, complexity
from reflection.critique.criteria import ASKS_FOR_CITATIONS, ASKS_FOR_LENGTH
from reflection.critique.evaluation import Cap
from reflection.critique.forms import FOOTNOTE, addresses, cited_numbers, defect, lack, read
from reflection.critique.injections import said_to_judge
from reflection.request import Record
from reflection.text import cut_encoded, fold, terminal_safe, words

DEFAULT = "default"
REASON_BYTES = 300


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
    format: Literal["json", "python", "markdown"] | None = None
    asks_for: tuple[str, ...] = ()


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
    r"\b(?:at least|about|around|exactly|in|with|write|an?|(?<!maximum )(?<!limit )of|mindestens|"
    r"etwa|environ|unos) (\d{1,3},\d{3}|\d{3,5})(?: ?(?:to|–|-) ?\d+)?"
    r"[ -](?:words?|wörtern?|mots|palabras)\b(?! (?:max|limit|at most|or (?:less|fewer)))"
)
NOT_LONG = re.compile(
    r"\b(?:(?:one|two|three|einem?|une?|una)[ -](?:sentence|line|word|phrase|satz|wort|mot|frase)|"
    r"brief|concise|short|tl;?dr|yes or no|kurz|summar|translat|zusammenfass|übersetz|résum|tradui)"
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
    asked = int(length[1].replace(",", "")) if length else 0
    # What repeats four words in a row counts once, and comments and addresses never.
    seen = re.sub(r"<!--.*?(?:-->|\Z)|\]\([^()\s]*\)|\s+|(.)\1{3,}", " ", draft, flags=re.DOTALL)
    listed = words(seen)
    fresh = len(set(zip(listed, listed[1:], listed[2:], listed[3:], strict=False))) + 3
    size = len(seen.strip().encode(errors="replace")) * min(1, fresh / max(1, len(listed)))
    named = [word for word in dict.fromkeys(words(query)) if len(word) > 5]
    missing = ", ".join([word for word in named if word[:5] not in draft][:5])
    reason = f"the draft leaves out what was asked for: add {missing or 'reasons and examples'}"
    if fresh < asked * 2 / 3:
        return Finding(0.5, reason)
    if size >= 500 or checked.format in {"json", "python"}:
        return None
    if asked or ASKS_FOR_LENGTH & set(checked.asks_for):
        return Finding(0.5, reason, above=0.8)
    if not_long or complexity(checked.query) <= SIMPLE:
        return None
    return Finding(1, "the draft is short for an open question", above=0.8)


REFERENCE = re.compile(
    r"\b[A-Z][\w-]{1,40}(?: et al\.?| (?:and|&|und|et|y) [A-Z][\w-]{1,40})?,? \(?(?:1[5-9]|20)\d\d"
    r"[a-z]?\)|\b(?:arXiv|PMID|ISBN|RFC)[: ]{1,2}\d{3}|^[#*_ ]*(?i:references|sources|quellen|"
    r"literatur|références|fuentes)[*_ :]*\n+[ \t]*(?:[-*+]|\[?\d+[\].)])?[ \t]*[^\W\d]",
    re.MULTILINE,
)


@guardrail("no_sources", default=True)
def no_sources(checked: Checked) -> Finding | None:
    """Cap a research answer that cites nothing.

    Research is what is judged by citations or evidence, or has sources given. A citation is [1],
    [^1], a link to a host, a DOI, (Smith, 2020), or a list of references, but not in code.
    Source: the reflection chapter's exercise 3, rule 2.
    """
    research = checked.sources or ASKS_FOR_CITATIONS & set(checked.asks_for)
    if not research or checked.format in {"json", "python"}:
        return None
    reading = read(checked.draft)
    text = "\n\n".join([*reading.prose, *reading.quoted])
    cites = (FOOTNOTE.search(text), REFERENCE.search(text), *cited_numbers(text), *addresses(text))
    if any(cites):
        return None
    how = f"[1] to [{len(checked.sources)}]" if checked.sources else "citations or links"
    return Finding(0.5, f"the draft cites no source: support its claims with {how}")


@guardrail("unknown_citation", default=True)
def unknown_citation(checked: Checked) -> Finding | None:
    """Cap a draft that cites something other than the given sources.

    That is a number above the last source, an undefined footnote, or a link or DOI that no source
    contains (if any source contains one). Only prose can cite: an index, an interval, an array or a
    regular expression is not a citation.
    """
    if not checked.sources or checked.format in {"json", "python"}:
        return None
    text, most = read(checked.draft).text, len(checked.sources)
    numbers = list(cited_numbers(text))
    cites = any(alone and number <= most for number, alone in numbers)
    unknown = [f"[{number}]" for number, alone in numbers if number > most and (alone or cites)]
    undefined = set(FOOTNOTE.findall(text)) - set(re.findall(r"\[\^(\w{1,31})\]:", text))
    unknown += [f"[^{note}]" for note in undefined if not note.isdecimal() or int(note) > most]
    known = set(addresses(fold("\n".join([*checked.sources, checked.query]))))
    for page in addresses(text) if known else ():
        parts = page.split("/", 20)
        starts = {"/".join(parts[:cut]) for cut in range(1, len(parts) + 1)}
        ends = {"/".join(parts[cut:]) for cut in range(len(parts))}
        if len(parts) > 1 and not known & (starts | ends):
            unknown.append(page)
    if not unknown:
        return None
    shown = ", ".join(terminal_safe(one, 60) for one in list(dict.fromkeys(unknown))[:3])
    return Finding(0.5, f"the draft cites {shown}, not among the given sources (1 to {most})")


@guardrail("malformed", default=True)
def malformed(checked: Checked) -> Finding | None:
    """Cap a draft that does not parse as what was asked for.

    The request's format is checked strictly: JSON alone, without NaN and duplicate names; every
    block of Python (parsed, never run); Markdown without open fences or comments and uneven tables.
    A form that only the query's words ask for (JSON, a table, Python) must be there once.
    Source: the reflection chapter's exercise 3, rule 3.
    """
    if checked.format:
        wrong = defect(checked.draft, checked.format)
    else:
        wrong = lack(checked.draft, checked.query)
    asked = f"well-formed {checked.format}" if checked.format else "in the form asked for"
    return Finding(0.3, f"the draft is not {asked}: {wrong}") if wrong else None


PLACEHOLDER = re.compile(
    r"\[(?:\.{3}|…)? ?(?:insert|todo|tbd|to be (?:added|written)|rest of|fill in|"
    r"(?:your|add) [^\]\n]{1,30} here)\b[^\]\n]{0,100}\]|\bomitted for (?:brevity|space)"
    r"|(?:#|//|--) ?(?:\.{3}|…)? ?(?:the )?rest of (?:the|your)\b|\bto be continued\W*\Z"
    r"|\byour (?:code|implementation) (?:goes )?here\b|^[ \t]*raise NotImplementedError\b",
    re.IGNORECASE | re.MULTILINE,
)
MAY_LEAVE_OUT = re.compile(
    r"(?i)template|placeholder|todo|skeleton|stub|vorlage|plantilla|modèle|abstract|interface|"
    r"base class|notimplemented"
)
DANGLING = re.compile(
    r"\w \w+,? (?:(?:the|and|because|such as|including|although|und|oder|weil|dass|parce que)|"
    r"(?<=, )(?:or|but|which|who|aber|mais|pero)|[^\W\d_]{2,40}-|\([^\W\d_][^()]*\w|"
    r"(?:are|is|following|sind|son|sont):)$",
    re.IGNORECASE,
)


@guardrail("unfinished", default=True)
def unfinished(checked: Checked) -> Finding | None:
    """Cap a draft that was cut off, breaks off, or leaves something to be filled in.

    Cut off: by the provider, or since it is too long to be kept. Breaking off: an open code fence
    or bracket, or a last sentence that ends with a word such as `and`, a hyphen, "are:", or the
    beginning of an earlier word. Left to fill in: `[insert ...]`, "omitted for brevity",
    NotImplementedError. A missing full stop or a semicolon proves nothing.
    """
    if checked.cut or (checked.finish_reason or "").casefold() in {"length", "max_tokens"}:
        return Finding(0.5, "the draft was cut off at its limit: write a shorter one, to its end")
    reading = read(checked.draft)
    if reading.unclosed is not None:
        return Finding(0.5, f"the code fence of line {reading.unclosed} is never closed")
    code = "\n".join(block.text for block in reading.code)
    left = PLACEHOLDER.search(f"{reading.text}\n{reading.html}\n{code}")
    if left and not MAY_LEAVE_OUT.search(checked.query + code.replace(left[0].strip(), "")):
        place = terminal_safe(left[0], 60)
        return Finding(0.5, f"the draft has the placeholder {place!r}: write the missing part")
    last = re.split(r"[.!?\n|] ?", reading.ending[-2_000:])[-1]
    *earlier, cut = words(reading.text) or [""]
    sentences = len(re.findall(r"[.!?] ", reading.ending))
    clear = sentences > 1 and last[-1:].isalpha() and len(cut) > 1 and cut not in earlier
    begun = clear and any(word.startswith(cut) and len(word) > len(cut) + 1 for word in earlier)
    if not checked.format and (begun or DANGLING.search(last[-200:])):
        place = terminal_safe(reading.ending[-40:], 60)
        return Finding(0.5, f"the draft breaks off at {place!r}: write its end")
    return None


CANNOT = r"\bi ?(?:can ?not|can't|won't|will not|(?:am|'m) (?:unable|not able) to|must decline to)"
DECLINES = re.compile(
    rf"{CANNOT}(?: \w+){{0,2}} (?:help|assist)(?: you)?(?: with (?:this|that|it|your|the)\b|\W*$)"
    rf"|{CANNOT}(?: \w+){{0,2}} (?:comply|answer|respond|fulfil|do|write|provide|create|discuss|"
    r"generate|share|engage)(?: (?:to|with|in))? (?:this|that|your|such|it)\b(?!.*\bbut\b)"
    rf"|\bas an? (?:ai|(?:large )?language model)\b.{{0,60}}{CANNOT}"
    r"|\bkann ich (?:\w+ ){0,3}nicht (?:\w+ )?(?:helfen|beantworten)|抱歉.{0,8}(?:无法|不能)"
    r"|\bje ne peux pas (?:vous |t')?(?:aider|répondre)|\bno puedo (?:\w+ )?(?:ayudar|responder)"
)
ASKS_TO_DECLINE = re.compile(r"\b(?:refus|declin|reject|say(?:ing)? no|apolog|jailbreak|absag)")


@guardrail("refusal", default=True)
def refusal(checked: Checked) -> Finding | None:
    """Cap a draft that as a whole declines to answer.

    It says that it cannot help, answer or comply, and has at most 30 words in other sentences. A
    quoted refusal does not count, nor does one that the query asks for.
    """
    reading = read(checked.draft)
    asked = ASKS_TO_DECLINE.search(fold(checked.query[:4_000]).casefold())
    if asked or reading.code or len(checked.draft) > 2_000:
        return None
    text = "\n".join([*reading.prose, *reading.quoted]).casefold().strip('" \n')
    spoken = re.sub(r'"[^"\n]{0,500}"|[*_~]+', "", text)
    sentences = re.split(r"[.!?\n。]+", spoken)
    others = [one for one in sentences if not DECLINES.search(" ".join(one.split()))]
    if len(others) == len(sentences) or len(" ".join(others).split()) > 30:
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
    if checked.previous is None or _essence(checked.previous) != _essence(checked.draft):
        return None
    score = 0.5 if checked.previous_score is None else checked.previous_score
    same = "the draft is nearly identical to the previous one: make the changes asked for"
    return Finding(score, same)


def _essence(text: str) -> tuple[set[str], set[str], list[str]]:
    """Return what a copy has in common: the sentences without filler, figures and links, code."""
    reading = read(text)
    said = re.split(r"[.!?。]\s+|\n+|(?<=。)", "\n".join([*reading.prose, *reading.quoted]))
    sentences = {" ".join(word for word in words(one) if word not in FILLER) for one in said}
    figures = re.findall(r"(?<![\w.])[-−+]?\d+(?:[.,:/]\d+)*%?|https?://\S+", reading.text)
    code = "\n".join(block.text for block in reading.code)
    return sentences - {""}, set(figures), re.findall(r"\w+|[^\w\s]", code)


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
    shown = terminal_safe(said, 50)
    return Finding(0.3, f"the draft speaks to its judge ({shown!r}): take that out")


OF_MULL = frozenset(_GUARDRAILS)
"""Those above, which take time linear in the length of a text."""

# Your own guardrails go here.
