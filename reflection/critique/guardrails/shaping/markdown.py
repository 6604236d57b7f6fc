"""Markdown that shows wrongly."""

import re
from collections.abc import Callable

from reflection.critique.guardrails.prose import fenced_blocks, without_code

DELIMITER_ROW = re.compile(r"[ \t]*\|?[ \t]*:?-{1,}:?[ \t]*(?:\|[ \t]*:?-{1,}:?[ \t]*)*\|?[ \t]*")
OPEN_TARGET = re.compile(
    r"\]\((?=https?://|[/#.]|mailto:)[^()\n]{0,2000}(?:\([^()\n]{0,300}\)[^()\n]{0,300})?$"
)
OPEN_TEXT = re.compile(r"!?\[[^\[\]()\n]{1,200}\(https?://[^\s()\]]{1,1000}\)(?!.{0,200}\])")
GLUED_HEADING = re.compile(r"#{2,6}[^\s#]")
ESCAPED_OR_CODE = re.compile(r"\\.|(`+)[^`]*\1")


def broken_markdown(draft: str) -> str | None:
    """Say what of a draft's Markdown shows wrongly, and where; None where nothing does.

    A fence or a comment that is never closed, a row of a table with another number of columns
    than its header, a link or image with an open bracket, a heading without a space after `##`.
    """
    for block in fenced_blocks(draft):
        if not block.closed:
            return f"line {block.line - 1}: the code fence is never closed"
    unopened = without_code(draft.replace("<!--", "<!="))
    if draft.rfind("<!--") > draft.rfind("-->") and "<!=" in unopened:
        return "an HTML comment is never closed, and hides the rest"
    return _broken_line(draft) or _broken_table(draft)


def _lines(draft: str) -> list[str]:
    """Blank the lines of fenced blocks, so that the others keep their numbers."""
    lines = draft.split("\n")
    for block in fenced_blocks(draft):
        for number in range(block.line - 1, block.line + block.text.count("\n") + 1):
            if number < len(lines):
                lines[number] = ""
    return lines


def _broken_line(draft: str) -> str | None:
    checks: list[tuple[Callable[[str], object], str]] = [
        (OPEN_TARGET.search, "the address of a link is never closed by )"),
        (OPEN_TEXT.search, "the text of a link is never closed by ]"),
        (GLUED_HEADING.match, "a heading needs a space after its #"),
    ]
    for number, line in enumerate(_lines(draft), 1):
        if not line:
            continue
        shown = without_code(line) if "`" in line else line
        for wrong, reason in checks:
            if wrong(shown):
                return f"line {number}: {reason}"
    return None


def _broken_table(draft: str) -> str | None:
    lines = _lines(draft)
    for at in range(1, len(lines)):
        if (
            "|" not in lines[at]
            or "|" not in lines[at - 1]
            or not DELIMITER_ROW.fullmatch(lines[at])
        ):
            continue
        columns = _columns(lines[at - 1])
        for number in range(at, len(lines)):
            if "|" not in lines[number]:
                break
            if _columns(lines[number]) != columns:
                has = _columns(lines[number])
                return f"line {number + 1}: the table row has {has} columns, its header {columns}"
    return None


def _columns(row: str) -> int:
    bare = ESCAPED_OR_CODE.sub("x", row).strip()
    return bare.removeprefix("|").removesuffix("|").count("|") + 1
