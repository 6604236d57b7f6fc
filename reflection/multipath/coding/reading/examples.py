"""The examples that a prompt gives: calls with the values that they shall have."""

import ast
import re
from collections.abc import Iterator, Sequence

from reflection.multipath.coding.reading.calling import called, calls, case_of, equation
from reflection.multipath.coding.reading.literals import is_literal, parsed, unparsed
from reflection.multipath.coding.suite import Case

MOST_CASES = 20
LINE = 500
OUTPUT_LINES = 10

BULLET = re.compile(r"^(?:[-*+]|\d{1,3}[.)])\s+")
# A single equals sign is none of them: it defines as often as it gives an example.
ARROW = re.compile(r"->|==>|=>|→|➞|⇒|\s(?:should )?returns?\s")
DEFINED = re.compile(r"^[ \t]*(?:async )?(?:def|class) +([A-Za-z_]\w*)", re.MULTILINE)
SESSION = ">>>"
# As many languages write what Python begins with a capital.
TRUTHS = {"true": "True", "false": "False"}
ENDS_OUTPUT = (SESSION, "...", '"""', "'''", "```")


def examples(prompt: str, entry: str | None) -> tuple[Case, ...]:
    """Read the examples of a prompt, at most MOST_CASES, in their order.

    They are sessions (`>>> f(2)` and the output after it), lines `f(2) == 4` with or without an
    `assert`, and `f(2) -> 4`, also with `returns`. The value is a literal, and the call is of
    `entry`; where nobody says what that is, of the function that the first example calls, which
    is one that the prompt defines if it defines any. Of two examples with the same call the first
    one counts.
    """
    defined = set(DEFINED.findall(prompt))
    found: dict[str, Case] = {}
    for case in _cases(prompt.splitlines()):
        name = entry or _asked_for(case, defined)
        if name is not None and calls(case.call, name, defined):
            entry = name
            found.setdefault(case.call, case)
    return tuple(found.values())[:MOST_CASES]


def _asked_for(case: Case, defined: set[str]) -> str | None:
    names = (each for each in called(case.call) if not defined or each in defined)
    return next(names, None)


def _cases(lines: Sequence[str]) -> Iterator[Case]:
    for number, line in enumerate(lines):
        text = BULLET.sub("", line.strip()).strip("`").strip()
        if not 3 < len(text) <= LINE:
            continue
        if text.startswith(SESSION):
            said = text.removeprefix(SESSION).strip()
            yield from _session(said, lines[number + 1 : number + 1 + OUTPUT_LINES])
        else:
            yield from _line(text)


def _session(said: str, after: Sequence[str]) -> Iterator[Case]:
    """Read the output after an input of a session: all of its lines, or the first one."""
    output: list[str] = []
    for line in after:
        if not line.strip() or line.strip().startswith(ENDS_OUTPUT):
            break
        output.append(line.strip())
    forms = ("\n".join(output), *output[:1])
    expected = next((each for each in forms if is_literal(each)), None)
    if expected is not None and parsed(said, "eval") is not None:
        yield case_of(_bare(said), _bare(expected))
    elif not output:
        yield from _line(said)


def _line(text: str) -> Iterator[Case]:
    pointed = [_pointed(text, each) for each in ARROW.finditer(text)]
    if any(pointed):
        yield next(each for each in pointed if each)
    elif "==" in text:
        yield from _equation(text)


def _pointed(text: str, arrow: re.Match[str]) -> Case | None:
    call = text[: arrow.start()].strip().strip("`")
    value = text[arrow.end() :].strip().rstrip(",;").strip("`")
    bare = value.rstrip(".")
    forms = (value, bare, TRUTHS.get(bare, ""))
    expected = next((each for each in forms if is_literal(each)), None)
    if expected is None or parsed(call, "eval") is None:
        return None
    return case_of(_bare(call), _bare(expected))


def _equation(text: str) -> Iterator[Case]:
    tree = parsed(text, "exec")
    body = tree.body if isinstance(tree, ast.Module) else []
    match body:
        case [ast.Assert(test=said)] | [ast.Expr(value=said)]:
            case = equation(said)
            if case is not None:
                yield case


def _bare(text: str) -> str:
    """Write an expression on one line, without what stands after it as a comment."""
    tree = parsed(text, "eval")
    return (unparsed(tree) if tree else None) or text
