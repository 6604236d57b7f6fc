"""`list`: the newest runs on this server."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from commands.session import Exit, with_client

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution

WORKFLOWS = ("SelfConsistencyWorkflow",)
SHOWN = ("MullStopReason", "MullConfidence", "MullUncertainty", "MullSamples", "MullCostUsd")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("list")(list_runs)


def list_runs(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Runs to list, at most.")] = 20,
    where: Annotated[
        str | None, typer.Option(help="Temporal's list filter: MullConfidence < 0.6")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """List runs, the newest first, with why each stopped and how sure it is.

    Example: starter.py list --where "MullUncertainty = 'high'"
    """
    with_client(lambda client: _list(client, limit, where, as_json))


async def _list(client: "Client", limit: int, where: str | None, as_json: bool) -> Exit:
    kinds = ", ".join(f"'{each}'" for each in WORKFLOWS)
    query = f"WorkflowType IN ({kinds})" + (f" AND ({where})" if where else "")
    rows = [_row(each) async for each in client.list_workflows(query, limit=limit)]
    if as_json:
        sys.stdout.write(json.dumps({"runs": rows}) + "\n")
    else:
        _print(rows)
    return Exit.DONE


def _row(run: "WorkflowExecution") -> dict[str, str | float | int | None]:
    found = {pair.key.name: pair.value for pair in run.typed_search_attributes}
    return {
        "id": run.id,
        "run_id": run.run_id,
        "status": run.status.name.lower() if run.status else None,
        "started": run.start_time.isoformat(timespec="seconds"),
        **{name: found.get(name) for name in SHOWN},
    }


def _print(rows: list[dict[str, str | float | int | None]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        sys.stderr.write('No runs yet. Start one: starter.py ask "Is 91 prime?"\n')
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("id", overflow="fold", min_width=16)
    table.add_column("ended by", no_wrap=True)
    for name in ("conf.", "answers", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        ended = row["MullStopReason"] if row["status"] == "completed" else row["status"]
        cost = row["MullCostUsd"]
        shown = [row["id"], ended, _share(row["MullConfidence"]), row["MullSamples"], _usd(cost)]
        table.add_row(*(Text("-" if each is None else str(each)) for each in shown))
    Console().print(table)


def _share(value: str | float | None) -> str | None:
    return f"{value:.2f}" if isinstance(value, float | int) else None


def _usd(value: str | float | None) -> str | None:
    from reflection.convergence.words.wording import usd

    return usd(value) if isinstance(value, float | int) else None
