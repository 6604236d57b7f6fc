"""Hold one long session: does it lose anything, and do its turns get slower or larger?

    .venv/bin/python -m bench.session [--turns 500] [--bytes 400] [--answer-bytes 400]

Messages are sent one after the other to one session on a development server with its database in
a file, with an instant scripted model that reads each message back. Each answer is checked. Prints
the median latency of the first and of the last fifty turns (a third of fewer turns), their ratio,
the histories with the largest one's bytes, and this process's memory, which is the worker's too.
Fails above a ratio of 1.3, or if anything is lost.
"""

import argparse
import asyncio
import statistics
import time
import uuid
from typing import Any

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy

from activities.language_model.port import ModelCall, ModelReply
from activities.tools.activity import ToolActivities
from bench import resident_mb, server
from mull import telemetry
from mull.connection import TASK_QUEUE
from tests.scripted import reply
from worker import build, running

MOST_RATIO = 1.3


class Reader:
    """Read the number of the last message back, in an answer of the wanted size."""

    def __init__(self, answer_bytes: int) -> None:
        self.answer_bytes = answer_bytes
        self.summaries = 0

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer at once."""
        asked = str(call.messages[-1]["content"])
        summary = asked.startswith("Summarize the earlier part")
        self.summaries += summary
        said = asked.partition(" ")[0].ljust(self.answer_bytes, ".")
        return reply("What was said." if summary else said)


async def hold(client: Client, turns: int, size: int) -> tuple[str, list[float], int]:
    """Send the messages; return the session, the seconds of each turn, and the memory at 50."""
    session, took, memory = f"session-{uuid.uuid4().hex[:8]}", list[float](), 0
    for number in range(1, turns + 1):
        begun = WithStartWorkflowOperation[Any, Any](
            "SessionWorkflow",
            {"tools": []},
            id=session,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        began = time.perf_counter()
        answer = await client.execute_update_with_start_workflow(
            "send",
            {"message": f"{number} ".ljust(size, ".")},
            id=f"message-{number}",
            start_workflow_operation=begun,
        )
        took.append(time.perf_counter() - began)
        said = (answer["answer"] or "").rstrip(".")
        if (answer["number"], said) != (number, str(number)):
            raise SystemExit(f"turn {number} was lost: {answer}")
        if number == min(50, turns):
            memory = resident_mb()
    return session, took, memory


async def main(given: argparse.Namespace) -> None:
    """Hold the session, and print the measurements."""
    telemetry.set_up(None)
    model, tools = Reader(given.answer_bytes), ToolActivities({})
    queues = ["mull", "llm", "tools"]
    async with server() as client, running(build(client, queues, model, called=tools)):
        session, took, memory = await hold(client, given.turns, given.bytes)
        seen = await client.get_workflow_handle(session).query("progress")
        await tell(client, session, took, memory, seen, model.summaries)


async def tell(
    client: Client, session: str, took: list[float], memory: int, seen: Any, summaries: int
) -> None:
    """Print the findings. Raises SystemExit if they miss the bounds."""
    window = min(50, len(took) // 3)
    first, last = (statistics.median(part) for part in (took[:window], took[-window:]))
    sizes = [
        await history_bytes(client, session, run.run_id)
        async for run in client.list_workflows(f"WorkflowId = '{session}'")
    ]
    turn = await history_bytes(client, f"{session}-turn-{len(took)}")
    print(f"{len(took)} turns, none lost; {summaries} summaries; {seen['messages']} messages kept")
    print(f"latency: {1000 * first:.0f} ms, then {1000 * last:.0f} ms: {last / first:.2f} times")
    print(f"histories: {len(sizes)}, the largest {max(sizes):,} bytes; the last turn's {turn:,}")
    print(f"memory: {memory} MB after 50 turns, {resident_mb()} MB at the end")
    if last / first > MOST_RATIO or seen["turns"] != len(took):
        raise SystemExit(1)


async def history_bytes(client: Client, workflow_id: str, run_id: str | None = None) -> int:
    """Return the size of a history."""
    found = await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    return found.raw_description.workflow_execution_info.history_size_bytes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--bytes", type=int, default=400)
    parser.add_argument("--answer-bytes", type=int, default=400)
    asyncio.run(main(parser.parse_args()))
