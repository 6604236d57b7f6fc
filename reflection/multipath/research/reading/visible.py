"""A report's Markdown without what hides text: no comments, no HTML, no block left open."""

import re
from collections.abc import Callable, Iterator

from reflection.critique.guardrails.prose import BACKQUOTES, FENCE
from reflection.multipath.research.reading.links import (
    UNESCAPED,
    harmless,
    undefined,
    without_images,
)
from reflection.text import well_formed

COMMENT = re.compile(rf"{UNESCAPED}(?=<!--)")
HARMLESS = r"/?(?:br|sub|sup|b|i|em|strong|kbd|u)\s{0,8}/?>|https?://|mailto:"
MARKUP = re.compile(
    rf"{UNESCAPED}<(?!{HARMLESS})(?=[!?]|/?[a-z][\w:-]*+(?:[\s/>]|$)|[a-z][a-z0-9+.-]*+:)",
    re.IGNORECASE,
)
BACKQUOTE = re.compile(rf"{UNESCAPED}`")
CODE_COLUMNS = 4
QUOTE_MARKS = " \t>"


def visible(report: str) -> str:
    r"""Return a report in which all stands as it is shown, in linear time.

    Comments are left out, and one that is never closed is shown. Other HTML becomes text, but for
    a few marks of letters such as `<sub>`; so do images, and links that are neither relative nor
    begin with http, https or mailto. A code fence that is never closed is closed at the end. Code
    stays as it is, where it is code for every reader. Lines end with `\n`.
    """
    text = "\n".join(well_formed(report).splitlines())
    kept, mark = [], ""
    for line in _without_comments(text).split("\n"):
        before = mark
        mark, code = fence_after(line, mark)
        kept.append(_fenced(line, before or mark) if code else undefined(_outside(line)))
    # A block in a quotation ends with the quotation.
    open_fence = mark and ">" not in mark
    return "\n".join([*kept, mark] if open_fence else kept).strip("\n")


def fence_after(line: str, mark: str) -> tuple[str, bool]:
    """Return the fence that is open after a line, and whether the line is a part of code.

    `mark` is the fence that was open before it, with its indentation; empty where none was.
    """
    fence = FENCE.fullmatch(line.rstrip("\n")) if "```" in line or "~~~" in line else None
    if mark and (">" not in mark or line.lstrip().startswith(">")):
        bare = mark.lstrip(QUOTE_MARKS)
        closes = fence is not None and fence[1].startswith(bare) and not fence[2].strip()
        return "" if closes else mark, True
    return (line[: fence.end(1)], True) if fence else ("", False)


def outside_code(line: str, change: Callable[[str], str], code: str | None = None) -> str:
    """Change the parts of a line that are no inline code, and put `code` for those that are."""
    kept, place = [], 0
    for start, end in _code_spans(line):
        kept += [change(line[place:start]), line[start:end] if code is None else code]
        place = end
    return "".join([*kept, change(line[place:])])


def without_code(text: str) -> str:
    """Return a text of the same length with blanks in the place of code."""
    lines, mark = [], ""
    for line in text.split("\n"):
        mark, code = fence_after(line, mark)
        lines.append(" " * len(line) if code else _masked(line))
    return "\n".join(lines)


def _fenced(line: str, mark: str) -> str:
    """Make images and links text in a fence that some take for indented text, or for closed."""
    columns = _columns(mark)
    sure = columns < CODE_COLUMNS and _columns(line) >= columns
    return line if sure else harmless(without_images(line))


def _columns(line: str) -> int:
    return len(line) - len(line.lstrip(QUOTE_MARKS))


def _outside(line: str) -> str:
    kept, place = [], 0
    for start, end in _code_spans(line):
        inside = line[start:end].strip("`")
        # The cells of a table end before code does.
        if "|" not in inside or _inert(inside) == inside:
            kept += [_inert(line[place:start]), line[start:end]]
            place = end
    return "".join([*kept, _inert(line[place:])])


def _inert(text: str) -> str:
    # A backquote that is left could begin code that ends in another line.
    marked = BACKQUOTE.sub(r"\1\\`", MARKUP.sub(r"\1\\<", text))
    return harmless(without_images(marked))


def _without_comments(text: str) -> str:
    kept, place = [], 0
    for start, end in _comments(text):
        kept.append(text[place:start])
        place = end
    return "".join([*kept, text[place:]])


def _comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each comment outside of code begins and ends, if it ends."""
    last, begin, done, mark = text.rfind("-->"), 0, 0, ""
    for line in text.splitlines(keepends=True):
        first, begin = begin, begin + len(line)
        mark, code = fence_after("" if first < done else line, mark)
        if code or begin <= done:
            continue
        for found in COMMENT.finditer(_masked(line)):
            start = first + found.end()
            if done <= start and start + 4 <= last:
                done = text.find("-->", start + 4) + 3
                yield start, done


def _masked(line: str) -> str:
    kept, place = [], 0
    for start, end in _code_spans(line):
        kept += [line[place:start], " " * (end - start)]
        place = end
    return "".join([*kept, line[place:]])


def _code_spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield where each inline code of a line begins and ends, in linear time."""
    runs = list(BACKQUOTES.finditer(line))
    later: dict[int, list[re.Match[str]]] = {}
    for run in reversed(runs):
        later.setdefault(len(run[0]), []).append(run)
    place = 0
    for run in runs:
        later[len(run[0])].pop()
        start = run.start() + _escaped(line, place, run.start())
        same = later.get(run.end() - start)
        if start >= place and same:
            place = same[-1].end()
            yield start, place


def _escaped(line: str, place: int, at: int) -> bool:
    """Tell whether the character there is escaped by what stands before it, outside of code."""
    before = line[place:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1
