"""The result of a run: why it ended, what is still open, and what it rests on."""

from rich.console import Console
from rich.text import Text

from commands.rendering.multipath.details import drafts_rows, found_rows, routing_rows
from commands.rendering.multipath.hints import module_hint
from commands.rendering.multipath.wording import (
    draft_of,
    found_words,
    still_open,
    thing_words,
)
from commands.rendering.panel import EMBEDDED, Row, panel, usage_rows
from reflection.multipath.result import Draft, MultiPathResult
from reflection.multipath.words.wording import draft_words
from reflection.text import tally_words, terminal_safe

CHOOSE = "give --mode research or --mode code"
CUT = "at the model's limit (--max-output-tokens), or at what a result can hold"


def print_details(console: Console, result: MultiPathResult) -> None:
    """Print why a run ended, its drafts, what is open, what it rests on, and what it cost."""
    kept = draft_of(result.drafts, result.kept)
    rows: list[Row] = [("stopped", _stopped(result))]
    rows += [("attention", Text(each, "bold yellow")) for each in flags(result)]
    rows += routing_rows(result.routing)
    rows += drafts_rows(result.drafts, result.kept)
    rows += found_rows(kept, result)
    rows += [("idea", Text(terminal_safe(each, 400))) for each in result.suggestions]
    rows += usage_rows(result.usage)
    rows += [("model", _model(result.model))] if result.model else []
    rows += [("warning", Text(terminal_safe(each, 400), "yellow")) for each in result.warnings]
    console.print(panel(rows))


def flags(result: MultiPathResult) -> list[str]:
    """Say what a reader of the result must know: what is open, missing, cut or not believed."""
    kept = draft_of(result.drafts, result.kept)
    still = still_open(result)
    found = [
        _missing(result),
        f"the result is open: {still}" if still else "",
        _kept(result),
        f"the text was cut: {CUT}" if kept and kept.cut else "",
        _persons(kept),
        module_hint(result.error, result.suite),
        _quarantined(result),
        _unsourced(result),
        _forgeable(result),
    ]
    return [each for each in found if each]


def _missing(result: MultiPathResult) -> str:
    if result.output is not None:
        return ""
    if result.stop_reason == "unrouted":
        return f"no path could be chosen for sure: {CHOOSE}"
    return f"there is no {thing_words(result.mode)}"


def _kept(result: MultiPathResult) -> str:
    kept = draft_of(result.drafts, result.kept)
    if kept is None or kept is result.drafts[-1] or kept.mode != "code":
        return ""
    return f"{draft_words(kept.index)} is given: {found_words(kept)}, and no later one is better"


def _persons(kept: Draft | None) -> str:
    if kept is None or kept.origin != "replaced":
        return ""
    return f"nobody {'tested' if kept.mode == 'code' else 'reflected on'} what a person wrote"


def _quarantined(result: MultiPathResult) -> str:
    if not result.quarantined:
        return ""
    tests = tally_words(len(result.quarantined), "test")
    return f"{tests} of the model's own that no draft passes: not believed, and worth a look"


def _unsourced(result: MultiPathResult) -> str:
    if result.mode != "research" or result.output is None or result.sources:
        return ""
    return "no source was found: no document backs what the report says"


def _forgeable(result: MultiPathResult) -> str:
    if not result.forgeable:
        return ""
    return "the tests ran beside the code, which could have forged their verdict (forgeable)"


def _stopped(result: MultiPathResult) -> Text:
    return Text(terminal_safe(result.stop_explanation, 400)).append(
        f" ({result.stop_reason})", "dim"
    )


def _model(name: str) -> Text:
    toy = " (a toy: its texts show how Mull works, not how good models are)"
    return Text(terminal_safe(name, 200)).append(toy if name.startswith(EMBEDDED) else "", "dim")
