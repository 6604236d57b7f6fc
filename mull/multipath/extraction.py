"""The code in a model's reply, and the examples in a prompt."""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from mull.multipath import cases
from mull.multipath.suite import Case
from mull.replies import after_thought
from mull.text import well_formed

MOST_BLOCKS = 100
MOST_CASES = 20
EXAMPLE_CHARACTERS = 500
OUTPUT_LINES = 10

PYTHON = ("py", "{.py")
OPENING = r"^([ \t]*+)(`{3,}+|~{3,}+)[ \t]*+([^`\n]*+)$\n?"
CLOSING = r"^[ \t]*+\2[`~]*+[ \t]*+$"
BLOCK = re.compile(rf"{OPENING}(.*?)({CLOSING}|\Z)", re.MULTILINE | re.DOTALL)
WIDEST = re.compile(rf"{OPENING}(.*)({CLOSING})", re.MULTILINE | re.DOTALL)
BULLET = re.compile(r"^(?:[-*+]|\d{1,3}[.)])\s+")
# A single equals sign is not one: it is as often a definition as an example.
ARROW = re.compile(r"->|==>|=>|→|➞|⇒|\s(?:should )?returns?\s")
DEFINED = re.compile(r"^[ \t]*(?:async )?(?:def|class) +([A-Za-z_]\w*)", re.MULTILINE)
SESSION = ">>>"
ENDS_OUTPUT = (SESSION, "...", '"""', "'''", "```")
# Spellings of other languages.
TRUTHS = {"true": "True", "false": "False"}


class CodeBlock(NamedTuple):
    """The code between two fences; `python` is true if the fence names Python."""

    text: str
    python: bool
    complete: bool


def extract_code(text: str, entry: str | None = None) -> str | None:
    """Return the code of a reply; None if there is none. Never raises.

    That is all between the first fence and the last, if it parses: a fence in a docstring does not
    end a block. Else it is the last complete block that defines `entry`, else the longest complete
    block that defines a function or class other than a test, else the longest block, else the text
    after a fence that is never closed. Blocks in other languages are left out, and unnamed blocks
    count only if no block is named Python. A text without fences is code if it parses as a program.
    """
    said = after_thought(well_formed(text).replace("\r\n", "\n"))
    first = BLOCK.search(said)
    if first is None:
        # A sentence that happens to parse does nothing.
        acts = any(
            not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call)
            for node in cases.statements(said)
        )
        return said.strip("\n") + "\n" if acts else None
    widest = WIDEST.match(said, first.start())
    if widest is not None and cases.statements(_block(widest).text):
        found = [widest]
    else:
        found = list(islice(BLOCK.finditer(said), MOST_BLOCKS))
    blocks = [_block(one) for one in found if not one[3] or one[3].lower().startswith(PYTHON)]

    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

    def rank(numbered: tuple[int, CodeBlock]) -> tuple[bool, bool, int, bool, int]:
        number, block = numbered
        names = [node.name for node in cases.statements(block.text) if isinstance(node, kinds)]
        asked = number if entry in names else 0
        makes = any(not name.lower().startswith("test") for name in names)
        return block.python, block.complete, asked, makes, len(block.text)

    _, best = max(enumerate(blocks, 1), key=rank, default=(0, None))
    return best.text if best is not None and best.text.strip() else None


def _block(found: re.Match[str]) -> CodeBlock:
    indent, text = found[1], found[4]
    kept = "\n".join(line.removeprefix(indent) for line in text.split("\n")).strip("\n")
    return CodeBlock(f"{kept}\n", bool(found[3].strip()), bool(found[5]))


def examples(prompt: str, entry: str | None) -> tuple[Case, ...]:
    """Read the examples of a prompt, at most MOST_CASES, in their order.

    They are sessions (`>>> f(2)` followed by its output), lines `f(2) == 4` with or without
    `assert`, and `f(2) -> 4`, also written `returns`. The value must be a literal, and the call one
    of `entry`; if that is None, of the function that the first example calls (one that the prompt
    defines, if it defines any). Of two examples with the same call the first one counts. One that
    uses another function of the prompt as well runs beside the code.
    """
    defined = set(DEFINED.findall(prompt))
    found: dict[str, Case] = {}
    for case in _cases(prompt.splitlines()):
        names = [entry] if entry else cases.called(case.call)
        name = next((name for name in names if entry or not defined or name in defined), None)
        if name is None or case.call in found:
            continue
        alone = cases.calls(case.call, name)
        if alone or cases.calls(case.call, name, defined):
            entry = name
            found[case.call] = case.model_copy(update={"beside": not alone})
    return tuple(found.values())[:MOST_CASES]


def _cases(lines: Sequence[str]) -> Iterator[Case]:
    for number, line in enumerate(lines):
        text = BULLET.sub("", line.strip()).strip("`").strip()
        if not 3 < len(text) <= EXAMPLE_CHARACTERS:
            continue
        if text.startswith(SESSION):
            said = text.removeprefix(SESSION).strip()
            after = [row.strip() for row in lines[number + 1 : number + 1 + OUTPUT_LINES]]
            ends = (n for n, row in enumerate(after) if not row or row.startswith(ENDS_OUTPUT))
            output = after[: next(ends, len(after))]
            # All lines of the output count, or else the first.
            whole = "\n".join(output)
            case = _case(said, whole, output[0]) if output else _line(said)
        else:
            case = _line(text)
        if case is not None:
            yield case


def _line(text: str) -> Case | None:
    arrows = list(ARROW.finditer(text))
    for arrow in arrows:
        value = text[arrow.end() :].strip().rstrip(",;").strip("`")
        bare = value.rstrip(".")
        call = text[: arrow.start()].strip().strip("`")
        if case := _case(call, value, bare, TRUTHS.get(bare, "")):
            return case
    match cases.statements(text) if "==" in text else ():
        case [ast.Assert(test=said)] | [ast.Expr(value=said)]:
            return cases.equation(said)
    return None


def _case(call: str, *values: str) -> Case | None:
    """Make a test from a call and the first of the values that is a literal."""
    expected = next((value for value in values if cases.is_literal(value)), None)
    if expected is None or cases.parsed(call, "eval") is None:
        return None
    return cases.case_of(_bare(call), _bare(expected))


def _bare(text: str) -> str:
    """Write an expression on one line, without a trailing comment."""
    tree = cases.parsed(text, "eval")
    return (cases.unparsed(tree) if tree else None) or text
