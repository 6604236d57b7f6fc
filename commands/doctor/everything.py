"""All checks in the order in which they are shown."""

import asyncio
import os

from commands.doctor.check import Check
from commands.doctor.looking.documents import document_checks
from commands.doctor.looking.models import model_checks
from commands.doctor.looking.packages import package_checks
from commands.doctor.looking.sandbox import limits_checks, sandbox_checks
from commands.doctor.looking.server import server_checks
from commands.doctor.looking.telemetry import telemetry_checks


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
