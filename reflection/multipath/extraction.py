"""The code in a model's reply, and the examples in a prompt."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflection.multipath.cases import (
    called,
    calls,
    case_of,
    equation,
    is_literal,
    parsed,
    statements,
    unparsed,
)
from reflection.multipath.suite import Case
from reflection.replies import after_thought
from reflection.text import well_formed

MOST_FENCES = 200
MOST_PARSED = 200_000
MOST_CASES = 20
EXAMPLE_CHARACTERS = 500
OUTPUT_LINES = 10

PYTHON = ("py", "{.py")
FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^`\n]*)$")
BULLET = re.compile(r"^(?:[-*+]|\d{1,3}[.)])\s+")
# A single equals sign is not one: it is as often a definition as an example.
ARROW = re.compile(r"->|==>|=>|→|➞|⇒|\s(?:should )?returns?\s")
DEFINED = re.compile(r"^[ \t]*(?:async )?(?:def|class) +([A-Za-z_]\w*)", re.MULTILINE)
SESSION = ">>>"
ENDS_OUTPUT = (SESSION, "...", '"""', "'''", "```")
# Spellings of other languages.
TRUTHS = {"true": "True", "false": "False"}


class Block(NamedTuple):
    """The code between two fences; `python` is true if the fence names Python."""

    text: str
    python: bool
    complete: bool


class _Fence(NamedTuple):
    line: int
    indent: str
    mark: str
    info: str

    def closes(self, first: "_Fence") -> bool:
        return not self.info and self.mark.startswith(first.mark)


def extract_code(text: str, entry: str | None = None) -> str | None:
    """Return the code of a reply; None if there is none. Never raises.

    That is the last complete block that defines `entry`, else the longest complete block that
    defines a function or class other than a test, else the longest block, else the text after a
    fence that is never closed. Blocks in other languages are left out, and unnamed blocks count
    only if no block is named Python. A fence inside a docstring does not end its block: the text
    before it does not parse. A text without fences is code if it parses as a program.
    """
    said = after_thought(well_formed(text).replace("\r\n", "\n"))
    lines = said.split("\n")
    fences = list(_fences(lines))[:MOST_FENCES]
    if not fences:
        return said.strip("\n") + "\n" if _is_program(said) else None
    blocks = _blocks(lines, fences)
    named = [block for block in blocks if block.python] or blocks
    whole = [block for block in named if block.complete] or named
    defining = [block for block in whole if entry and entry in _defined(block.text)][-1:]
    best = defining or [block for block in whole if _makes(block.text)] or whole
    code = max((block.text for block in best), key=len, default="")
    return code if code.strip() else None


def _fences(lines: Sequence[str]) -> Iterator[_Fence]:
    for number, line in enumerate(lines):
        found = FENCE.match(line) if len(line) < 200 else None
        if found:
            yield _Fence(number, found[1], found[2], found[3].strip())


def _blocks(lines: Sequence[str], fences: Sequence[_Fence]) -> list[Block]:
    """List the blocks that may be Python."""
    blocks, at, left = [], 0, MOST_PARSED
    while at < len(fences):
        first = fences[at]
        language = first.info.split(" ")[0].lower()
        may_be = not language or language.startswith(PYTHON)
        closing = [n for n in range(at + 1, len(fences)) if fences[n].closes(first)]
        end = closing[0] if closing else None
        # End at the first fence before which the text parses, within the limit on parsing.
        for number in closing if may_be else ():
            text = _between(lines, first, fences[number].line)
            left -= len(text)
            if left < 0:
                break
            if parsed(text, "exec") is not None:
                end = number
                break
        if may_be:
            last = len(lines) if end is None else fences[end].line
            blocks.append(Block(_between(lines, first, last), bool(language), end is not None))
        at = len(fences) if end is None else end + 1
    return blocks


def _between(lines: Sequence[str], first: _Fence, last: int) -> str:
    kept = [line.removeprefix(first.indent) for line in lines[first.line + 1 : last]]
    return "\n".join(kept).strip("\n") + "\n"


def _is_program(text: str) -> bool:
    """Tell whether any statement does something; a sentence that happens to parse does not."""
    return any(
        not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call)
        for node in statements(text)
    )


def _makes(text: str) -> bool:
    """Tell whether a block defines a function or class that is not a test."""
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.lower().startswith("test")
        for node in statements(text)
    )


def _defined(text: str) -> set[str]:
    names: set[str] = set()
    for node in statements(text):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def examples(prompt: str, entry: str | None) -> tuple[Case, ...]:
    """Read the examples of a prompt, at most MOST_CASES, in their order.

    They are sessions (`>>> f(2)` followed by its output), lines `f(2) == 4` with or without
    `assert`, and `f(2) -> 4`, also written `returns`. The value must be a literal, and the call one
    of `entry`; if that is None, of the function that the first example calls (one that the prompt
    defines, if it defines any). Of two examples with the same call the first one counts.
    """
    defined = set(DEFINED.findall(prompt))
    found: dict[str, Case] = {}
    for case in _cases(prompt.splitlines()):
        names = [entry] if entry else called(case.call)
        name = next((name for name in names if entry or not defined or name in defined), None)
        if name is not None and calls(case.call, name, defined):
            entry = name
            found.setdefault(case.call, case)
    return tuple(found.values())[:MOST_CASES]


def _cases(lines: Sequence[str]) -> Iterator[Case]:
    for number, line in enumerate(lines):
        text = BULLET.sub("", line.strip()).strip("`").strip()
        if not 3 < len(text) <= EXAMPLE_CHARACTERS:
            continue
        if text.startswith(SESSION):
            said = text.removeprefix(SESSION).strip()
            case = _session(said, lines[number + 1 : number + 1 + OUTPUT_LINES])
        else:
            case = _line(text)
        if case is not None:
            yield case


def _session(said: str, after: Sequence[str]) -> Case | None:
    """Read the output after a session's input: all of its lines, or the first."""
    output: list[str] = []
    for line in after:
        if not line.strip() or line.strip().startswith(ENDS_OUTPUT):
            break
        output.append(line.strip())
    return _case(said, "\n".join(output), *output[:1]) if output else _line(said)


def _line(text: str) -> Case | None:
    arrows = list(ARROW.finditer(text))
    for arrow in arrows:
        value = text[arrow.end() :].strip().rstrip(",;").strip("`")
        bare = value.rstrip(".")
        call = text[: arrow.start()].strip().strip("`")
        if case := _case(call, value, bare, TRUTHS.get(bare, "")):
            return case
    match statements(text) if "==" in text else ():
        case [ast.Assert(test=said)] | [ast.Expr(value=said)]:
            return equation(said)
    return None


def _case(call: str, *values: str) -> Case | None:
    """Make a test from a call and the first of the values that is a literal."""
    expected = next((value for value in values if is_literal(value)), None)
    if expected is None or parsed(call, "eval") is None:
        return None
    return case_of(_bare(call), _bare(expected))


def _bare(text: str) -> str:
    """Write an expression on one line, without a trailing comment."""
    tree = parsed(text, "eval")
    return (unparsed(tree) if tree else None) or text
