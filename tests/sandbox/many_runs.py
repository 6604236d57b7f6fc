"""Run many programs in a row, and print as JSON what is there before and after.

many_runs.py BACKEND COUNT
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

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


def there() -> dict[str, object]:
    """List what this process has, and what others can see of it."""
    return {
        "descriptors": len(open_descriptors()),
        "processes": sorted(descendants(os.getpid())),
        "mounts": Path("/proc/self/mounts").read_text("utf-8").count("\n"),
        "files": sorted(map(str, Path(tempfile.gettempdir()).rglob("*"))),
        "ipc": sorted(ipc_objects()),
    }


async def main(backend: str, count: int) -> None:
    sandbox = backends.build(backend)
    await backends.run(sandbox, "print(1)")
    before = there()
    statuses = []
    for index in range(count):
        code = PROGRAMS[index % len(PROGRAMS)]
        wall = 0.15 if code == ENDLESS else 20
        result = await backends.run(sandbox, code, wall_seconds=wall, processes=16)
        statuses.append(result.status)
    print(json.dumps({"before": before, "after": there(), "statuses": statuses}))


if __name__ == "__main__":
    adopt_orphans()
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
