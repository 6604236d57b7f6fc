"""A draft that is not of the format that was asked for."""

import ast
import json
import re
import warnings
from collections import Counter
from typing import Any

from reflection.critique.guardrails.prose import fenced_blocks
from reflection.critique.guardrails.registry import Checked, Finding, guardrail
from reflection.critique.guardrails.shaping.markdown import broken_markdown

CAP = 0.3
DEEPEST = 100

WHOLE_FENCE = re.compile(
    r"\s*```[ \t]*(?:json)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*", re.DOTALL | re.IGNORECASE
)
# An open string is taken to the end, or each quotation mark in it would be tried again.
NESTING = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
OPENING = re.compile(r"[(\[{]")


@guardrail("malformed", default=True)
def malformed(checked: Checked) -> Finding | None:
    """Cap a draft that does not parse as the JSON, Python or Markdown that was asked for.

    JSON is strict: NaN, a name twice in one object, and text around it are wrong; one fence
    around the whole is not. Python: each fenced block of it, or the whole where nothing is
    fenced, is parsed and never run. Markdown: what shows wrongly, as `broken_markdown` lists it.
    Source: the reflection chapter's exercise 3, rule 3.
    """
    if checked.format is None:
        return None
    wrong = {"json": _wrong_json, "python": _wrong_python, "markdown": broken_markdown}
    found = wrong[checked.format](checked.draft)
    name = {"json": "JSON", "python": "Python", "markdown": "Markdown"}[checked.format]
    return Finding(CAP, f"the draft is not well-formed {name}: {found}") if found else None


def _wrong_json(draft: str) -> str | None:
    fenced = WHOLE_FENCE.fullmatch(draft)
    text = fenced[1] if fenced else draft
    if _depth(text) > DEEPEST:
        return f"nested more than {DEEPEST} deep"
    try:
        json.loads(text, object_pairs_hook=_no_name_twice, parse_constant=_refuse, parse_int=str)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except ValueError as error:
        return str(error)
    return None


def _depth(text: str) -> int:
    depth = deepest = 0
    for found in NESTING.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        deepest = max(deepest, depth)
    return deepest


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice[:40]!r} stands twice in one object")
    return made


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


def _wrong_python(draft: str) -> str | None:
    blocks = fenced_blocks(draft)
    if not blocks:
        return _wrong_code(draft, 0)
    labelled = [each for each in blocks if each.language.split(" ")[0].casefold().startswith("py")]
    ours = labelled or [each for each in blocks if not each.language]
    if not ours:
        return "no fenced block is Python"
    wrong = (
        _wrong_code(each.text, each.line - 1)
        for each in ours
        if not each.text.lstrip().startswith(">>>")
    )
    return next((each for each in wrong if each), None)


def _wrong_code(code: str, lines_before: int) -> str | None:
    deep = max((len(OPENING.findall(line)) for line in code.split("\n")), default=0)
    if deep > 10 * DEEPEST:
        return "a line has more than 1,000 opening brackets"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(code).body
    except SyntaxError as error:
        place = f"line {(error.lineno or 1) + lines_before}, column {error.offset or 1}"
        return f"{place}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"it cannot be parsed ({type(error).__name__})"
    bare = all(isinstance(each, ast.Expr) and _is_bare(each.value) for each in body)
    return "it holds no statement" if bare else None


def _is_bare(value: ast.expr) -> bool:
    return isinstance(value, ast.Name | ast.Constant | ast.Attribute)
