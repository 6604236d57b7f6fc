"""Run a large batch by instant calls: its throughput, its history and the worker's memory.

    .venv/bin/python -m bench.batch [--lines 20000] [--concurrency 32]
    .venv/bin/python -m bench.batch --behind 1000 [--unfair]

Each line is a run of self-consistency with one answer. Server, worker and this program share the
machine. Prints one JSON object: lines a second, the histories of the batch with the events and
bytes of the largest, and the worker's memory in MB after a tenth of the lines and at the end.

With --behind it starts that many plain runs of a hundred answers each, which never converge, and
then asks for one answer: as a person who follows the run, with the default priority, and with a
fairness key in its start. It prints the seconds of each, and the number of other calls meanwhile.
--unfair turns the server's fairness off.
"""

import argparse
import asyncio
import json
import time
import uuid
from contextlib import suppress
from typing import Any

from temporalio.client import Client
from temporalio.common import Priority
from temporalio.service import RPCError

import service
from activities.language_model.port import ModelCall, ModelReply
from adapters import QUEUES
from bench import resident_mb, server
from commands import embedded
from commands.lines import PAGE_LINES
from commands.pages import send_page
from mull import telemetry
from mull.batch.request import BatchPage, Item
from mull.batch.result import BatchResult
from mull.connection import TASK_QUEUE
from mull.request import PERSON_PRIORITY
from tests.scripted import reply
from worker import build, running


class InstantModel:
    """A model that answers 7 at once, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer 7."""
        del call
        self.calls += 1
        return reply('{"reasoning": "", "answer": "7"}')


class DifferingModel(InstantModel):
    """A model that gives no answer twice."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer with a number of its own."""
        await super().complete(call)
        return reply(f'{{"reasoning": "", "answer": "{self.calls}"}}')


PRIORITIES = {
    "followed": Priority(priority_key=PERSON_PRIORITY),
    "fairness_key": Priority(fairness_key="somebody-else"),
    "plain": Priority(),
}
LONGEST_SECONDS = 120


async def wait_behind(client: Client, model: InstantModel, runs: int) -> dict[str, Any]:
    """Start plain runs, and time one answer behind them, in several ways; None: not in time."""
    begun, together = time.perf_counter(), asyncio.Semaphore(32)

    async def start(answers: int, priority: Priority = PRIORITIES["plain"]) -> Any:
        async with together:
            return await client.start_workflow(
                "SelfConsistencyWorkflow",
                {"question": "How much?", "max_responses": answers},
                id=f"behind-{uuid.uuid4().hex}",
                task_queue=TASK_QUEUE,
                priority=priority,
            )

    await (await start(1)).result()
    await asyncio.gather(*(start(100) for _ in range(runs)))
    found: dict[str, Any] = {"runs": runs, "started_s": round(time.perf_counter() - begun, 1)}
    for name, priority in PRIORITIES.items():
        begun, before = time.perf_counter(), model.calls
        answered = asyncio.create_task((await start(1, priority)).result())
        await asyncio.wait({answered}, timeout=LONGEST_SECONDS)
        seconds = round(time.perf_counter() - begun, 2) if answered.done() else None
        found[name] = {"s": seconds, "calls_of_others": model.calls - before - 1}
        answered.cancel()
    return found


async def measure(client: Client, lines: int, concurrency: int) -> dict[str, Any]:
    """Run a batch of this many lines on a running worker."""
    pages = -(-lines // PAGE_LINES)
    variant = {"name": "ask", "workflow": "SelfConsistencyWorkflow"}
    request = {
        "variants": [{**variant, "request": {"max_responses": 1}}],
        "pages": pages,
        "max_concurrency": concurrency,
    }
    began, identity = time.perf_counter(), f"batch-{uuid.uuid4().hex}"
    handle = await client.start_workflow(
        "BatchWorkflow", request, id=identity, task_queue=TASK_QUEUE, result_type=BatchResult
    )
    for number in range(pages):
        texts = range(number * PAGE_LINES, min(lines, (number + 1) * PAGE_LINES))
        items: tuple[Item, ...] = tuple({"question": f"What is half of {text}?"} for text in texts)
        await send_page(handle, BatchPage(number=number, items=items))
    accepted = time.perf_counter() - began
    early = None
    ending = asyncio.create_task(handle.result())
    while not ending.done():
        await asyncio.wait({ending}, timeout=2)
        if early is None and not ending.done():
            done = (await handle.query("progress"))["done"]
            early = resident_mb() if done >= lines / 10 else None
    seconds = time.perf_counter() - began
    result, histories = ending.result(), await _histories(client, identity)
    return {
        "lines": lines,
        "completed": result.completed,
        "seconds_until_accepted": round(accepted, 1),
        "seconds": round(seconds, 1),
        "lines_a_second": round(lines / seconds, 1),
        "histories": len(histories),
        "most_events": max(events for events, _ in histories),
        "most_bytes": max(size for _, size in histories),
        "memory_mb_after_a_tenth": early,
        "memory_mb_at_the_end": resident_mb(),
    }


async def _histories(client: Client, identity: str) -> list[tuple[int, int]]:
    """Find the events and bytes of each history of a batch, the last one first."""
    found, run = list[tuple[int, int]](), ""
    while True:
        handle = client.get_workflow_handle(identity, run_id=run or None)
        info = (await handle.describe()).raw_description.workflow_execution_info
        found.append((info.history_length, info.history_size_bytes))
        event = await anext(handle.fetch_history_events(page_size=1))
        run = event.workflow_execution_started_event_attributes.continued_execution_run_id
        if not run:
            return found


async def main(options: argparse.Namespace) -> None:
    """Serve and measure."""
    telemetry.set_up(None)
    service.silence_ordinary()
    model = DifferingModel() if options.behind else InstantModel()
    if options.unfair:
        embedded.SETTINGS = tuple(each for each in embedded.SETTINGS if "Fairness" not in each)
    async with server() as client, running(build(client, QUEUES, model)):
        if options.behind:
            found = await wait_behind(client, model, options.behind)
            # The other runs would take a quarter of an hour: do not wait for them.
            print(json.dumps(found), flush=True)
            async for run in client.list_workflows("ExecutionStatus = 'Running'"):
                with suppress(RPCError):  # It may have ended since.
                    await client.get_workflow_handle(run.id).terminate()
        else:
            found = await measure(client, options.lines, options.concurrency)
    print(json.dumps({**found, "calls": model.calls}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--behind", type=int, metavar="RUNS")
    parser.add_argument("--unfair", action="store_true")
    asyncio.run(main(parser.parse_args()))
