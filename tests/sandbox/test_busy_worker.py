"""A worker whose own threads are all taken by something else."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from activities.sandbox.sandbox import ProcessSandbox
from tests.sandbox import backends

THREADS = 2
# Each process is below the limit, and all together are not, which only the watcher sees.
BOMB = "import os, time\nos.fork()\nos.fork()\nx = b'x' * (30 << 20)\ntime.sleep(9)"


@pytest.fixture
async def taken() -> AsyncIterator[None]:
    """The event loop's own threads, all of them busy."""
    loop, done = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    busy = [loop.run_in_executor(None, done.wait, 30) for _ in range(THREADS)]
    yield
    done.set()
    await asyncio.gather(*busy)


@pytest.mark.usefixtures("taken")
async def test_limits_hold(sandbox: ProcessSandbox) -> None:
    """A limit that the watcher enforces holds all the same."""
    result = await backends.run(sandbox, BOMB, memory_mb=64, wall_seconds=8)

    assert result.status == "memory_limit"


@pytest.mark.usefixtures("taken")
async def test_programs_do_not_wait(sandbox: ProcessSandbox) -> None:
    """A program is started, measured and cleared away at once all the same."""
    begin = time.monotonic()

    result = await backends.run(sandbox, "print(1)")

    assert (result.status, result.stdout.text) == ("ok", "1\n")
    assert time.monotonic() - begin < 5
