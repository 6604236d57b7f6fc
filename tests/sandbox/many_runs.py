"""Run many programs in two rows at once, and print as JSON what is there before and after.

many_runs.py BACKEND COUNT
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from activities.sandbox.sandbox import ProcessSandbox
from tests.sandbox import backends
from tests.sandbox.canaries import adopt_orphans, descendants, ipc_objects, open_descriptors

ENDLESS = "import time\nwhile True: time.sleep(1)"
# Each leaves something behind where it can: a process, a zombie, a file, or all of its time.
PROGRAMS = (
    "print(1)",
    "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: os.fork() or os._exit(0)",
    "import os\nfor _ in range(9):\n    if os.fork() == 0: os._exit(0)\nos._exit(0)",
    "import tempfile\nopen('left', 'w').write('x')\ntempfile.mkstemp()",
    ENDLESS,
)
ROWS = 2


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


async def main(backend: str, count: int) -> None:
    sandbox = backends.build(backend)
    await backends.run(sandbox, "print(1)")
    before = there()
    rows = await asyncio.gather(*(row(sandbox, count // ROWS) for _ in range(ROWS)))
    statuses = [each for one in rows for each in one]
    print(json.dumps({"before": before, "after": there(), "statuses": statuses}))


if __name__ == "__main__":
    adopt_orphans()
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
