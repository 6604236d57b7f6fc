"""Run programs that never end, and print a line when all of them run.

endless_run.py BACKEND COUNT
"""

import asyncio
import os
import sys

from tests.sandbox import backends
from tests.sandbox.canaries import descendants

CODE = """
import os, signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(2):
    if os.fork() == 0: os.setsid()
while True: time.sleep(1)
"""
TREE = 4


async def main(backend: str, count: int) -> None:
    sandbox = backends.build(backend, at_once=count)
    runs = [asyncio.create_task(backends.run(sandbox, CODE)) for _ in range(count)]
    while sum(1 for _ in descendants(os.getpid())) < count * TREE:
        await asyncio.sleep(0.01)
    print("running", flush=True)
    await asyncio.gather(*runs)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
