"""Compare Mull with a bare workflow: latency and throughput, alternating in one run.

    .venv/bin/python -m bench.overhead [--rounds 30] [--batch 40]

Both run instant activities in the same shape (waves) on the same server, a development server
with its database in a file: 10 samples, or the four calls of a draft that is revised once.
Mull runs as it is shipped: tracing to a file, the pydantic converter, no sandbox. The bare workflow
runs with the SDK's defaults, or without the sandbox if `--unsandboxed` is given. Prints medians,
ratios and the quartiles of the ratios, and fails above 1.2 times the latency or below 0.82 of the
throughput.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

import telemetry
import worker
from activities.language_model.layers import ObservedModel
from activities.language_model.port import LanguageModel, ModelCall, ModelReply
from bench.bare import BareWorkflow, nothing
from commands.embedded import Place, free_port, server_command
from connection import NoServerError, connect
from tests.scripted import ScriptedCritic, ScriptedModel


class Shape(NamedTuple):
    """One of Mull's runs, and its waves of calls."""

    waves: list[int]
    workflow: str
    request: dict[str, object]
    model: Callable[[], LanguageModel]


def sampling(waves: list[int], answers: list[str], **more: object) -> Shape:
    """Shape a run of self-consistency."""
    request = {"question": "How fast?", **more}
    return Shape(waves, "SelfConsistencyWorkflow", request, lambda: ScriptedModel(answers))


class Forgetful(ScriptedCritic):
    """The scripted critic, for any number of runs."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Reply as in the first run."""
        self._turns.clear()
        return await super().complete(call)


SHAPES: dict[str, Shape] = {
    "one wave of 10": sampling([10], ["7"] * 10, rule="fixed"),
    "waves of 5 and 5": sampling([5, 5], ["7", "7", "7", "8", "9", "7", "8", "7", "9", "8"]),
    "one revision, 4 calls": Shape(
        [1, 1, 1, 1],
        "ReflectOnResultWorkflow",
        {"query": "Explain how fast it is"},
        lambda: Forgetful(["first", "second"], [0.2, 0.4]),
    ),
}

Run = Callable[[], Awaitable[object]]
Found = dict[str, dict[str, Any]]

MOST_LATENCY, LEAST_THROUGHPUT = 1.2, 0.82


async def seconds(run: Run, times: int = 1) -> float:
    """Time `times` concurrent runs."""
    started = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(times)))
    return time.perf_counter() - started


async def compare(bare: Run, mull: Run, rounds: int, times: int) -> tuple[list[float], list[float]]:
    """Time both in turn, so that other load on the machine affects both alike."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        for side in order:
            found[side].append(await seconds((bare, mull)[side], times))
    return found


def report(name: str, bare: list[float], mull: list[float]) -> dict[str, float]:
    """Print and return medians and the ratio with its quartiles."""
    ratios = [ours / theirs for ours, theirs in zip(mull, bare, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    ratio = statistics.median(mull) / statistics.median(bare)
    print(
        f"{name:<34} bare {statistics.median(bare) * 1e3:7.1f} ms"
        f"   mull {statistics.median(mull) * 1e3:7.1f} ms"
        f"   ratio {ratio:.2f} (quartiles {low:.2f} to {high:.2f})"
    )
    return {"ratio": ratio, "low": low, "high": high}


async def measure(client: Client, plain: Client, options: argparse.Namespace) -> Found:
    """Measure every shape: one run at a time, then a concurrent batch."""
    rounds, batch = options.rounds, options.batch
    plainly = UnsandboxedWorkflowRunner() if options.unsandboxed else SandboxedWorkflowRunner()
    found: Found = {}
    for name, shape in SHAPES.items():
        model = ObservedModel(shape.model(), "scripted/model")

        async def bare(shape: Shape = shape) -> None:
            await plain.execute_workflow(
                BareWorkflow.run, shape.waves, id=f"bare-{uuid.uuid4()}", task_queue="bare"
            )

        async def mull(shape: Shape = shape) -> None:
            result = await client.execute_workflow(
                shape.workflow, shape.request, id=f"mull-{uuid.uuid4()}", task_queue="mull"
            )
            assert result["usage"]["calls"] == sum(shape.waves), result["usage"]

        async with AsyncExitStack() as stack:
            workers = [
                *worker.build(client, worker.QUEUES, model),
                Worker(plain, task_queue="bare", workflows=[BareWorkflow], workflow_runner=plainly),
                Worker(plain, task_queue="bare-calls", activities=[nothing]),
            ]
            for serving in workers:
                await stack.enter_async_context(serving)
            await compare(bare, mull, 3, 1)
            one = report(f"{name}, one at a time", *await compare(bare, mull, rounds, 1))
            many = await compare(bare, mull, max(3, rounds // 3), batch)
            several = report(f"{name}, {batch} at once", *many)
        found[name] = {
            "latency": one,
            "throughput": 1 / several["ratio"],
            "within": one["ratio"] <= MOST_LATENCY and 1 / several["ratio"] >= LEAST_THROUGHPUT,
        }
        print(f"{'':<34} throughput {1 / several['ratio']:.2f} of the bare workflow's")
    return found


async def reach(server: "subprocess.Popen[bytes]") -> Client:
    """Connect once the server is up."""
    for _ in range(100):
        try:
            return await connect()
        except NoServerError:
            assert server.poll() is None
            await asyncio.sleep(0.2)
    raise SystemExit("the server did not start")


async def benchmark(
    place: Place, server: "subprocess.Popen[bytes]", spans: Path, options: argparse.Namespace
) -> Found:
    """Trace to a file, connect to the server, and measure."""
    tracing = telemetry.set_up(spans)
    os.environ["TEMPORAL_ADDRESS"] = place.address
    client, plain = await reach(server), await Client.connect(place.address)
    found = await measure(client, plain, options)
    tracing.shutdown()
    return found


def main(options: argparse.Namespace) -> None:
    """Start a server, measure, stop it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = Place(free_port(), free_port(), folder / "temporal.db")
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(server_command(place), stdout=log, stderr=log)
        try:
            found = asyncio.run(benchmark(place, server, folder / "spans.jsonl", options))
        finally:
            server.terminate()
            server.wait(30)
    if options.json:
        print(json.dumps(found))
    beyond = [shape for shape, measured in found.items() if not measured["within"]]
    if beyond:
        raise SystemExit(f"beyond the bounds ({MOST_LATENCY}, {LEAST_THROUGHPUT}): {beyond}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--unsandboxed", action="store_true", help="the bare side too")
    parser.add_argument("--json", action="store_true")
    main(parser.parse_args())
