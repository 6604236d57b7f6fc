"""What a text cites: numbers, footnotes, links, DOIs, authors with years, lists."""

import re
from collections.abc import Iterable, Iterator

NUMBERED = re.compile(
    r"\[ ?(?:(?:source|ref|doc"
    r"|#)\.?:? ?)?(\d{1,3}(?: ?[,;–-] ?\d{1,3}){0,30})(?:†[^\]\n]{0,60})? ?\]"
    r"(\(|\[(?!\d{1,3}\])|[*+?{=]|\.\w| ?=)?",
    re.IGNORECASE,
)
BRACKETS = str.maketrans("【】\u3014\u3015\uff3b\uff3d", "[][][]")
DATA = re.compile(
    r"(?:\b(?i:lists?|arrays?|vectors?|tuples?|matri\w+|sequences?|sets?|(?:in|out)puts?|returns?"
    r"|gives"
    r"|values?|intervals?|range|between|scale|domain|in|sort(?:ed)?|ind\w+|regex\w*|pattern"
    r"|match\w*"
    r"|digits?|items?|nums?|arg[sv]|data|rows?|stack|queue|result|liste|intervall[eo]?|bereich)"
    r"|\w*[_\d]|\b\w|[a-z][A-Z]\w*|[=∈→(\[{:|])\s*$"
)
FOOTNOTE = re.compile(r"(?<=[\w.,;!?\"')\]])\[\^(\d{1,3}|[a-z]\w{3,30})\](?!:)", re.IGNORECASE)
LINK = re.compile(r"\b(?:https?://|www\.)[^\s<>\"')\]}|`*]{3,2000}", re.IGNORECASE)
HOST = re.compile(
    r"(?!(?:[\w-]{1,63}\.){0,4}(?:example\.|your-|\w{1,60}\.(?:example|invalid|test)\b))"
    r"(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?=[/:?]|$)"
)
DOI = re.compile(r"\b10\.\d{4,9}/[^\s\"<>)\],;]{1,200}")
AUTHOR_OR_LIST = re.compile(
    r"\b(?!(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|spring|summer|autumn|winter|since|in|"
    r"until|from|year|by))[^\W\d_]{2,40}(?: et al\.?| (?:and|&|und|et|y) [^\W\d_]{2,40})?,? "
    r"\(?(?:1[5-9]|20)\d\d[a-z]?[);]|\b(?:arxiv:\s?|pmid:?\s?|isbn[:\s]\s?|rfc )\d{3}"
    r"|^[#*_ ]*(?:references|sources|bibliography|works cited|quellen|literatur|références|fuentes)"
    r"[*_ ]*:?[*_ ]*\n+[ \t]*(?:[-*+]|\[?\d+[\].)])?[ \t]*[^\W\d]",
    re.IGNORECASE | re.MULTILINE,
)


def cited_numbers(text: str) -> Iterator[tuple[int, bool]]:
    """List the sources that are cited by number, and whether each stands alone in its brackets."""
    for found in NUMBERED.finditer(text):
        listed = [int(number) for number in re.findall(r"\d+", found[1])]
        before = text[max(0, found.start() - 30) : found.start()]
        data = found[2] or 0 in listed or (before[-1:] != "]" and DATA.search(before))
        if not data and listed == sorted(set(listed)):
            yield from ((number, len(listed) == 1) for number in listed)


def addresses(text: str, links: Iterable[str]) -> Iterator[str]:
    """List links with a real host, without scheme, fragment and query, and DOIs."""
    for link in [*LINK.findall(text), *links]:
        bare = re.sub(r"^(?:https?://)?(?:www\.)?", "", link.casefold())
        bare = re.split(r"[#?]", bare, maxsplit=1)[0].rstrip(".,;:!/")
        if HOST.match(bare):
            yield bare
    yield from (doi.rstrip(".").casefold() for doi in DOI.findall(text))
