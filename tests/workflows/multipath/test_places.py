"""How many programs a worker for code takes at once."""

import asyncio

import pytest
from temporalio.client import Client

import worker
from activities.sandbox.port import TASK_QUEUE, Program, Result
from tests import callers
from tests.scripted import finished


class CountingSandbox:
    """Knows how many programs were given to it at once, and refuses none."""

    name = "counting"

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.most = 0
        self._now = 0

    async def run(self, program: Program) -> Result:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0.2)
        self._now -= 1
        return finished(program)


@pytest.mark.parametrize("at_once", [1, 3])
async def test_a_worker_takes_what_it_has_places_for(client: Client, at_once: int) -> None:
    """The others wait in the queue, where another worker may take them, and not in this one."""
    sandbox = CountingSandbox(at_once)
    (code,) = worker.build(client, ["code"], sandbox=sandbox)

    async with code:
        await callers.call(client, "run_code", TASK_QUEUE, Program(code="1"), Result, 6)

    assert sandbox.most == at_once
