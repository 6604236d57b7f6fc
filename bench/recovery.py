"""Kill the worker of runs of every workflow, and measure their delay.

    .venv/bin/python -m bench.recovery [--kills 6] [--stand-by] [--seed 7]

For each kill two runs of each workflow are begun, one after the other within some seconds, and the
only worker is killed at a random moment. It is started again at once, from nothing; or, with
`--stand-by`, another one polls by then. Prints how much later the runs under way at the kill ended
than undisturbed ones, and where that time went: the worker's start, repeated calls (from the kill
until their next attempt began), tasks that waited in the queue of the dead worker, and tasks that
it died with.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from temporalio.api.enums.v1 import EventType, TimeoutType

from bench.chaos import FROM_NOTHING
from tests.chaos.runs import REQUESTS, made
from tests.chaos.stage import Stage

SPREAD_SECONDS = 4.0
Parts = dict[str, list[float]]


async def timed(stage: Stage, kind: str, name: str, wait: float) -> tuple[str, float, float]:
    """Make one run after a while; return its kind, its start, and the seconds that it took."""
    await asyncio.sleep(wait)
    begin = time.time()
    await made(stage.client, kind, name)
    return kind, begin, time.time() - begin


async def waits(stage: Stage, names: str, killed: float, parts: Parts) -> None:
    """Read from the histories of runs their waits after the kill."""
    async for run in stage.client.list_workflows(f"WorkflowId STARTS_WITH '{names}'"):
        at: dict[int, float] = {}
        lost = 0.0
        async for event in stage.client.get_workflow_handle(
            run.id, run_id=run.run_id
        ).fetch_history_events():
            at[event.event_id] = now = event.event_time.ToNanoseconds() / 1e9
            began = event.activity_task_started_event_attributes
            if began.attempt > 1 and now > killed:
                lost = max(lost, now - killed)
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT and now > killed:
                ended = event.workflow_task_timed_out_event_attributes
                never = ended.timeout_type == TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START
                since = ended.scheduled_event_id if never else ended.started_event_id
                parts["queue of the dead" if never else "died with"].append(now - at[since])
        if lost:
            parts["call made again"].append(lost)


def told(name: str, found: Sequence[float]) -> None:
    """Print the median and the quartiles of a part."""
    if len(found) > 1:
        low, middle, high = statistics.quantiles(found, method="inclusive")
        said = f"{middle:.1f} s ({low:.1f}–{high:.1f}, at most {max(found):.1f}), n = {len(found)}"
        print(f"{name:>20}: {said}", flush=True)


async def measure(options: argparse.Namespace, folder: Path) -> None:
    """Measure undisturbed runs, and then as many kills as the options say."""
    chance, parts, delays = random.Random(options.seed), defaultdict[str, list[float]](list), []
    by_kind: Parts = defaultdict(list)
    async with Stage(folder) as stage:
        await stage.serve()
        usual: dict[str, float] = {}
        for kill in range(options.kills + 1):
            spare = asyncio.create_task(stage.serve()) if kill and options.stand_by else None
            waiting = [(kind, chance.uniform(0, SPREAD_SECONDS)) for kind in [*REQUESTS] * 2]
            runs = [
                asyncio.create_task(timed(stage, kind, f"k{kill}-{kind}-{number}", wait))
                for number, (kind, wait) in enumerate(waiting)
            ]
            if kill:
                await asyncio.sleep(chance.uniform(SPREAD_SECONDS, SPREAD_SECONDS + 2))
                if spare is not None:
                    await spare
                stage.workers.pop(0).kill()
                killed = time.time()
                if spare is None:
                    parts["worker's start"].append(await stage.serve(FROM_NOTHING))
            for kind, began, took in await asyncio.gather(*runs):
                if not kill:
                    usual[kind] = took
                elif began < killed < began + took:
                    delays.append(took - usual[kind])
                    by_kind[kind].append(took - usual[kind])
            if kill:
                await waits(stage, f"k{kill}-", killed, parts)
    told("delay", delays)
    for name, found in [*by_kind.items(), *parts.items()]:
        told(name, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--stand-by", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    with tempfile.TemporaryDirectory() as found:
        asyncio.run(measure(parser.parse_args(), Path(found)))
