"""How many programs a worker takes at the same time."""

import asyncio
from contextlib import AsyncExitStack

from temporalio.client import Client

import worker
from activities.sandbox.port import TASK_QUEUE, Output, Program, Result
from mull.multipath.request import Limits
from tests import callers
from tests.patience import PATIENCE

NOTHING = Output(head="", tail="", size=0)
PROGRAMS = 6


class CountingSandbox:
    """A sandbox for two programs at the same time, which notes how many it has."""

    name = "counting"
    at_once = 2

    def __init__(self) -> None:
        self.now = self.most = self.ended = 0

    async def run(self, program: Program) -> Result:
        """Take a moment."""
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.3)
        self.now -= 1
        self.ended += 1
        return Result(
            status="ok", exit_code=0, signal=None, stdout=NOTHING, stderr=NOTHING,
            wall_seconds=0.3, cpu_seconds=0, peak_memory_bytes=0, backend=self.name,
            limits=program.limits,
        )  # fmt: skip


async def test_no_more_programs_than_the_sandbox_has_room_for(client: Client) -> None:
    """All of them end, two at a time: what the worker can't take waits in the queue.

    While every core is busy it takes one at a time, so a busy machine gets several tries.
    """
    sandbox, program = CountingSandbox(), Program(code="print(1)", limits=Limits())
    async with AsyncExitStack() as stack:
        for each in worker.build(client, ["code"], sandbox=sandbox):
            await stack.enter_async_context(each)
        async with asyncio.timeout(PATIENCE):
            while sandbox.most < 2:
                sandbox.ended = 0
                await callers.call(client, "run_code", TASK_QUEUE, program, Result, PROGRAMS)

    assert (sandbox.ended, sandbox.most) == (PROGRAMS, 2)
