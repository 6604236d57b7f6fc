"""Runs as a table of one line each, whose ids can be copied whatever the width."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from reflection.text import tally_words, usd

Value: TypeAlias = str | float | int | None
Row: TypeAlias = Mapping[str, Value]
Words: TypeAlias = Callable[[Row], Value]


class Column(NamedTuple):
    """A column: its head, and its words in each row."""

    name: str
    words: tuple[str, ...]

    @property
    def width(self) -> int:
        """Columns of the terminal that it takes, with the space after it."""
        return max(map(cell_len, (self.name, *self.words))) + 1


def runs_table(rows: Sequence[Row], batches: Mapping[str, str], width: int) -> Table:
    """Show runs: id, how each ended, how good its result is, when it started, what it cost.

    Columns that do not fit are left out from the last on; a row that is too wide even so is cut by
    nobody, if it is printed without cropping. `batches` says how far each batch is, by
    the run's id. A row has the fields of `list --json`.
    """
    columns = [
        _column("id", rows, lambda row: row["id"]),
        _column("ended by", rows, lambda row: batches.get(str(row["run_id"])) or _ended(row)),
        _column("result", rows, _found),
        _column("start (UTC)", rows, _started),
        _column("cost", rows, _cost),
    ]
    while len(columns) > 2 and sum(each.width for each in columns) > width:
        columns.pop()
    return _table(columns, [_waits(row) for row in rows])


def _column(name: str, rows: Sequence[Row], words: Words) -> Column:
    found = (words(row) for row in rows)
    return Column(name, tuple("-" if each is None else str(each) for each in found))


def _table(columns: Sequence[Column], bold: Sequence[bool]) -> Table:
    whole = sum(each.width for each in columns) - 1
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0, width=whole)
    for each in columns:
        table.add_column(each.name, no_wrap=True)
    for place, waits in enumerate(bold):
        cells = (Text(each.words[place]) for each in columns)
        table.add_row(*cells, style="bold" if waits else None)
    return table


def _ended(row: Row) -> Value:
    if _waits(row):
        return "needs review"
    return row["MullStopReason"] if row["status"] == "completed" else row["status"]


def _waits(row: Row) -> bool:
    return row["status"] == "running" and row["MullNeedsReview"] is True


def _found(row: Row) -> Value:
    """Say what a run of its kind is measured by: confidence, score, or drafts."""
    confidence, score, drafts = (
        row[name] for name in ("MullConfidence", "MullScore", "MullRevisions")
    )
    if isinstance(confidence, float | int):
        return f"conf. {confidence:.2f}"
    if isinstance(score, float | int):
        return f"score {score:.2f}"
    agent = row["workflow"] == "MultiPathWorkflow" and isinstance(drafts, int)
    return tally_words(drafts, "draft") if agent and isinstance(drafts, int) else None


def _started(row: Row) -> Value:
    moment = datetime.fromisoformat(str(row["started"])).astimezone(UTC)
    return f"{moment:%m-%d %H:%M}"


def _cost(row: Row) -> Value:
    cost = row["MullCostUsd"]
    return usd(cost) if isinstance(cost, float | int) else None
