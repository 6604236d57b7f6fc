"""`report`: one self-contained HTML file about a run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands.console import fail
from commands.session import Exit, with_client

if TYPE_CHECKING:
    from temporalio.client import Client


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(report)


def report(
    run: Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")],
    html: Annotated[Path, typer.Option(metavar="FILE", help="Where the page goes.")],
) -> None:
    """Write a page about a finished run: curves, votes, decisions, responses and what it cost.

    Example: starter.py report ask-is-91-prime-7f3a91c2 --html report.html
    """
    with_client(lambda client: _report(client, run, html))


async def _report(client: "Client", run: str, path: Path) -> Exit:
    from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError

    from commands.report import report_html
    from commands.runs import ending
    from commands.runs.showing import handle_of, request_of
    from commands.webui import run_page

    handle = handle_of(client, run)
    seen = await handle.describe()
    if seen.status is WorkflowExecutionStatus.RUNNING:
        fail(f"the run goes on; `starter.py watch {run}` follows it.", Exit.USAGE)
    try:
        result = await handle.result()
    except WorkflowFailureError as error:
        return ending.ended_badly(error, run, False)
    request = await request_of(client, handle)
    settings = request.model_dump() if request else {}
    page = report_html(
        result,
        run,
        seen.run_id,
        seen.start_time,
        seen.close_time,
        run_page(run, seen.run_id),
        settings,
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        fail(f"{path} can't be written: {error.strerror}.", Exit.USAGE)
    sys.stderr.write(f"wrote {path}\n")
    return Exit.DONE
