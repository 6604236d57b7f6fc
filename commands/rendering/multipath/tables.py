"""Drafts, tests and sources as tables of one line each."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from commands.rendering.cells import cut, grid
from commands.rendering.multipath.wording import found_words
from reflection.multipath.result import Draft, Source
from reflection.multipath.suite import TestOutcome
from reflection.multipath.words.wording import origin_words, place_words
from reflection.plain import plain
from reflection.words.amounts import tally_words

MOST_TESTS = 12


def drafts_table(drafts: Sequence[Draft], kept: int | None) -> Table:
    """Show every draft on one line: where it is from, its K or E, its length."""
    table = grid("#", "origin", "found", "chars", "model", right=(0, 3))
    for each in drafts:
        table.add_row(
            Text(str(each.index + 1)),
            cut(origin_words(each)),
            cut(found_words(each)),
            Text(f"{len(each.text):,}"),
            cut(plain(each.model or "-", 60)),
            style="bold" if each.index == kept else None,
        )
    return table


def tests_table(outcomes: Sequence[TestOutcome], quarantined: Sequence[TestOutcome]) -> Table:
    """Show what came of each test: those that fail first, at most twelve in all."""
    aside = {each.test for each in quarantined}
    ordered = sorted(outcomes, key=lambda each: each.passed)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for each in ordered[:MOST_TESTS]:
        word, style = _outcome(each, aside)
        table.add_row(Text(word, style), Text(test_words(each, 200)))
    if len(ordered) > MOST_TESTS:
        more = tally_words(len(ordered) - MOST_TESTS, "more test")
        table.add_row(Text(""), Text(f"and {more}", "dim"))
    return table


def test_words(outcome: TestOutcome, most: int) -> str:
    """Name a test, and say how it fails where it does."""
    if outcome.passed:
        value = f" is {outcome.expected}" if outcome.expected is not None else ""
        return plain(f"{outcome.test}{value}", most)
    return plain(f"{outcome.test}: {failed_words(outcome)}", most)


def sources_table(sources: Sequence[Source]) -> Table:
    """Show where each source stands, by the number that a report cites."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    for each in sources:
        table.add_row(Text(f"[{each.number}]"), Text(place_words(each.passage, 200)))
    return table


def _outcome(outcome: TestOutcome, aside: set[str]) -> tuple[str, str]:
    if outcome.test in aside:
        return "quarantined", "magenta"
    return ("passed", "green") if outcome.passed else ("failed", "yellow")


def failed_words(outcome: TestOutcome) -> str:
    """Say how a test fails: what was expected and what came, or what happened."""
    if outcome.expected is None:
        return outcome.message or "it fails"
    if outcome.got is not None:
        return f"expected {outcome.expected}, got {outcome.got}"
    return f"expected {outcome.expected}; {outcome.message or 'there is no value'}"
