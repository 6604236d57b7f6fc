"""The code in a model's reply."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflection.multipath.coding.reading.literals import parsed
from reflection.text import well_formed
from reflection.thinking import after_thought

MOST_FENCES = 200
MOST_PARSED = 200_000

PYTHON = ("py", "{.py")
FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^`\n]*)$")


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Block(NamedTuple):
    """The code between two fences; `python` says that the first one names the language."""

    text: str
    python: bool
    complete: bool


class _Fence(NamedTuple):
    line: int
    indent: str
    mark: str
    info: str


def extract_code(text: str, entry: str | None = None) -> str | None:
    """Return the code of a reply; None where there is none. Never raises.

    That is the last complete block that defines `entry`, else the longest complete one that defines
    a function or a class which is no test, else the longest, else what stands after a fence that is
    never closed. Blocks of another language are none, and blocks
    without a name count where none is named Python. A fence within a docstring ends no block as
    long as what stands before it is no Python. A text without fences is code where it parses and
    is more than words.
    """
    said = after_thought(well_formed(text).replace("\r\n", "\n"))
    blocks = _blocks(said.split("\n"))
    if blocks is None:
        return said.strip("\n") + "\n" if _is_program(said) else None
    named = [each for each in blocks if each.python] or blocks
    whole = [each for each in named if each.complete] or named
    defining = [each for each in whole if entry and entry in _defined(each.text)]
    chosen = defining[-1] if defining else _longest(whole)
    return chosen.text if chosen and chosen.text.strip() else None


def _blocks(lines: Sequence[str]) -> list[Block] | None:
    """List the blocks that may be Python; None where the text has no fence at all."""
    fences = list(_fences(lines))[:MOST_FENCES]
    blocks, at, left = [], 0, MOST_PARSED
    while at < len(fences):
        first = fences[at]
        closing = [n for n in range(at + 1, len(fences)) if _closes(first, fences[n])]
        language = first.info.split(" ")[0].lower()
        may_be = not language or language.startswith(PYTHON)
        end, left = _parsing(lines, fences, at, closing, left) if may_be else (None, left)
        end = end or next(iter(closing), None)
        if may_be:
            blocks.append(_block(lines, fences, at, end, bool(language)))
        at = end + 1 if end is not None else len(fences)
    return blocks if fences else None


def _fences(lines: Sequence[str]) -> Iterator[_Fence]:
    for number, line in enumerate(lines):
        found = FENCE.match(line) if len(line) < 200 else None
        if found:
            yield _Fence(number, found[1], found[2], found[3].strip())


def _closes(first: _Fence, last: _Fence) -> bool:
    return not last.info and last.mark.startswith(first.mark)


def _parsing(
    lines: Sequence[str], fences: Sequence[_Fence], start: int, closing: Sequence[int], left: int
) -> tuple[int | None, int]:
    """Find the first fence that what stands before it is Python, and what is left to parse."""
    for each in closing:
        text = _between(lines, fences[start], fences[each].line)
        left -= len(text)
        if left < 0:
            break
        if parsed(text, "exec") is not None:
            return each, left
    return None, left


def _block(
    lines: Sequence[str], fences: Sequence[_Fence], start: int, end: int | None, python: bool
) -> Block:
    last = len(lines) if end is None else fences[end].line
    return Block(_between(lines, fences[start], last), python, end is not None)


def _between(lines: Sequence[str], first: _Fence, last: int) -> str:
    kept = [each.removeprefix(first.indent) for each in lines[first.line + 1 : last]]
    return "\n".join(kept).strip("\n") + "\n"


def _is_program(text: str) -> bool:
    return any(not _is_words(each) for each in _statements(text))


def _is_words(node: ast.stmt) -> bool:
    """Tell whether a statement does nothing, as a sentence may that happens to parse."""
    return isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call)


def _longest(blocks: Sequence[Block]) -> Block | None:
    making = [each for each in blocks if _makes(each.text)]
    return max(making or blocks, key=lambda each: len(each.text), default=None)


def _makes(text: str) -> bool:
    """Tell whether a block defines what others may call: a function or a class, and no test."""
    found = (each.name for each in _statements(text) if isinstance(each, Definition))
    return any(not name.lower().startswith("test") for name in found)


def _defined(text: str) -> set[str]:
    return {name for each in _statements(text) for name in _names(each)}


def _statements(text: str) -> Sequence[ast.stmt]:
    tree = parsed(text, "exec")
    return tree.body if isinstance(tree, ast.Module) else []


def _names(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {each.id for each in targets if isinstance(each, ast.Name)}
    return set()
