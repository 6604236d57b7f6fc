"""A report's Markdown without what hides text: no comments, no HTML, no block left open."""

import re
from collections.abc import Callable, Iterator

from reflection.critique.guardrails.prose import BACKQUOTES, FENCE
from reflection.plain import well_formed

UNESCAPED = r"(?<!\\)((?:\\\\)*)"
COMMENT = re.compile(rf"{UNESCAPED}(?=<!--)")
HARMLESS = r"/?(?:br|sub|sup|b|i|em|strong|kbd|u)\s{0,8}/?>|https?://|mailto:"
MARKUP = re.compile(
    rf"{UNESCAPED}<(?!{HARMLESS})(?=[!?]|/?[a-z][\w:-]{{0,40}}(?:[\s/>]|$))", re.IGNORECASE
)
QUOTE_MARKS = " \t>"


def visible(report: str) -> str:
    r"""Return a report in which all stands as it is shown, in linear time.

    Comments are left out, and one that is never closed is shown. Other HTML becomes text, but for
    a few marks of letters such as `<sub>`. A code fence that is never closed is closed at the
    end. Code stays as it is. Lines end with `\n`.
    """
    text = "\n".join(well_formed(report).splitlines())
    kept, mark = [], ""
    for line in _without_comments(text).split("\n"):
        mark, code = fence_after(line, mark)
        kept.append(line if code else outside_code(line, _inert))
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


def _inert(text: str) -> str:
    return MARKUP.sub(r"\1\\<", text)


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
        same = later[len(run[0])]
        same.pop()
        if run.start() >= place and same:
            place = same[-1].end()
            yield run.start(), place
