"""The backends that every test of the machinery runs in, and one that confines nothing."""

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from activities.sandbox.backend import Launch
from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.landlock import Landlock
from activities.sandbox.packages import base_python
from activities.sandbox.port import Program, Result
from activities.sandbox.sandbox import ProcessSandbox
from mull.multipath.request import Limits

CEILING = Limits(wall_seconds=60, cpu_seconds=60)


def build(name: str, at_once: int = 8, ceiling: Limits = CEILING) -> ProcessSandbox:
    """Build a sandbox by its backend's name."""
    backend = Bubblewrap.find() if name == "bubblewrap" else Landlock()
    return ProcessSandbox(backend, ceiling, at_once)


async def run(sandbox: ProcessSandbox, code: str, **limits: float) -> Result:
    """Run one file of Python."""
    return await sandbox.run(Program(code=code, limits=Limits.model_validate(limits)))


class Unconfined:
    """Runs programs as plain processes: for harmless ones alone."""

    name = "unconfined"
    version = "0"

    @asynccontextmanager
    async def prepare(self, *_: object) -> AsyncIterator[Launch]:
        """Make a folder to work in."""
        folder = Path(tempfile.mkdtemp())
        try:
            yield Launch(
                argv=(base_python(),),
                work=str(folder),
                scratch=str(folder),
                uid=None,
                packages="",
                path="/usr/bin:/bin",
                disk=lambda _: (0, 0),
                nested=False,
            )
        finally:
            _end_all_in(folder)
            shutil.rmtree(folder)


def _end_all_in(folder: Path) -> None:
    """End what works in a folder, since nothing else ends a program that goes on for ever."""
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (each / "cwd").readlink() == folder:
                os.kill(int(each.name), signal.SIGKILL)
