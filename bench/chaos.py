"""Disturb runs of every workflow, and compare how each ends with an undisturbed one.

    .venv/bin/python -m bench.chaos --fault kills [--runs 300] [--at-once 12] [--seed 7] [--cut 60]

The faults: `kills` (SIGKILL of the worker at random moments, also while it recovers), `server`
(SIGKILL of the Temporal server, started again on its file), `network` (the connection of worker and
server cut, for `--cut` seconds), `version` (a worker of a nondeterministic version deployed and
taken back), `endpoint` (each way in which a provider fails), `clock` (the clock of the worker alone
steps to and fro; needs Debian's libfaketime). Prints how many runs ended differently, and how each
of them ended. Fails if there is one.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

from tests.chaos.runs import REQUESTS, reflects, replied
from tests.chaos.stage import Stage
from tests.scripted_endpoint import Body, Scripted, failing

FAKETIME = Path(f"/usr/lib/{os.uname().machine}-linux-gnu/faketime/libfaketime.so.1")
# Programs that are a worker: as users start it, and of a version that takes another step in runs
# that it has not begun itself. One that it began with that step could not go on elsewhere.
FROM_NOTHING = "import os, sys\nos.execv(sys.executable, [sys.executable, 'worker.py'])"
OTHER_VERSION = """
import asyncio
import worker
from temporalio import workflow
from workflows.base import Workflow

async def find_attributes(self, *run, found=Workflow._find_attributes):
    if workflow.unsafe.is_replaying():
        await asyncio.sleep(0.1)
    return await found(self, *run)

Workflow._find_attributes = find_attributes
worker.run()
"""
# What a provider does wrong, each before it replies well.
ENDPOINT_FAULTS: dict[str, Scripted] = {
    "reset": Scripted(reset=True),
    "429": failing(429, headers={"Retry-After": "1"}),
    "500": failing(500),
    "overloaded": failing(529),
    "half a body": Scripted("half", cut=True),
    "bad JSON": Scripted(body=b'{"choices": [{'),
    "HTML": Scripted(body=b"<html><body>Bad gateway</body></html>"),
    "garbage": Scripted(body=bytes(range(256))),
    "no choices": Scripted(choices=[]),
    "dripping": Scripted("late", drip=0.2),
    "hanging": Scripted("late", delay=100),
}


async def kills(stage: Stage, chance: random.Random, _: float) -> None:
    """Kill the worker, and half of the time the next one too, while it recovers."""
    for _ in range(chance.choice((1, 2))):
        stage.kill_workers()
        stage.start_worker()
        await asyncio.sleep(chance.uniform(0.5, 4))


async def server(stage: Stage, chance: random.Random, _: float) -> None:
    """Kill the Temporal server, and start it again on its file."""
    stage.kill_server()
    await asyncio.sleep(chance.uniform(0, 3))
    await stage.start_server()


async def network(stage: Stage, _: random.Random, seconds: float) -> None:
    """Cut the connection of the server and its workers for so long."""
    await stage.network.cut(seconds)


async def version(stage: Stage, chance: random.Random, _: float) -> None:
    """Deploy a nondeterministic version, and take it back."""
    stage.kill_workers()
    await stage.serve(OTHER_VERSION)
    # Until calls that were under way have been made again, so that the runs go on.
    await asyncio.sleep(chance.uniform(8, 12))
    stage.kill_workers()
    stage.start_worker()


async def endpoint(stage: Stage, chance: random.Random, seconds: float) -> None:
    """Have the provider fail in one way, for so long, the first time that it is asked something."""
    stage.reply = Failing(chance.choice([*ENDPOINT_FAULTS.values()]))
    await asyncio.sleep(seconds)
    stage.reply = replied


async def clock(stage: Stage, chance: random.Random, _: float) -> None:
    """Start a worker with a clock of its own, and step that to and fro."""
    file = stage.folder / "clock"
    if not file.exists():
        file.write_text("+0")
        known = {"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}
        known |= {"LD_PRELOAD": str(FAKETIME), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        stage.kill_workers()
        await stage.serve(FROM_NOTHING, **known)
    file.write_text(f"{chance.choice((-86_400, -3_600, -5, 5, 3_600, 86_400)):+}")


FAULTS = {one.__name__: one for one in (kills, server, network, version, endpoint, clock)}


class Failing:
    """A scripted model that fails in one of these ways when it is asked something first."""

    def __init__(self, *failures: Scripted) -> None:
        self._failures = cycle(failures)
        self._asked = set[str]()

    def __call__(self, request: Body) -> Scripted:
        """Fail, or reply."""
        key = json.dumps(request, sort_keys=True)
        # A reflection in a turn is asked for once: the result says what became of it.
        fails = key not in self._asked and not reflects(str(request["messages"][0]["content"]))
        self._asked.add(key)
        return next(self._failures) if fails else replied(request)


async def main(options: argparse.Namespace, folder: Path) -> int:
    """Disturb so many runs until they end; print which ended differently, return how many did."""
    chance = random.Random(options.seed)
    async with Stage(folder) as stage:
        stage.start_worker()
        expected = dict(zip(REQUESTS, await stage.runs(REQUESTS, "undisturbed"), strict=True))
        kinds = list(islice(cycle(options.only or REQUESTS), options.runs))
        runs = asyncio.create_task(stage.runs(kinds, options.fault, options.at_once))
        faults = 0
        while not (await asyncio.wait([runs], timeout=chance.uniform(2, 15)))[0]:
            await FAULTS[options.fault](stage, chance, options.cut)
            faults += 1
        other = [
            each for each in zip(kinds, await runs, strict=True) if each[1] != expected[each[0]]
        ]
    for kind, found in other:
        print(f"{kind}: {json.dumps(found)}\n  undisturbed: {json.dumps(expected[kind])}")
    print(f"{options.fault}: {len(kinds)} runs, {faults} faults, {len(other)} ended differently")
    return len(other)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fault", choices=FAULTS, required=True)
    parser.add_argument("--only", choices=REQUESTS, action="append", help="may be repeated")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--cut", type=float, default=60, help="seconds of a cut, or of failures")
    with tempfile.TemporaryDirectory() as place:
        sys.exit(asyncio.run(main(parser.parse_args(), Path(place))) > 0)
