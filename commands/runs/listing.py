"""`list`: the newest runs on this server."""

import asyncio
import json
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from commands.options import Json
from commands.session import Exit, with_client

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution

Row: TypeAlias = dict[str, str | float | int | None]

SHOWN = (
    "MullStopReason",
    "MullConfidence",
    "MullScore",
    "MullUncertainty",
    "MullSamples",
    "MullRevisions",
    "MullCostUsd",
    "MullNeedsReview",
)
# A list is wanted at once: what no worker answers in this time stands as running.
PATIENCE_SECONDS = 2
PARENT = "ParentWorkflowId"
WHERE = (
    "Temporal's list filter: MullConfidence < 0.6. "
    f"The runs of a batch are listed only where it names {PARENT}."
)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("list")(list_runs)


def list_runs(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Runs to list, at most.")] = 20,
    where: Annotated[str | None, typer.Option(metavar="FILTER", help=WHERE)] = None,
    as_json: Json = False,
) -> None:
    """List runs, the newest first, with why each stopped and how sure or how good it is.

    Examples: starter.py list --where "MullNeedsReview = true"

    starter.py list --where "ParentWorkflowId = 'calibrate-labelled-7f3a91c2'"
    """
    with_client(lambda client: _list(client, limit, where, as_json))


async def _list(client: "Client", limit: int, where: str | None, as_json: bool) -> Exit:
    rows = [_row(each) async for each in client.list_workflows(_query(where), limit=limit)]
    if as_json:
        sys.stdout.write(json.dumps({"runs": rows}) + "\n")
    else:
        _print(rows, await _batches(client, rows))
    return Exit.DONE


def _query(where: str | None) -> str:
    from commands.kinds import KINDS

    kinds = ", ".join(f"'{each.workflow}'" for each in KINDS)
    parts = [f"WorkflowType IN ({kinds})", *([f"({where})"] if where else [])]
    if where is None or PARENT not in where:
        parts.append(f"{PARENT} IS NULL")
    return " AND ".join(parts)


async def _batches(client: "Client", rows: list[Row]) -> dict[str, str]:
    """Ask every batch that goes on how far it is, all at once, by the run's id."""
    from commands.kinds import Batch
    from commands.runs.reaching import look

    async def far(row: Row) -> tuple[str, str] | None:
        handle = client.get_workflow_handle(str(row["id"]), run_id=str(row["run_id"]))
        seen = await look(handle, Batch(), timedelta(seconds=PATIENCE_SECONDS))
        return seen and (str(row["run_id"]), f"{seen[0].done:,}/{seen[0].total:,} done")

    going = [each for each in rows if each["workflow"] == Batch.workflow and _runs(each)]
    return dict(each for each in await asyncio.gather(*map(far, going)) if each)


def _row(run: "WorkflowExecution") -> Row:
    found = {pair.key.name: pair.value for pair in run.typed_search_attributes}
    return {
        "id": run.id,
        "run_id": run.run_id,
        "workflow": run.workflow_type,
        "status": run.status.name.lower() if run.status else None,
        "started": run.start_time.isoformat(timespec="seconds"),
        **{name: found.get(name) for name in SHOWN},
    }


def _print(rows: list[Row], batches: dict[str, str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        sys.stderr.write('No runs yet. Start one: starter.py ask "Is 91 prime?"\n')
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("id", overflow="fold", min_width=16)
    table.add_column("ended by", no_wrap=True)
    for name in ("conf.", "score", "answers", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        shares = [_share(row["MullConfidence"]), _share(row["MullScore"])]
        ended = batches.get(str(row["run_id"])) or _ended(row)
        shown = [row["id"], ended, *shares, row["MullSamples"], _usd(row["MullCostUsd"])]
        style = "bold" if _waits(row) else None
        table.add_row(*(Text("-" if each is None else str(each)) for each in shown), style=style)
    Console().print(table)


def _ended(row: Row) -> str | float | None:
    if _waits(row):
        return "needs review"
    return row["MullStopReason"] if row["status"] == "completed" else row["status"]


def _runs(row: Row) -> bool:
    return row["status"] == "running"


def _waits(row: Row) -> bool:
    return _runs(row) and row["MullNeedsReview"] is True


def _share(value: str | float | None) -> str | None:
    return f"{value:.2f}" if isinstance(value, float | int) else None


def _usd(value: str | float | None) -> str | None:
    from reflection.words.amounts import usd

    return usd(value) if isinstance(value, float | int) else None
