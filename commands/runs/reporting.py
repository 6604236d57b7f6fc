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
    """Write a page about a finished run: curves, votes or drafts, decisions and what it cost.

    Example: starter.py report ask-is-91-prime-7f3a91c2 --html report.html
    """
    with_client(lambda client: _report(client, run, html))


async def _report(client: "Client", run: str, path: Path) -> Exit:
    from temporalio.client import WorkflowFailureError

    from commands.report.document import RunFacts
    from commands.runs import ending, reaching
    from commands.webui import run_page

    handle, _, seen = found = await reaching.reach(client, run)
    instead = f"the same calibrate command with --id {run} and --html {path} writes its findings"
    kind = reaching.answering(found, instead)
    if found.goes_on:
        fail(f"the run goes on; `starter.py watch {run}` follows it.", Exit.USAGE)
    try:
        result = await handle.result()
    except WorkflowFailureError as error:
        said = f"the run has no result, and no page; `starter.py show {run}` says more."
        fail(said, ending.exit_code(error))
    request = await reaching.request_of(client, found)
    settings = request.model_dump() if request else {}
    address = run_page(run, seen.run_id)
    about = RunFacts(run, seen.run_id, seen.start_time, seen.close_time, address, settings)
    try:
        path.write_text(kind.page(result, about), encoding="utf-8")
    except OSError as error:
        fail(f"{path} can't be written: {error.strerror}.", Exit.USAGE)
    sys.stderr.write(f"wrote {path}\n")
    return Exit.DONE
