"""`list`: the newest runs on this server."""

import asyncio
import json
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from commands.options import Json
from commands.session import Exit, with_client

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution

    from commands.rendering.runs import Row

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


async def _batches(client: "Client", rows: "list[Row]") -> dict[str, str]:
    """Ask every batch that goes on how far it is, all at once, by the run's id."""
    from commands.kinds import Batch
    from commands.runs.reaching import look

    async def far(row: "Row") -> tuple[str, str] | None:
        handle = client.get_workflow_handle(str(row["id"]), run_id=str(row["run_id"]))
        seen = await look(handle, Batch(), timedelta(seconds=PATIENCE_SECONDS))
        return seen and (str(row["run_id"]), f"{seen[0].done:,}/{seen[0].total:,} done")

    going = [each for each in rows if each["workflow"] == Batch.workflow and _runs(each)]
    return dict(each for each in await asyncio.gather(*map(far, going)) if each)


def _row(run: "WorkflowExecution") -> "Row":
    from commands.runs.reaching import status_words

    found = {pair.key.name: pair.value for pair in run.typed_search_attributes}
    return {
        "id": run.id,
        "run_id": run.run_id,
        "workflow": run.workflow_type,
        "status": status_words(run.status),
        "started": run.start_time.isoformat(timespec="seconds"),
        **{name: found.get(name) for name in SHOWN},
    }


def _print(rows: "list[Row]", batches: dict[str, str]) -> None:
    from rich.console import Console

    from commands.rendering.runs import runs_table

    if not rows:
        sys.stderr.write('No runs yet. Start one: starter.py ask "Is 91 prime?"\n')
        return
    console = Console()
    console.print(runs_table(rows, batches, console.width), crop=False)


def _runs(row: "Row") -> bool:
    return row["status"] == "running"
