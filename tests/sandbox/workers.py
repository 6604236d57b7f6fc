"""Workers that tests start as processes of their own, and that print what they find.

workers.py endless BACKEND COUNT: run programs that never end; a line when all of them run
workers.py outlived BACKEND COUNT: the same; its locks on folders end 0.3 s after all else of it
workers.py many BACKEND COUNT: run many programs in two rows; as JSON what is there before and after
workers.py cancelled BACKEND COUNT: cancel starts at early moments, each one millisecond later than
    the one before, without patience where that kills all of a run; as JSON the processes left
workers.py hostile BACKEND NAME...: run hostile programs by their ids; as JSON what came of them
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from activities.sandbox.backend import Backend, Launch
from activities.sandbox.sandbox import ProcessSandbox
from tests.sandbox import backends
from tests.sandbox.canaries import adopt_orphans, descendants, ipc_objects, open_descriptors
from tests.sandbox.hostile_programs import every

# So many processes FORKS comes to.
TREE = 4
FORKS = """
import os, signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(2):
    if os.fork() == 0: os.setsid()
while True: time.sleep(1)
"""
ENDLESS = "import time\nwhile True: time.sleep(1)"
# Most leave something behind where they can: a process, a zombie, a file, or all of their time.
PROGRAMS = (
    "print(1)",
    "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: os.fork() or os._exit(0)",
    "import os\nfor _ in range(9):\n    if os.fork() == 0: os._exit(0)\nos._exit(0)",
    "import tempfile\nopen('left', 'w').write('x')\ntempfile.mkstemp()",
    ENDLESS,
)
ROWS = 2


def keep_locks() -> None:
    """Have another process keep the locks for a moment, as the kernel may when a worker dies."""
    # Asked for afterwards, the parent of one that came late would be who adopted it, for ever.
    parent = os.getpid()
    if os.fork():
        return
    for each in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):
            if "mull-sandbox-" not in str(each.readlink()):
                os.close(int(each.name))
    while os.getppid() == parent:
        time.sleep(0.01)
    time.sleep(0.3)
    os._exit(0)


async def outlived(backend: str, count: str) -> None:
    await endless(backend, count, keep_locks)


async def endless(backend: str, count: str, ready: Callable[[], None] = lambda: None) -> None:
    sandbox = backends.build(backend, at_once=int(count))
    runs = [asyncio.create_task(backends.run(sandbox, FORKS)) for _ in range(int(count))]
    while sum(1 for _ in descendants(os.getpid())) < int(count) * TREE:
        await asyncio.sleep(0.01)
    ready()
    print("running", flush=True)
    await asyncio.gather(*runs)


def there() -> dict[str, object]:
    """List what this process has, and what others can see of it."""
    return {
        "descriptors": len(open_descriptors()),
        "processes": sorted(descendants(os.getpid())),
        "mounts": Path("/proc/self/mounts").read_text("utf-8").count("\n"),
        "files": sorted(map(str, Path(tempfile.gettempdir()).rglob("*"))),
        "ipc": sorted(ipc_objects()),
    }


async def row(sandbox: ProcessSandbox, count: int) -> list[str]:
    """Run so many programs, one after the other, and return what came of each."""
    statuses: list[str] = []
    for index in range(count):
        code = PROGRAMS[index % len(PROGRAMS)]
        wall = 0.05 if code == ENDLESS else 20
        result = await backends.run(sandbox, code, wall_seconds=wall, processes=16)
        statuses.append(result.status)
    return statuses


async def many(backend: str, count: str) -> None:
    adopt_orphans()
    sandbox = backends.build(backend)
    await backends.run(sandbox, "print(1)")
    before = there()
    rows = await asyncio.gather(*(row(sandbox, int(count) // ROWS) for _ in range(ROWS)))
    statuses = [status for statuses in rows for status in statuses]
    print(json.dumps({"before": before, "after": there(), "statuses": statuses}))


class Impatient:
    """A backend whose first process is killed at once, where its namespace goes with it."""

    def __init__(self, inner: Backend) -> None:
        self.name, self.version = inner.name, inner.version
        self._inner = inner

    @asynccontextmanager
    async def prepare(self, *given: Any) -> AsyncIterator[Launch]:
        """Prepare a run as the other does."""
        async with self._inner.prepare(*given) as launch:
            yield replace(launch, patience=0.0) if launch.nested else launch


async def cancelled(backend: str, count: str) -> None:
    sandbox = ProcessSandbox(Impatient(backends.build(backend)._backend), backends.CEILING, 8)
    for moment in range(int(count)):
        run = asyncio.create_task(backends.run(sandbox, ENDLESS))
        await asyncio.sleep(moment / 1_000)
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run
    print(json.dumps(sorted(descendants(os.getpid()))))


async def hostile(backend: str, *names: str) -> None:
    """Run the programs in a row, in a sandbox of a worker that is not root."""
    adopt_orphans()
    sandbox = backends.build(backend)
    before, faults = open_descriptors(), {}
    for name in names:
        program = every()[name]
        faults[name] = program.faults(await sandbox.run(program.program({}, {})))
    left = [*descendants(os.getpid()), *(open_descriptors() - before)]
    print(json.dumps({"user": os.getuid(), "faults": faults, "left": left}))


def command(*words: str) -> list[str]:
    """Return what starts one of these workers, with options of Python's own before its words."""
    options = [word for word in words if word.startswith("-")]
    return [sys.executable, *options, __file__, *words[len(options) :]]


def environment(root: Path, temporary: Path) -> dict[str, str]:
    """Return the variables of a worker whose temporary files lie in a folder."""
    return {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(temporary)}


WORKERS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "endless": endless,
    "outlived": outlived,
    "many": many,
    "cancelled": cancelled,
    "hostile": hostile,
}

if __name__ == "__main__":
    asyncio.run(WORKERS[sys.argv[1]](*sys.argv[2:]))
