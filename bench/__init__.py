"""Every number in the README and the docs comes from a command here."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from temporalio.client import Client


@asynccontextmanager
async def server() -> AsyncIterator["Client"]:
    """Run a development server of its own, with its database in a file, and yield a client."""
    # Not at the top: the SDK's sandbox imports this package with the bare workflows.
    from commands.embedded import Place, free_port, temporal

    with tempfile.TemporaryDirectory() as folder:
        place = Place(free_port(), free_port(), Path(folder, "temporal.db"))
        async with temporal(place, Path(folder, "log")) as (_, client):
            yield client


def resident_mb(process: int | str = "self") -> int:
    """Read the resident memory of a process, by its id, in MB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024
