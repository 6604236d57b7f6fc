"""Compare every workflow with a bare one: latency, throughput, CPU, history and replay.

    .venv/bin/python -m bench.overhead [--rounds 12] [--only turn] [--busy] [--litellm]

Both make instant activities in the same shape (waves) on the same server, a development server
with its database in a file, alternating in one run. Mull runs as shipped: tracing to a file,
the pydantic converter, no sandbox. The bare workflow runs with the SDK's defaults, or without the
sandbox if `--unsandboxed` is given. A session's run is one message to a new session, and a batch's
five questions of two samples: the bare ones have the same update and the same children.

Prints medians, and the median and quartiles of the ratios of pairs of runs; fails if that median is
above 1.2 times the latency or below 0.82 of the throughput. CPU is that of this process,
which is client and worker, over the concurrent runs. History and replay are of one run, without its
children. With `--litellm` samples go through LiteLLM, to an endpoint in its own process that
answers at once. The bounds are for a quiet machine and for activities as instant as the bare ones:
they do not apply with `--busy` and `--litellm`.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

import service
import worker
from activities.language_model.layers import ObservedModel
from activities.language_model.port import LanguageModel, ModelCall, ModelReply
from adapters import QUEUES
from bench import Quartiles, busy, parser, ratios, server
from bench.bare import BareParent, BareSession, BareWorkflow, nothing
from mull import telemetry
from mull.connection import connect
from tests.scripted import ScriptedModel
from tests.workflows.multipath.running import FINE, finding, passage, researching
from tests.workflows.turn.running import Noted


class Shape(NamedTuple):
    """One of Mull's runs, and its waves of activities; `children` run them in its place."""

    waves: list[int]
    workflow: str
    request: dict[str, object]
    model: Callable[[], LanguageModel]
    children: int = 0


def sampling(waves: list[int], answers: list[str], **more: object) -> Shape:
    """Shape a run of self-consistency."""
    request = {"question": "How fast?", **more}
    return Shape(waves, "SelfConsistencyWorkflow", request, lambda: ScriptedModel(sample=answers))


ENDPOINT = """
import sys
from tests.scripted_endpoint import ScriptedEndpoint

with ScriptedEndpoint(['{"reasoning": "", "answer": "7"}'] * 1_000_000) as endpoint:
    print(endpoint.url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def through_litellm() -> Iterator[LanguageModel]:
    """Yield LiteLLM's adapter, for a model whose price it knows, and an endpoint that answers 7."""
    from activities.language_model.litellm_model import LiteLLMModel

    command, pipe = [sys.executable, "-c", ENDPOINT], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as endpoint:
        assert endpoint.stdin is not None
        assert endpoint.stdout is not None
        os.environ["OPENAI_API_BASE"] = endpoint.stdout.readline().strip()
        os.environ["OPENAI_API_KEY"] = "none"
        yield LiteLLMModel("openai/gpt-5-mini")
        endpoint.stdin.close()


class Forgetful:
    """A scripted model for any number of runs, made anew for each call."""

    def __init__(self, make: Callable[[], LanguageModel]) -> None:
        self._make = make

    async def complete(self, call: ModelCall) -> ModelReply:
        """Reply as in the first run."""
        return await self._make().complete(call)


class Caller:
    """A model that calls one tool, and then answers; without tools it answers at once."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Reply by the kind of the last message."""
        model = ScriptedModel(step=[[("look", {"place": "sea"})], "It is blue."])
        if not call.tools or call.messages[-1]["role"] == "tool":
            model = ScriptedModel(step=["It is blue."])
        return await model.complete(call)


class Tides:
    """A folder with one passage, found at once."""

    async def retrieve(self, *given: Any) -> Any:
        """Find the same passage each time."""
        return await finding(passage()).retrieve(*given)


TWO_SAMPLES = {"min_responses": 1, "max_responses": 2, "rule": "fixed"}
ASKED = {"name": "ask", "workflow": "SelfConsistencyWorkflow", "takes": {"question": "question"}}
SHAPES: dict[str, Shape] = {
    "one wave of 10": sampling([10], ["7"] * 10, rule="fixed"),
    "waves of 5 and 5": sampling([5, 5], ["7", "7", "7", "8", "9", "7", "8", "7", "9", "8"]),
    "one revision, 4 calls": Shape(
        [1, 1, 1, 1],
        "ReflectOnResultWorkflow",
        {"query": "Explain how fast it is"},
        lambda: Forgetful(lambda: ScriptedModel(write=["first", "second"], judge=[0.2, 0.4])),
    ),
    "an agent's report, 4 activities": Shape(
        [1, 1, 1, 1],
        "MultiPathWorkflow",
        {"prompt": "How fast?", "docs": "tides"},
        lambda: Forgetful(lambda: researching(FINE)),
    ),
    "a turn with a tool, 5 activities": Shape(
        [1, 1, 1, 1, 1], "ToolTurnWorkflow", {"message": "How fast?"}, Caller
    ),
    "a session's turn, 3 activities": Shape(
        [1, 1, 1], "SessionWorkflow", {"tools": []}, Caller, children=1
    ),
    "a batch of 5 questions, 2 calls each": Shape(
        [2],
        "BatchWorkflow",
        {
            "items": [{"question": "How fast?"}] * 5,
            "variants": [{**ASKED, "request": TWO_SAMPLES}],
            "max_concurrency": 5,
        },
        lambda: ScriptedModel(sample=["7", "7"]),
        children=5,
    ),
}

BARE = [BareWorkflow, BareParent, BareSession]
Run = Callable[[str], Awaitable[None]]
Times = list[tuple[float, float]]

MOST_LATENCY, LEAST_THROUGHPUT = 1.2, 0.82


async def timed(run: Run, times: int = 1) -> tuple[float, float]:
    """Return the seconds, and this process's seconds of CPU, of `times` concurrent runs."""
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(run(f"run-{uuid.uuid4()}") for _ in range(times)))
    return time.perf_counter() - started, time.process_time() - cpu


async def compare(bare: Run, mull: Run, rounds: int, times: int) -> tuple[Times, Times]:
    """Time both in turn, so that other load on the machine affects both alike."""
    found: tuple[Times, Times] = ([], [])
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        for side in order:
            found[side].append(await timed((bare, mull)[side], times))
    return found


def report(name: str, sides: Sequence[list[float]], unit: str) -> Quartiles:
    """Print the ratio of Mull's values to the bare workflow's, and the medians of both."""
    bare, mull = sides
    ratio = ratios(mull, bare)
    print(
        f"{name:<48} {ratio}, n = {len(bare)}: bare {statistics.median(bare):.1f} {unit},"
        f" mull {statistics.median(mull):.1f}",
        flush=True,
    )
    return ratio


def runs_of(shape: Shape, client: Client, plain: Client) -> tuple[Run, Run]:
    """Return functions that make a bare run and one of Mull's."""

    async def session(given: Client, kind: str, first: list[Any], said: Any, name: str) -> Any:
        begun = WithStartWorkflowOperation[Any, Any](
            kind, args=first, id=name, task_queue="bare" if given is plain else "mull",
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )  # fmt: skip
        return await given.execute_update_with_start_workflow(
            "send", said, start_workflow_operation=begun
        )

    async def bare(name: str) -> None:
        if shape.workflow == "SessionWorkflow":
            await session(plain, "BareSession", [], shape.waves, name)
        elif shape.children:
            given = [shape.waves, shape.children]
            await plain.execute_workflow("BareParent", args=given, id=name, task_queue="bare")
        else:
            await plain.execute_workflow("BareWorkflow", shape.waves, id=name, task_queue="bare")

    async def mull(name: str) -> None:
        if shape.workflow == "SessionWorkflow":
            message = {"message": "How fast?"}
            answer = await session(client, shape.workflow, [shape.request], message, name)
            assert answer["answer"] == "It is blue.", answer
            return
        result = await client.execute_workflow(
            shape.workflow, shape.request, id=name, task_queue="mull"
        )
        assert result["stop_reason"] in {"rule", "max_responses", "max_revisions", "passed"} | {
            "consistent", "answered", "completed"
        }, result["stop_explanation"]  # fmt: skip

    return bare, mull


async def keep(client: Client, run: Run, kinds: Sequence[type]) -> tuple[int, int, float]:
    """Make a run, and return its history's bytes and events, and the seconds to replay it."""
    name, took = f"run-{uuid.uuid4()}", list[float]()
    await run(name)
    handle = client.get_workflow_handle(name)
    size = (await handle.describe()).raw_description.workflow_execution_info.history_size_bytes
    history = await handle.fetch_history()
    for _ in range(15):
        replayer = Replayer(
            workflows=kinds,
            workflow_runner=UnsandboxedWorkflowRunner(),
            plugins=[OpenTelemetryPlugin()] if kinds is worker.WORKFLOWS else [],
            data_converter=client.data_converter,
        )
        started = time.perf_counter()
        await replayer.replay_workflow(history)
        took.append(time.perf_counter() - started)
    return size, len(history.events), statistics.median(took)


async def measure(
    client: Client, plain: Client, options: argparse.Namespace, asked: LanguageModel | None
) -> list[str]:
    """Measure every shape, one run at a time and then many; list those beyond the bounds."""
    rounds, batch = options.rounds, options.batch
    plainly = UnsandboxedWorkflowRunner() if options.unsandboxed else SandboxedWorkflowRunner()
    beyond: list[str] = []
    for name, shape in SHAPES.items():
        if options.only not in name or (asked and shape.workflow != "SelfConsistencyWorkflow"):
            continue
        model = ObservedModel(asked or shape.model(), "scripted/model")
        bare, mull = runs_of(shape, client, plain)
        called = Noted().tools()
        workers = [
            *worker.build(client, QUEUES, model, retriever=Tides(), called=called),
            Worker(plain, task_queue="bare", workflows=BARE, workflow_runner=plainly),
            Worker(plain, task_queue="bare-calls", activities=[nothing]),
        ]
        async with worker.running(workers):
            await compare(bare, mull, 3, 1)
            singly = await compare(bare, mull, rounds, 1)
            many = await compare(bare, mull, -(-rounds // 2), batch)
            kept = [await keep(plain, bare, BARE), await keep(client, mull, worker.WORKFLOWS)]
        one = [[1e3 * wall for wall, _ in side] for side in singly]
        slower = report(f"{name}: latency", one, "ms")
        rates = [[batch / wall for wall, _ in side] for side in many]
        served = report(f"  throughput of {batch} at once", rates, "a second")
        activities = batch * sum(shape.waves) * max(1, shape.children)
        cpu = [[1e3 * cpu / activities for _, cpu in side] for side in many]
        report("  CPU for an activity", cpu, "ms")
        for side, (size, events, replay) in zip(("bare", "mull"), kept, strict=True):
            print(f"  {side}: {events} events, {size:,} bytes, replayed in {1e3 * replay:.1f} ms")
        if slower.median > MOST_LATENCY or served.median < LEAST_THROUGHPUT:
            beyond.append(name)
    return beyond


async def main(options: argparse.Namespace) -> None:
    """Trace to a file, measure, and compare the results with the bounds."""
    service.silence_ordinary()
    with tempfile.TemporaryDirectory() as folder:
        tracing = telemetry.set_up(Path(folder, "spans.jsonl"))
        async with server():
            # Both with the SDK's usual runtime, since they are compared.
            plain = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
            litellm = through_litellm() if options.litellm else nullcontext()
            with litellm as asked, busy(options.busy):
                beyond = await measure(await connect(), plain, options, asked)
        tracing.shutdown()
    if beyond and not (options.litellm or options.busy):
        raise SystemExit(f"beyond the bounds ({MOST_LATENCY}, {LEAST_THROUGHPUT}): {beyond}")


if __name__ == "__main__":
    given = parser(__doc__, 12)
    given.add_argument("--batch", type=int, default=30, help="runs at once")
    given.add_argument("--only", default="", help="shapes with these words in their names")
    given.add_argument("--unsandboxed", action="store_true", help="the bare side too")
    given.add_argument("--litellm", action="store_true", help="ask for samples through LiteLLM")
    asyncio.run(main(given.parse_args()))
