"""Measure how the history of a turn grows with its steps, at the largest context.

    .venv/bin/python -m bench.turn_history [--steps 6 30]

A scripted model reads earlier messages of about 190,000 tokens (prose, or random printable text,
which hardly compresses), and calls a tool with a result of 32,000 bytes in each step. The
server is a development server. Prints the events and bytes of each history, as the server counts.
"""

import argparse
import asyncio
import random
import string
import uuid
from pathlib import Path
from typing import Any

from temporalio.client import Client

from activities.language_model.port import Abilities, ModelCall, ModelReply
from activities.tools import tool
from activities.tools.activity import ToolActivities
from activities.tools.functions import functions_of
from bench import server
from mull import telemetry
from mull.run import Spending
from mull.turn.tools import RESULT_BYTES, AskedCall
from worker import build, running

PIECES, PIECE_BYTES = 3, 98_000
WORDS = (Path(__file__).parents[1] / "docs" / "operations.md").read_text("utf-8").split()


def prose(chance: random.Random, size: int) -> str:
    """Write words of a real text in random order."""
    return " ".join(chance.choices(WORDS, k=size // 6))[:size]


def noise(chance: random.Random, size: int) -> str:
    """Write random printable characters that JSON does not escape."""
    return "".join(chance.choices(string.ascii_letters + string.digits + "+-/", k=size))


class Calling:
    """A model that calls the tool in every step."""

    async def complete(self, _: ModelCall) -> ModelReply:
        """Ask for one more result."""
        asked = AskedCall(id=uuid.uuid4().hex, name="fetch", arguments="{}")
        spent = Spending(calls=1, input_tokens=1, output_tokens=1)
        known = {"model": "scripted", "provider": "scripted", "finish_reason": "tool_calls"}
        return ModelReply(text="", calls=(asked,), spending=spent, **known)


async def measure(client: Client, kind: str, steps: int) -> None:
    """Run one turn and print the size of its history."""
    chance = random.Random(7)
    write = {"prose": prose, "noise": noise}[kind]

    @tool(read_only=True)
    def fetch() -> str:
        """Fetch a text."""
        return write(chance, RESULT_BYTES - 200)

    called = ToolActivities(functions_of(fetch))
    earlier = [{"role": "user", "content": write(chance, PIECE_BYTES)} for _ in range(PIECES - 1)]
    request = {
        "message": write(chance, PIECE_BYTES),
        "messages": earlier,
        "context": [write(chance, PIECE_BYTES)],
        "max_steps": steps,
        "budget_seconds": 500,
    }
    queues = ["mull", "llm", "tools"]
    workers = build(client, queues, Calling(), called=called, abilities=able)
    async with running(workers):
        handle = await client.start_workflow(
            "ToolTurnWorkflow", request, id=f"bench-{uuid.uuid4()}", task_queue="mull"
        )
        result: Any = await handle.result()
        described = (await handle.describe()).raw_description.workflow_execution_info
    events, size = described.history_length, described.history_size_bytes
    used = result["budget"]["context_tokens_used"]
    print(
        f"{kind:6} {result['budget']['steps_used']:3} steps, largest call {used:,} tokens:"
        f" {events:,} events, {size / 1e6:.2f} MB ({size / steps / 1e3:.0f} kB a step)"
    )


def able(_: str | None) -> Abilities:
    """Take tools."""
    return Abilities(tools=True, effort=False)


async def main() -> None:
    """Measure each kind of text with each number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 6, 30])
    options = parser.parse_args()
    telemetry.set_up(None)
    async with server() as client:
        for kind in ("prose", "noise"):
            for steps in options.steps:
                await measure(client, kind, steps)


if __name__ == "__main__":
    asyncio.run(main())
