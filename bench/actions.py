"""Count the Temporal Actions of runs, which Temporal Cloud bills, by the server's own metric.

    .venv/bin/python -m bench.actions [--latency 30] [--only ask] [--messages 20] [--questions 100]

Each run is made three times against a scripted model that takes --latency seconds for a call: as a
bare workflow with as many activities, by a command with `--detach`, and by one that follows it.
MULL_HEARTBEAT_SECONDS is set as for any worker. Prints the Actions, and their kinds.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio.worker import Worker

from bench.bare import BareParent, BareSession, BareWorkflow, nothing
from mull import telemetry
from tests.chaos.runs import REQUESTS, replied
from tests.chaos.stage import Stage
from tests.scripted_endpoint import Body, Scripted

QUESTION = "How much?"
HELLO = "Hello"
# An answer of 2,000 characters, written in this many parts within the latency.
TOLD, PARTS = "Tell a story", 500
# Numbers of activities of the workflows, wave by wave: samples; draft, judge, revise, judge; route,
# code, tests, run, repair, run; three steps and two tools.
WAVES: dict[str, list[int]] = {
    "ask": [3],
    "reflect": [1] * 4,
    "agent": [1] * 6,
    "turn": [1] * 5,
    "streamed": [1],
    "session": [1],
    "batch": [3],
}
ASK = ["--max-responses", "3", "--seed", "0"]


def commands(folder: Path, messages: int, questions: int) -> dict[str, list[list[str]]]:
    """List the commands that each kind of run takes, without an id."""
    lines = folder / "questions.jsonl"
    lines.write_text(f"{json.dumps(QUESTION)}\n" * questions)
    turn = ["turn", "--think-level", "low"]
    return {
        "ask": [["ask", QUESTION, *ASK]],
        "reflect": [["reflect", str(REQUESTS["reflect"][1]["query"]), "--max-revisions", "1"]],
        "agent": [["agent", str(REQUESTS["agent"][1]["prompt"])]],
        "turn": [[*turn, "Compute it"]],
        "streamed": [["turn", "--stream", TOLD]],
        "session": [[*turn, f"{HELLO} {each}", "--session"] for each in range(messages)],
        "batch": [["batch", str(lines), "--command", "ask", "--accept-any", "--", *ASK]],
    }


async def mull(stage: Stage, run: list[list[str]], name: str, *given: str) -> None:
    """Run the commands one after the other, and wait until their runs have ended."""
    for words in run:
        # Options after -- are each question's, not the batch's.
        end = words.index("--") if "--" in words else len(words)
        named = [name] if words[-1] == "--session" else ["--id", name]
        # In a terminal the command reads a turn's text while it is written.
        ours, theirs = os.openpty()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "starter.py", *words[:end], *named, *given, *words[end:]),
            stdout=asyncio.subprocess.PIPE,
            stderr=theirs if words[-1] == TOLD else asyncio.subprocess.DEVNULL,
        )
        asyncio.get_running_loop().add_reader(ours, os.read, ours, 65_536)
        said, _ = await process.communicate()
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
        os.close(theirs)
        if process.returncode not in {0, 4}:
            raise SystemExit(f"{words[0]} ended with {process.returncode}")
        if given:
            await stage.client.get_workflow_handle(said.decode().strip()).result()


async def bare(stage: Stage, kind: str, run: list[list[str]], questions: int) -> None:
    """Make the run as bare workflows, with as many activities as Mull's."""
    if kind == "session":
        handle = await stage.client.start_workflow(BareSession.run, id="bare", task_queue="bare")
        for _ in run:
            await handle.execute_update(BareSession.send, [1])
        await handle.cancel()
        return
    inputs: list[Any] = [[3], questions] if kind == "batch" else [WAVES[kind]]
    workflow = BareParent.run if kind == "batch" else BareWorkflow.run
    await stage.client.execute_workflow(workflow, args=inputs, id=f"bare-{kind}", task_queue="bare")


async def counted(stage: Stage, make: Awaitable[None]) -> Counter[str]:
    """Count a run's Actions, with the heartbeats of calls that it left."""
    before = stage.actions()
    await make
    await asyncio.sleep(1)
    return stage.actions() - before


async def measure(given: argparse.Namespace, folder: Path) -> None:
    """Print a line for each run and each way to make it."""
    telemetry.set_up(None)
    async with Stage(folder) as stage:
        stage.reply = lambda request: said(request, given.latency)
        flows = [BareWorkflow, BareParent, BareSession]
        await stage.serve()
        async with (
            Worker(stage.client, task_queue="bare", workflows=flows),
            Worker(stage.client, task_queue="bare-calls", activities=[nothing]),
        ):
            for kind, run in commands(folder, given.messages, given.questions).items():
                if given.only in {None, kind}:
                    ways = {
                        "bare": bare(stage, kind, run, given.questions),
                        "detached": mull(stage, run, f"{kind}-detached", "--detach"),
                        "followed": mull(stage, run, f"{kind}-followed"),
                    }
                    for way, make in ways.items():
                        found = await counted(stage, make)
                        kinds = ", ".join(f"{name} {count}" for name, count in found.most_common())
                        print(f"{kind:8} {way:9} {found.total():5}   {kinds}", flush=True)


def said(request: Body, latency: float) -> Scripted:
    """Greet, tell a story bit by bit, or reply as in the chaos tests."""
    newest = str(request["messages"][-1]["content"])
    if newest.startswith(TOLD):
        return Scripted("Once. " * (4 * PARTS // 6), drip=latency / PARTS)
    found = Scripted("Hello.") if newest.startswith(HELLO) else replied(request)
    return replace(found, delay=latency)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", type=float, default=30.0)
    parser.add_argument("--only", choices=list(WAVES))
    parser.add_argument("--messages", type=int, default=20)
    parser.add_argument("--questions", type=int, default=100)
    with tempfile.TemporaryDirectory() as found:
        asyncio.run(measure(parser.parse_args(), Path(found)))
