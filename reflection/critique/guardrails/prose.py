"""What of a draft is text: without code, comments, markup and characters that nobody sees."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from unicodedata import normalize

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
QUOTES = str.maketrans("\u2018\u2019\u201a\u201b\u2032\u00b4“”„‟«»", "''''''\"\"\"\"\"\"")
FENCE = re.compile(r"[ \t>]{0,12}(`{3,}|~{3,})([^`]*)")
BULLET = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")
BACKQUOTES = re.compile("`+")
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>")
TARGET = re.compile(r"(?<=\])\([^()\s]{0,2000}(?:\s+\"[^\"\n]{0,200}\")?\)")
MARKUP = re.compile(
    r"^[ \t]*(?:#{1,6}(?=\s)|>+|[-*+•](?=\s)|[-*_=|: \t]{3,}$)|[*_~`|\\]+", re.MULTILINE
)
# Scripts without spaces between words: each character is a word.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:['.,:][^\W_{UNSPACED}]+)*")


class Fenced(NamedTuple):
    """A fenced block: its language as written, its text, its first line from 1, and its end."""

    language: str
    text: str
    line: int
    closed: bool


class _Split(NamedTuple):
    prose: list[str]
    blocks: list[Fenced]


def fold(text: str) -> str:
    """Bring spellings of one character to one: NFKC, straight quotes, nothing invisible."""
    if text.isascii():
        return text
    return normalize("NFKC", INVISIBLE.sub("", text)).translate(QUOTES)


def words(text: str) -> list[str]:
    """List the words in lower case; in scripts without spaces each character is one."""
    return WORD.findall(fold(text).casefold())


def fenced_blocks(text: str) -> list[Fenced]:
    """List the fenced code blocks; one that is never closed reaches to the end."""
    return _split(text).blocks


def without_code(text: str) -> str:
    """Return the lines outside of code blocks, without inline code and HTML comments.

    The lines of an indented block count as code too, except below a list item.
    """
    lines = _split(without_comments(text)).prose
    return "\n".join(
        _without_inline(each) if "`" in each else each for each in _not_indented(lines)
    )


def without_fences(text: str) -> str:
    """Return the lines outside of fenced blocks."""
    return "\n".join(_split(text).prose)


def without_comments(text: str) -> str:
    """Remove HTML comments, which no reader sees; one that is never closed hides the rest."""
    kept, place = [], 0
    while (start := text.find("<!--", place)) >= 0:
        kept.append(text[place:start])
        end = text.find("-->", start + 4)
        place = len(text) if end < 0 else end + 3
    return "".join([*kept, text[place:]])


def without_markup(text: str) -> str:
    """Remove comments, tags, link targets and Markdown's signs; code keeps its words."""
    shown = TARGET.sub("", TAG.sub("", fold(without_comments(text))))
    return MARKUP.sub("", shown)


def _split(text: str) -> _Split:
    prose: list[str] = []
    blocks: list[Fenced] = []
    mark, language, inside, first = "", "", list[str](), 0
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line) if "```" in line or "~~~" in line else None
        if not mark:
            if fence is None:
                prose.append(line)
            else:
                mark, language, inside, first = fence[1], fence[2].strip(), [], number + 1
        elif fence and fence[1].startswith(mark) and not fence[2].strip():
            blocks.append(Fenced(language, "\n".join(inside), first, closed=True))
            mark = ""
        else:
            inside.append(line)
    if mark:
        blocks.append(Fenced(language, "\n".join(inside), first, closed=False))
    return _Split(prose, blocks)


def _not_indented(lines: list[str]) -> Iterator[str]:
    in_list, code, blank = False, False, True
    for line in lines:
        if not line.strip():
            blank = True
            yield line
            continue
        indented = line.startswith(("    ", "\t"))
        in_list = bool(BULLET.match(line)) or (in_list and indented)
        code = indented and not in_list and (code or blank)
        blank = False
        if not code:
            yield line


def _without_inline(line: str) -> str:
    runs = list(BACKQUOTES.finditer(line))
    later: dict[int, list[re.Match[str]]] = {}
    for run in reversed(runs):
        later.setdefault(len(run[0]), []).append(run)
    kept, place = [], 0
    for run in runs:
        same = later[len(run[0])]
        same.pop()
        if run.start() < place or not same:
            continue
        kept.append(line[place : run.start()])
        place = same[-1].end()
    return "".join([*kept, line[place:]])
