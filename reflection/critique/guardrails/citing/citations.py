"""The citations of a text, as they are written: numbers, links, DOIs, authors and years."""

import re
from collections.abc import Iterator

from reflection.critique.guardrails.prose import fold, without_code

GROUP = r"\d{1,4}(?:\s?[,;–—-]\s?\d{1,4}){0,30}"
NUMBERED = re.compile(
    rf"([\w\])]?)\[\s?(?:(?:source|ref|reference|doc|document|s|"
    rf"#)\.?:?\s?)?({GROUP})(?:†[^\]\n]{{0,60}})?"
    r"\s?\](?=(\(https?://|\.\w|\s?[-+*/]?=(?!=)|\+\+)?)",
    re.IGNORECASE,
)
RANGE = re.compile(r"(\d+)\s?[–—-]\s?(\d+)")
BRACKETS = str.maketrans("【】\u3014\u3015\uff3b\uff3d", "[][][]")
DIGITS = re.compile(r"\d+")
INDEXED = re.compile(
    r"(?:\b[a-zA-Z]|\w*_\w*|\b[a-z]+[A-Z]\w*|\b(?:arr|array|list|lst|items?|nums?|"
    r"numbers|data|args|argv|"
    r"rows?|values?|vals?|matrix|vector|dp|stack|queue|result|output|input|tuple|string|str))$"
)
SPAN_BEFORE = re.compile(r"(?:interval|range|between|scale|domain|∈|\bin|=)\s*$", re.IGNORECASE)
DATA_BEFORE = re.compile(
    r"(?:lists?|arrays?|vectors?|tuples?|matrix|sequences?|inputs?|outputs?|returns?|gives|values|"
    r"[=(\[∈→])[\s:]*$",
    re.IGNORECASE,
)
FOOTNOTE = re.compile(r"\[\^([^\]\s]{1,40})\](?!:)")
DEFINED_NOTE = re.compile(r"^[ \t>]*\[\^([^\]\s]{1,40})\]:[ \t]*(.*)", re.MULTILINE)
ENTRY = re.compile(r"^[ \t>]*(?:[-*+][ \t]+)?\[(\d{1,4})\]:?[ \t]*(.*)", re.MULTILINE)
LISTED = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(\d{1,3})[.)][ \t]+(.*)")
HEADING = re.compile(
    r"[#*_ \t>]*(?:references|sources?|bibliography|works cited|citations|footnotes|"
    r"notes|literature|"
    r"further reading|quellen|literatur|références|sources citées|referencias|"
    r"fuentes)[*_ \t]*:?[*_ \t]*",
    re.IGNORECASE,
)
LETTERS = re.compile(r"[^\W\d_]")

LINK = re.compile(r"\b(?:https?://|www\.)([^\s<>\"')\]}|`*]{3,2000})", re.IGNORECASE)
IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\([^)\s]{0,500}\)")
HOST = re.compile(r"(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?=[/:?#]|$)")
MADE_UP_HOST = re.compile(
    r"(?:.*\.)?(?:example\.\w+|\w*your-?\w*\.\w+|.*\.(?:example|invalid|test|localhost)|"
    r"(?:website|site|link|url|domain|placeholder|source|somesite|test)\d?\.(?:com|org|net))"
)
DOI = re.compile(r"\b10\.\d{4,9}/[^\s\"<>)\],;]{1,200}")
OTHER_NUMBER = re.compile(
    r"\b(?:arxiv:\s?\d{4}\.\d{4,5}|pmid:?\s?\d{5,9}|isbn[:\s]\s?[\d-]{9,17}|rfc \d{3,5})",
    re.IGNORECASE,
)
NAME = r"[^\W\d_a-z][^\W\d_][\w'\u2019-]{0,40}"
AUTHOR_YEAR = re.compile(
    rf"\((?:see |cf\. |e\.g\.,? )?({NAME})(?:(?:,? (?:and|&|et al\.?|et al\.,|{NAME})){{1,6}})?,? "
    r"(?:1[5-9]|20)\d\d[a-z]?(?:, pp?\. ?\d+)?[);]"
    rf"|\b({NAME})(?: et al\.?| (?:and|&) {NAME})? \((?:1[5-9]|20)\d\d[a-z]?\)"
)
NO_AUTHOR = re.compile(
    r"(?:january|february|march|april|may|june|july|august|september|october|november|"
    r"december|jan|feb|"
    r"mar|apr|jun|jul|aug|sep|sept|oct|nov|dec|spring|summer|autumn|fall|winter|since|"
    r"in|until|from|year)",
    re.IGNORECASE,
)


def readable(draft: str) -> str:
    """Return what of a draft can cite: no code, no comments, no images, plain brackets."""
    return IMAGE.sub("", without_code(fold(draft)).translate(BRACKETS))


def numbers(text: str) -> list[int]:
    """List the sources cited by number, [1], [2, 3], [4-6] and [^7], without data and years."""
    found = [each for group in _groups(text) for each in _ends(group)]
    notes = [int(each) for each in FOOTNOTE.findall(text) if each.isdecimal()]
    return found + notes


def names_of_notes(text: str) -> list[str]:
    """List the footnotes that are called by a word, as [^smith]."""
    return [each for each in FOOTNOTE.findall(text) if not each.isdecimal()]


def entries(text: str) -> set[str]:
    """Collect the numbers and words under which the text's own references stand."""
    found = {name for name, said in DEFINED_NOTE.findall(text) if _says(said)}
    found |= {number for number, said in ENTRY.findall(text) if _says(said)}
    below = False
    for line in text.split("\n"):
        below = below or HEADING.fullmatch(line) is not None
        listed = LISTED.match(line) if below else None
        if listed and _says(listed[2]):
            found.add(listed[1])
    return found


def links(text: str) -> list[str]:
    """List the links with a real host, without scheme, `www.`, fragment and closing marks."""
    plain = [_plain_link(each) for each in LINK.findall(text)]
    return [each for each in plain if HOST.match(each) and not MADE_UP_HOST.fullmatch(_host(each))]


def dois(text: str) -> list[str]:
    """List the DOIs, in lower case."""
    return [each.rstrip(".").casefold() for each in DOI.findall(text)]


def authors(text: str) -> list[str]:
    """List the first author of each (Smith, 2020) and Smith (2020)."""
    named = [one or other for one, other in AUTHOR_YEAR.findall(text)]
    return [each for each in named if not NO_AUTHOR.fullmatch(each)]


def cites(text: str) -> bool:
    """Say whether a text cites anything at all."""
    return (
        any(each > 0 for each in numbers(text))
        or bool(entries(text) or links(text) or dois(text) or authors(text))
        or OTHER_NUMBER.search(text) is not None
    )


def _groups(text: str) -> Iterator[str]:
    data_end = -1
    for found in NUMBERED.finditer(text):
        before = text[max(0, found.start(2) - 60) : found.end(1)]
        if found.start() == data_end or _is_data(before, found[2], found[3] or ""):
            data_end = found.end()
        elif found[3] != "(https://" and found[3] != "(http://":
            yield found[2]


def _is_data(before: str, group: str, after: str) -> bool:
    glued = before[-1:].isalnum() or before[-1:] == "_"
    if glued and (INDEXED.search(before) or (after and not after.startswith("("))):
        return True
    if "," not in group and ";" not in group:
        return False
    zero = re.search(r"(?:^|\D)0(?:\D|$)", group)
    return bool(zero or SPAN_BEFORE.search(before) or DATA_BEFORE.search(before))


def _ends(group: str) -> list[int]:
    numbers = [int(each) for each in DIGITS.findall(group)]
    return [each for each in numbers if not 1000 <= each < 2200]


def _says(entry: str) -> bool:
    return len(LETTERS.findall(entry[:200])) >= 4


def _plain_link(link: str) -> str:
    bare = link.split("#", 1)[0].removeprefix("www.").rstrip(".,;:!?/")
    host, slash, path = bare.partition("/")
    return host.casefold() + slash + re.sub(r"[?&]utm_[^&]*", "", path).rstrip("/")


def _host(link: str) -> str:
    return re.split(r"[/:?]", link, maxsplit=1)[0]
