"""All checks in the order in which they are shown.

`doctor`: look at everything that a run needs, and say what is wrong.
"""

import asyncio
import os

import typer

from commands.doctor.installation import (
    document_checks,
    limits_checks,
    model_checks,
    package_checks,
    sandbox_checks,
    telemetry_checks,
)
from commands.doctor.server import server_checks
from commands.doctor.table import Check
from commands.options import Json


async def look() -> list[Check]:
    """Look at everything; the server and the sandbox, which take longest, at the same time."""
    environment = os.environ
    server, sandbox = await asyncio.gather(server_checks(), sandbox_checks())
    return [
        *server,
        *model_checks(environment),
        *document_checks(environment),
        *limits_checks(environment),
        *sandbox,
        *package_checks(),
        *telemetry_checks(environment),
    ]


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


def doctor(
    as_json: Json = False,
) -> None:
    """Look at everything, and print what was found."""
    import asyncio

    from commands.doctor.table import exit_code, print_checks, print_document

    checks = asyncio.run(look())
    code = exit_code(checks)
    if as_json:
        print_document(checks, code)
    else:
        print_checks(checks)
    raise typer.Exit(code)
