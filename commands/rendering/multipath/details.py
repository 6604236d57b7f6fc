"""Rows of a run's details: its path, K or E of a draft, its tests and its sources."""

from collections.abc import Sequence

from rich.text import Text

from commands.rendering.multipath.tables import drafts_table, sources_table, tests_table
from commands.rendering.multipath.wording import failure_rows
from commands.rendering.panel import Row, pairs
from reflection.multipath.result import Draft, MultiPathResult, Progress, Routing
from reflection.multipath.state import Critique
from reflection.multipath.suite import Failure, Suite
from reflection.multipath.words.wording import (
    critique_words,
    draft_words,
    held_to_words,
    routing_words,
)
from reflection.plain import neutral, plain
from reflection.words.amounts import tally_words

MOST_CRITIQUES = 12
OF_EACH_DRAFT = 3
CRITIQUE_COLUMNS = 240
MOST_LINES = 20


def routing_rows(routing: Routing | None) -> list[Row]:
    """Show which path was chosen, by whom and why."""
    return [("path", Text(routing_words(routing, 400)))] if routing else []


def drafts_rows(drafts: Sequence[Draft], kept: int | None) -> list[Row]:
    """Show every draft on one line, and what was wrong with those that are not kept."""
    if not drafts:
        return []
    rows: list[Row] = [("drafts", drafts_table(drafts, kept))]
    for each in drafts:
        words = critique_lines(each, CRITIQUE_COLUMNS) if each.index != kept else []
        rows += [(draft_words(each.index), Text(line)) for line in words]
    return rows


def critique_lines(draft: Draft, most: int) -> list[str]:
    """Write the first three critiques of a draft, each on a line of its own, and count the rest."""
    found = draft.critiques or ()
    lines = [critique_words(each, most) for each in found[:OF_EACH_DRAFT]]
    more = len(found) - len(lines)
    return [*lines, f"and {more:,} more"] if more > 0 else lines


def found_rows(draft: Draft | None, run: MultiPathResult | Progress) -> list[Row]:
    """Show K and E of a draft, what came of each test, and what a report may cite."""
    rows: list[Row] = []
    if draft is not None:
        rows += critique_rows(draft.critiques or ())
        rows += error_rows(draft.error)
    if run.suite is not None:
        rows += suite_rows(run.suite, draft, run)
    if run.sources:
        rows.append(("sources", sources_table(run.sources)))
    return rows


def critique_rows(critiques: tuple[Critique, ...]) -> list[Row]:
    """Show the critiques of K, at most twelve."""
    listed = critiques[:MOST_CRITIQUES]
    rows: list[Row] = [("critique", Text(critique_words(each, 600), "yellow")) for each in listed]
    more = len(critiques) - len(listed)
    if more > 0:
        rows.append(("critique", Text(f"and {tally_words(more, 'more critique')}", "dim")))
    return rows


def error_rows(error: Failure | None) -> list[Row]:
    """Show E: its message, what was expected, and the frames of the code."""
    if error is None:
        return []
    rows: list[Row] = [("error", Text(plain(error.message, 600), "yellow"))]
    known = [(name, plain(value, 200)) for name, value in failure_rows(error)]
    rows += [("error", pairs(known))] if known else []
    if error.traceback:
        lines = neutral(error.traceback).rstrip().split("\n")[-MOST_LINES:]
        rows.append(("error", Text("\n".join(lines), "dim")))
    return rows


def suite_rows(suite: Suite, draft: Draft | None, run: MultiPathResult | Progress) -> list[Row]:
    """Show where the tests are from, and what came of each with a draft."""
    rows: list[Row] = [("tests", Text(plain(held_to_words(suite), 200)))]
    if draft is not None and draft.report is not None and draft.report.outcomes:
        rows.append(("tests", tests_table(draft.report.outcomes, run.quarantined)))
    elif suite.cases:
        calls = [(each.call, f"shall be {each.expected}") for each in suite.cases[:MOST_CRITIQUES]]
        rows.append(("tests", pairs([(plain(a, 60), plain(b, 100)) for a, b in calls])))
    return rows
