"""Record the histories of this folder anew: python -m tests.replay.record (needs a server).

Run it only where a change to the order of steps is meant, and the workers of runs under way are
versioned; else the replay tests are right and the change is wrong.
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowFailureError

import telemetry
from activities.language_model import PermanentModelError, SampleError, TransientModelError
from activities.scripted_model import ScriptedModel
from connection import connect
from tests.conftest import begin, served, until_asked

FOLDER = Path(__file__).parent


async def record(client: Client, name: str, model: ScriptedModel, **fields: Any) -> None:
    """Run once and write the history down."""
    async with served(client, model):
        handle = await begin(client, {"question": "Which number is it?", **fields})
        if name == "finished-by-a-person":
            await until_asked(model, 5)
            await handle.execute_update("add_answer", {"answer": "7", "author": "ann"})
            await handle.execute_update("finish_now", {"author": "ann"})
        if name == "cancelled":
            await until_asked(model, 5)
            await handle.cancel()
        with suppress(WorkflowFailureError):
            await handle.result()
        history = await handle.fetch_history()
    (FOLDER / f"{name}.json").write_text(json.dumps(anonymous(json.loads(history.to_json()))))


def anonymous(part: Any) -> Any:
    """Leave out what tells of the machine: stack traces and the names of processes."""
    if isinstance(part, list):
        return [anonymous(each) for each in part]
    if not isinstance(part, dict):
        return part
    known = {name: anonymous(each) for name, each in part.items() if name != "stackTrace"}
    return known | ({"identity": "recorded"} if "identity" in known else {})


async def main() -> None:
    """Record one history for each way a run goes."""
    telemetry.set_up(None)
    client = await connect()
    busy = TransientModelError("busy", "RateLimitError", 429, retry_after=0.1)
    filtered = SampleError("filtered", "ContentPolicyViolationError", 400)
    await record(client, "waves", ScriptedModel(["7", "8", "7", "9", "7", "7", "8", "7", "7", "7"]))
    await record(
        client,
        "comparisons",
        ScriptedModel(
            ["seven", "7", "eight", "seven", "7"], same=lambda a, b: {a, b} == {"seven", "7"}
        ),
        answers="llm",
        max_responses=5,
    )
    await record(
        client,
        "failed-samples",
        ScriptedModel(["7", filtered, [busy, "7"], None, "7", "7", "7"]),
        answers="number",
    )
    await record(
        client,
        "deadline",
        ScriptedModel(["7", "7", "8", "7", "7"], delays=[0, 0, 30, 0, 30]),
        budget_seconds=2,
    )
    slow = ScriptedModel(["7"] * 5, delays=[0, 30, 30, 30, 30])
    await record(client, "finished-by-a-person", slow)
    await record(client, "cancelled", ScriptedModel(["7"] * 5, delays=[30] * 5))
    await record(client, "budget", ScriptedModel(["7", "8", "9"]), budget_tokens=350)
    await record(client, "no-consensus", ScriptedModel(["1", "2", "3", "4", "5"]), futility=0.05)
    wrong_key = PermanentModelError("no such key", "AuthenticationError", 401)
    await record(client, "failed", ScriptedModel([wrong_key] * 5))


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit()
