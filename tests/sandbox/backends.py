"""The backends that every test of the machinery runs in."""

from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.landlock import Landlock
from activities.sandbox.port import Program, Result
from activities.sandbox.sandbox import ProcessSandbox
from reflection.multipath.request import Limits

CEILING = Limits(wall_seconds=60, cpu_seconds=60)


def build(name: str, at_once: int = 8, ceiling: Limits = CEILING) -> ProcessSandbox:
    """Build a sandbox by its backend's name."""
    backend = Bubblewrap.find() if name == "bubblewrap" else Landlock()
    return ProcessSandbox(backend, ceiling, at_once)


async def run(sandbox: ProcessSandbox, code: str, **limits: float) -> Result:
    """Run one file of Python."""
    return await sandbox.run(Program(code=code, limits=Limits.model_validate(limits)))
