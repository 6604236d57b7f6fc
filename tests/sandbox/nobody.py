"""A sandbox of a worker that is not root; prints as JSON what came of some programs.

nobody.py BACKEND NAME...: hostile programs, by their ids
"""

import asyncio
import json
import os
import sys

from tests.sandbox import backends
from tests.sandbox.canaries import adopt_orphans, descendants, open_descriptors
from tests.sandbox.hostile_programs import every


async def main(backend: str, names: list[str]) -> None:
    """Run the programs in a row."""
    adopt_orphans()
    sandbox = backends.build(backend)
    before, faults = open_descriptors(), {}
    for name in names:
        hostile = every()[name]
        faults[name] = hostile.faults(await sandbox.run(hostile.program({}, {})))
    left = [*descendants(os.getpid()), *(open_descriptors() - before)]
    print(json.dumps({"user": os.getuid(), "faults": faults, "left": left}))


asyncio.run(main(sys.argv[1], sys.argv[2:]))
