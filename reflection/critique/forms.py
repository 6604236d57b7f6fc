"""What is wrong with a draft's form: the first defect in its JSON, YAML, Python or Markdown."""

import ast
import json
import re
import warnings
from itertools import pairwise
from textwrap import dedent
from typing import Any, Literal

import yaml  # type: ignore[import-untyped]

from reflection.critique.prose import CODE, Block, Reading, read
from reflection.text import fold, terminal_safe


def defect(draft: str, form: Literal["json", "python", "markdown"]) -> str | None:
    """Describe the first defect of a draft that must be in this format alone; None if none."""
    reading = read(draft)
    if form == "markdown":
        return _bad_markdown(reading)
    if form == "json":
        alone = len(reading.code) == 1 and not reading.prose
        return _bad_json(reading.code[0].text if alone else draft)
    blocks = _python_blocks(reading) if reading.code else [Block("python", draft)]
    return next(filter(None, map(_bad_python, blocks)), None) if blocks else "no block is Python"


# The parser of YAML takes time quadratic in open brackets; what has more is not parsed.
MOST_BRACKETS = 2_000
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

FORM = re.compile(
    r"\b(?:(?<!such )as|return|output|only|als|(?:reply|respond|answer)\w* (?:in|with)) "
    r"(?:(?!(?:the|this|that|my|your|our|its|these)\b)\w+ ){0,2}(json|yaml)\b"
    r"|^(?:please )?(?:give|list|put|convert|format|write|show|gib)\b.* (?:in|into|to|als) "
    r"(?:valid )?(json|yaml)\b"
    r"|\b(?:give|make|write|create)(?: me)? (?:an?|some|valid) (?:\w+ )?(json|yaml|table)\b"
    r"(?! (?:of|tennis|manners))|\b(?:as|into?) an? (?:\w+ )?(table)\b(?! of)|\bmarkdown (table)\b"
)
NO_FORM = re.compile(
    r"^(?:how|why|what|when|which|who|is|are|does|do|did|explain)\b|\b(?:functions?|scripts?|class|"
    r"programs?|methods?|endpoints?|api|pars\w+|schemas?|library|code|commands?|sql|essay|article|"
    r"guide|tutorial|post|story|poem|ways|reasons|problems|tips|differences|advantages)\b"
)
PYTHON = re.compile(
    r"^(?:please )?(?:write|implement|create|give me)\b(?!.*\b(?:essay|article|poem|story|about)\b)"
    r"(?=.*\b(?:function|script|program|class|method)\b).*\bpython\b"
)


def lack(draft: str, query: str) -> str | None:
    """Describe what a draft lacks of a form that its query asks for in words; None if nothing."""
    asked = fold(f"{query[:2_000]}\n{query[-2_000:]}").casefold()
    for sentence in re.split(r"(?<=[.?!:])\s|\n", asked):
        form = None if NO_FORM.search(sentence) else FORM.search(sentence)
        wished = (
            form[form.lastindex or 0] if form else "python" if PYTHON.search(sentence) else None
        )
        if wished and (wrong := _lack(draft, wished)):
            return f"{wished}: {wrong}"
    return None


def _lack(draft: str, form: str) -> str | None:
    """Describe the defect of the only part in this form; None if one part has none."""
    reading = read(draft)
    codes = [block.text for block in reading.code]
    if form == "json":
        begin, end = re.search(r"[{\[]", draft), max(draft.rfind("}"), draft.rfind("]")) + 1
        found = [_bad_json(draft[begin.start() : end] if begin else draft), *map(_bad_json, codes)]
    elif form == "yaml":
        found = list(map(_bad_yaml, codes or [draft]))
    elif form == "table":
        rows = re.findall(r"[|\t│┃&;]|<t[dr]| {3}|\S,\S", draft)
        found = [_bad_rows(reading) if len(rows) > 1 else "there is no table"]
    else:
        code = codes or CODE in reading.text or re.search("[=(){};]", draft)
        found = list(map(_bad_python, _python_blocks(reading)))
        found = found or [None if code else "there is no code"]
    return None if None in found else found[0]


def _python_blocks(reading: Reading) -> list[Block]:
    """List the blocks named Python, or else those without a name."""
    named = [block for block in reading.code if block.language.startswith("py")]
    return named or [block for block in reading.code if not block.language]


def _bad_json(text: str) -> str | None:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise ValueError("a name stands twice in one object")
        return dict(pairs)

    def constant(name: str) -> None:
        raise ValueError(f"{name} is not valid JSON")

    try:
        json.loads(text, object_pairs_hook=members, parse_constant=constant, parse_int=str)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None


def _bad_yaml(text: str) -> str | None:
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        return None
    try:
        kinds = {type(event) for event in yaml.parse(text, Loader=LOADER)}
    except yaml.YAMLError as error:
        return terminal_safe(str(error), 120)
    nodes = {yaml.MappingStartEvent, yaml.SequenceStartEvent}
    return None if kinds & nodes else "it has neither names nor items"


def _bad_python(block: Block) -> str | None:
    if block.text.lstrip().startswith((">>>", "%", "!")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            statements = ast.parse(dedent(block.text)).body
    except SyntaxError as error:
        line = (error.lineno or 1) + block.line - 1
        return f"line {line}, column {error.offset or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"it cannot be parsed ({type(error).__name__})"
    return None if statements else "it contains no statement"


def _bad_markdown(reading: Reading) -> str | None:
    if fence := next((block for block in reading.code if not block.closed), None):
        return f"line {fence.line - 1}: the code fence is never closed"
    if reading.html.rfind("<!--") > reading.html.rfind("-->"):
        return "an HTML comment is never closed, and hides the rest"
    return _bad_rows(reading)


def _bad_rows(reading: Reading) -> str | None:
    """Describe the first table row whose number of columns differs from its header's."""
    for part in reading.prose:
        columns = 0
        for header, line in pairwise(part.split("\n")):
            if set(line) <= set("-:| \t") and "|" in line and "-" in line:
                columns = _columns(header)
            if "|" not in line:
                columns = 0
            elif columns and _columns(line) != columns:
                row = terminal_safe(line, 40)
                return f"the row {row!r} does not have the {columns} columns of its header"
    return None


def _columns(row: str) -> int:
    bare = row.replace("\\|", " ").strip().removeprefix("|").removesuffix("|")
    return bare.count("|") + 1
