"""All checks in the order in which they are shown.

`doctor`: look at everything that a run needs, and say what is wrong.
"""

import asyncio
import os
from typing import TYPE_CHECKING

import typer

from commands.options import Json

if TYPE_CHECKING:
    from commands.doctor.table import Check

HELP = """Check an installation: server, workers, models, documents, sandbox, packages, telemetry.

Each check is ok, a warning or wrong, with what to do. Models, keys (by name, never their values),
documents and the sandbox are looked at on this machine: run it where the worker runs.

Examples:

    starter.py doctor

    starter.py doctor --json

Exit codes: 0 all right, or warnings alone, 1 something is wrong, 3 no server or no worker.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("doctor", help=HELP)(doctor)


def doctor(as_json: Json = False) -> None:
    """Look at everything, and print what was found."""
    from commands.doctor.table import exit_code, print_checks, print_document

    checks = asyncio.run(look())
    code = exit_code(checks)
    if as_json:
        print_document(checks, code)
    else:
        print_checks(checks)
    raise typer.Exit(code)


async def look() -> "list[Check]":
    """Look at everything; the server and the sandbox, which take longest, at the same time."""
    from commands.doctor import installation
    from commands.doctor.server import server_checks

    server, sandbox = await asyncio.gather(server_checks(), installation.sandbox_checks())
    return [
        *server,
        *installation.model_checks(os.environ),
        *installation.document_checks(os.environ),
        *installation.limits_checks(os.environ),
        *sandbox,
        *installation.package_checks(),
        *installation.telemetry_checks(os.environ),
    ]
