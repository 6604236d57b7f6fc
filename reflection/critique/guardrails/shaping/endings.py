"""A draft that has no end."""

import re

from reflection.critique.guardrails.prose import fenced_blocks, fold, without_code, without_fences
from reflection.critique.guardrails.registry import Checked, Finding, guardrail
from reflection.text import terminal_safe

CAP = 0.5
CUT_REASONS = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
TAIL = 4_000

PLACEHOLDER = re.compile(
    r"[\[<{(](?:\.{3}|…)?\s?(?:insert\b|todo\b|tbd\b|tba\b|fixme\b|to be (?:continued|"
    r"added|completed|"
    r"determined|written|filled)|continued|continues|rest (?:omitted|of )|remain(?:der|"
    r"ing)\b[^\])]{0,30}"
    r"omitted|(?:text |content |section )?(?:omitted|truncated)(?: for brevity)?|"
    r"placeholder\b|add .{0,30}here|"
    r"fill in|content goes here|fortsetzung|à suivre|continuará)[^\]>})\n]{0,100}[\]>})]",
    re.IGNORECASE,
)
TODO = re.compile(
    r"(?:^|[#/*;-][ \t]{0,4}|\n[ \t]{0,8})(?:TODO|FIXME|TBD)\b(?=\s*[:(-]|[ \t]*$)", re.MULTILINE
)
LEFT_OUT = re.compile(
    r"(?:#|//|/\*|--|<!--)[ \t]*(?:\.{3}|…)?[ \t]*(?:(?:the )?(?:rest|remainder) of (?:the|your) "
    r"(?:\w+ )?(?:code|implementation|function|class|file|logic)|"
    r"(?:(?:add|implement|write|put) )?your (?:code|implementation|logic)(?: goes)? here\b)"
    r"|lorem ipsum dolor",
    re.IGNORECASE,
)
CONTINUED = re.compile(
    r"(?:to be continued|continued(?: in (?:the )?next \w+)?|and then|and so|rest "
    r"omitted|more to come|"
    r"fortsetzung folgt|à suivre|continuará)\W*",
    re.IGNORECASE,
)
ELLIPSIS = re.compile(r"(?<![\d.,…] )(?<![\d.…])(?<!\d,)(?:\.{3,}|…)$")
DANGLING = re.compile(
    r"(?:^|\s)(?:the|an|and|or|of|because|whose|than|such as|including|between|"
    r"although|whereas|is|are|"
    r"und|oder|weil|der|das|et|ou|parce que|y|o|porque)$"
)
SIGN_OFF = re.compile(
    r"(?:(?:best|kind|warm|warmest|kindest|with best|many)? ?(?:regards|wishes|thanks)|"
    r"sincerely|cheers|"
    r"thank you|yours(?: \w+)?|respectfully|love|all the best|best|mit freundlichen "
    r"grüßen|cordialement)"
    r"(?: yours)?,",
    re.IGNORECASE,
)
DECORATION = re.compile(r"^[ \t>]+|[*_~\s]+$")
CITED = re.compile(r"\s*\[\^?\d{1,3}\]$")
BLOCK_LINE = re.compile(r"[ \t]*(?:#{1,6}\s|\||[-*+•]\s|\d{1,3}[.)]\s|[-=*_]{3,}$)")
SENTENCE_END = re.compile(r"[.!?]['\")\]*_]*(?:\s|$)")
FACE = re.compile(r"[:;][-']?[()\[]")
PROSE_WORDS = 12


@guardrail("unfinished", default=True)
def unfinished(checked: Checked) -> Finding | None:
    """Cap a draft that was cut off, breaks off, or leaves something to be filled in.

    Cut off: finish reason `length`, or a text too long to be kept. Breaking off: an open code
    fence, or a last line that ends with an ellipsis, a comma, a colon, a word as `and` or `the`,
    an open bracket, or without a full stop after at least 12 words where the others have one.
    Left out: [insert ...], TODO:, [rest omitted], "to be continued". Lists, tables, headings,
    poems, signatures and code need no full stop.
    """
    text = fold(checked.draft).replace("\r\n", "\n")
    found = _cut_off(checked) or _left_out(text, checked.query) or _broken_off(checked, text)
    return Finding(CAP, found) if found else None


def _cut_off(checked: Checked) -> str | None:
    if checked.cut:
        return "the draft is longer than can be kept, and its end is cut off: write a shorter one"
    if (checked.finish_reason or "").casefold() in CUT_REASONS:
        return (
            "the draft was cut off at the limit of output tokens: write a shorter one, to its end"
        )
    for block in fenced_blocks(checked.draft):
        if not block.closed:
            return (
                f"the code fence of line {block.line - 1} is never closed: finish the "
                f"code, close it"
            )
    return None


def _left_out(text: str, query: str) -> str | None:
    asked = query.casefold()
    if any(each in asked for each in ("template", "placeholder", "todo", "lorem", "fixme")):
        return None
    prose = without_code(text)
    found = PLACEHOLDER.search(prose) or TODO.search(text) or LEFT_OUT.search(text)
    if found is None:
        return None
    return f"the draft leaves out what {terminal_safe(found[0].strip(), 60)!r} stands for: write it"


def _broken_off(checked: Checked, text: str) -> str | None:
    if checked.format in {"json", "python"} or text.rstrip().endswith(("```", "~~~")):
        return None
    lines = [each for each in without_fences(text[-TAIL:]).split("\n") if each.strip()]
    if not lines:
        return None
    last = CITED.sub("", DECORATION.sub("", lines[-1]))
    wrong = _wrong_end(last, lines)
    return f"the draft breaks off at {_tail(last)!r}: {wrong}; write its end" if wrong else None


def _tail(line: str) -> str:
    return terminal_safe(line, 1_000)[-40:]


def _wrong_end(last: str, lines: list[str]) -> str | None:
    if CONTINUED.fullmatch(re.sub(r"^.*[.!?] ", "", last[-200:]).lstrip("*_[(")):
        return "more was to come"
    if ELLIPSIS.search(last) and last.strip(".… "):
        return "an ellipsis is no end"
    if last.endswith(
        (",", ":", ";", " -", " –", "\uff0c", "\uff1a", "、")
    ) and not SIGN_OFF.fullmatch(last):
        return f"{last[-1]!r} announces more"
    if BLOCK_LINE.match(last) and last.lstrip().startswith(("#", "|")):
        return None
    if DANGLING.search(last[-30:]):
        return "the sentence is not finished"
    return _open_end(last, lines)


def _open_end(last: str, lines: list[str]) -> str | None:
    if not re.search(r"[a-z\d([]$", last) or re.search(r"(?:://|www\.)\S*$", last):
        return None
    bare = FACE.sub("", last)
    if any(bare.count(one) > bare.count(other) for one, other in ("()", "[]")):
        return "a bracket is open"
    if BLOCK_LINE.match(last) or len(last.split()) < PROSE_WORDS:
        return None
    # A list item, or a table, that goes on over several lines is a block as well.
    if lines[-1].startswith(("  ", "\t")):
        return None
    others = [each for each in lines[:-1] if not BLOCK_LINE.match(each)]
    # Who never sets a last full stop sets none here either.
    stopped = SENTENCE_END.search(others[-1][-10:] if others else last)
    return "the sentence is not finished" if stopped else None
