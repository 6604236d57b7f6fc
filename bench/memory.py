"""Measure how soon a worker is ready, and its memory: idle, and with open runs.

    .venv/bin/python -m bench.memory [--runs 1000]

Starts workers as they are shipped, one for each queue and one for all of them, on a development
server of their own, and prints the seconds until /readyz is 200 and their resident memory. Then
starts runs of `SelfConsistencyWorkflow` without a worker for model calls, so that they stay open,
and prints the memory of the worker on `mull` with all of them.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import median
from urllib.request import urlopen

from temporalio.client import Client

from bench import resident_mb, server
from commands.embedded import free_port
from mull.connection import TASK_QUEUE

AT_ONCE = 20
REST_SECONDS = 3
STARTS = 5


@contextmanager
def started(queues: str) -> Iterator[tuple[int, float]]:
    """Run a worker; some seconds after it is ready yield its id, and the seconds to ready."""
    health = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "worker.py", "--queues", queues, "--health", health]
    begun, worker = time.monotonic(), subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            with suppress(OSError), urlopen(f"http://{health}/readyz"):
                break
            assert worker.poll() is None, "the worker has ended"
            time.sleep(0.02)
        seconds = time.monotonic() - begun
        time.sleep(REST_SECONDS)
        yield worker.pid, seconds
    finally:
        worker.terminate()
        worker.wait(60)


async def measure(client: Client, runs: int) -> None:
    """Print the findings."""
    for queues in ("mull", "llm", "code", "tools", "mull,llm,code,tools"):
        times = []
        for _ in range(STARTS):
            with started(queues) as (worker, seconds):
                times.append(seconds)
                idle = resident_mb(worker)
        print(f"{queues}: ready after {median(times):.2f} s, idle {idle} MB", flush=True)
    with started("mull") as (worker, _):
        room = asyncio.Semaphore(AT_ONCE)

        async def begin(number: int) -> None:
            async with room:
                await client.start_workflow(
                    "SelfConsistencyWorkflow",
                    {"question": f"Is {number} prime?"},
                    id=f"open-{number}",
                    task_queue=TASK_QUEUE,
                )

        await asyncio.gather(*map(begin, range(runs)))
        handles = [client.get_workflow_handle(f"open-{number}") for number in range(runs)]
        for handle in handles:
            while not (await handle.describe()).raw_description.pending_activities:  # noqa: ASYNC110
                await asyncio.sleep(1)
        print(f"mull: {resident_mb(worker)} MB with {runs:,} open runs")


async def main(runs: int) -> None:
    """Measure on a separate server."""
    os.environ.setdefault("MULL_MODEL", "openai/none")
    async with server() as client:
        await measure(client, runs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    asyncio.run(main(parser.parse_args().runs))
