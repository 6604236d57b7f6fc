"""A report with its passages: each stands beside the paragraph that cites it."""

from collections.abc import Iterator
from typing import NamedTuple

from markdown_it.token import Token
from markupsafe import Markup

from commands.html.rendering import reader
from mull.multipath import markup
from mull.sheet import Sheet, Text
from mull.text import neutral


class Paragraph(NamedTuple):
    """A part of a report: its HTML, and the passages that it cites, in their order."""

    html: Markup
    passages: tuple[Text, ...]


def cited(sheet: Sheet) -> list[Paragraph]:
    """Take a report apart, which is the sheet's answer; empty without one, or without passages."""
    known = {text.source: text for text in sheet.texts if text.source is not None}
    if sheet.answer is None or sheet.answer.kind != "markdown" or not known:
        return []
    report, found = reader(), list[Paragraph]()
    lines = sheet.answer.content.split("\n")
    for block in _blocks(report.parse(sheet.answer.content)):
        first, last = block[0].map or (0, 0)
        numbers = markup.cited("\n".join(lines[first:last]))
        html = neutral(report.renderer.render(block, report.options, {}))
        passages = tuple(known[number] for number in numbers if number in known)
        found.append(Paragraph(Markup(html), passages))  # noqa: S704 - it escapes what it is given
    return found


def _blocks(tokens: list[Token]) -> Iterator[list[Token]]:
    """Split the tokens of a document into those of its outermost parts."""
    block, depth = list[Token](), 0
    for token in tokens:
        block.append(token)
        depth += token.nesting
        if not depth:
            yield block
            block = []
