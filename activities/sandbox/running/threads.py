"""Threads of a sandbox's own, which nothing else that a worker does can keep busy."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from activities.sandbox.port import SandboxError

# One to measure what a run takes, another to clear up after it while the first still looks.
PER_RUN = 2

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Enough threads for so many runs at once: a limit is only enforced by one that is free."""

    def __init__(self, runs: int) -> None:
        self._pool = ThreadPoolExecutor(PER_RUN * runs, thread_name_prefix="mull-sandbox")

    async def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread. Raises SandboxError where none can be started."""
        try:
            called = self._pool.submit(work, *args, **kwargs)
        except RuntimeError as error:
            raise SandboxError(f"no thread of the sandbox's own: {error}") from error
        return await asyncio.wrap_future(called)
