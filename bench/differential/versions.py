"""A version of Mull that is served by its own worker and told what to do by its command line.

Nothing of it is imported here: its two programs are found in its pyproject.toml.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio import activity
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.worker import Worker

from bench import server
from bench.differential.comparison import VOLATILE, Ended, Outcome, leaves
from bench.differential.model import Script
from bench.differential.scenarios import Scenario
from tests.scripted_endpoint import ScriptedEndpoint

ROOT = Path(__file__).parents[2]
# Many times what it takes, for a busy machine.
RUN_SECONDS, START_SECONDS = 400, 400
QUEUES = ("mull", "mull-llm", "mull-code", "mull-tools", "mull-train")
REVIEWED = {"--review-when", "--review-below", "--review-open", "ask.json"}
LAUNCH = """
import sys
from pathlib import Path
import {module} as program
assert Path(program.__file__).is_relative_to({root!r}), program.__file__
sys.argv[0] = "mull"
sys.exit(program.{function}())
"""
# A process that has imported every command makes a copy of itself for each that is typed, since
# importing takes longer than what is measured: a line has its words, and the files of what it says.
COPY = """
import json, os, random, signal, sys
from pathlib import Path
sys.argv = ["mull", *{commands!r}]
import {module} as program
assert Path(program.__file__).is_relative_to({root!r}), program.__file__
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    words, place = json.loads(line)
    if copy := os.fork():
        print(copy, flush=True)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    random.seed()
    for number, end in enumerate(("in", "out", "err")):
        os.dup2(os.open(place + end, os.O_RDWR | os.O_CREAT), number)
    leave = os._exit
    def tell(code):
        sys.stdout.flush()
        sys.stderr.flush()
        Path(place + "part").write_text(str(code))
        Path(place + "part").rename(place + "code")
        leave(code)
    os._exit = tell
    sys.argv = ["mull", *words]
    try:
        program.{function}()
    finally:
        tell(1)
"""
# What scenarios type, and what is done to their runs.
COMMANDS = (
    *("ask", "reflect", "agent", "turn", "reflexion", "retroformer", "train", "batch"),
    *("review", "finish", "add", "cancel"),
)


class Trainer:
    """What serves the queue of training in place of torch; it notes what it was asked for."""

    def __init__(self) -> None:
        self.noted: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._gains: dict[str, list[float]] = defaultdict(list)

    @activity.defn(dynamic=True)
    async def answer(self, given: Sequence[RawValue]) -> Any:
        """Answer any activity, by its public name."""
        task = activity.payload_converter().from_payload(given[0].payload)
        info = activity.info()
        named = dict(leaves(task, VOLATILE | {"execution"}))
        self.noted[str(info.workflow_id)].append({"activity": info.activity_type, **named})
        answers = {
            "train_stage": self._train,
            "keep_pair": self._keep_pair,
            "assemble_buffer": self._assemble,
            "score_reflections": self._score,
        }
        known = answers.get(info.activity_type)
        return known and known(task)

    def _train(self, task: dict[str, Any]) -> dict[str, Any]:
        folder = f"{task['run']}/{task['stage']}"
        return {"folder": folder, "steps": 3, "examples": 2, "seconds": 1.5, "device": "cpu"}

    def _keep_pair(self, task: dict[str, Any]) -> None:
        pair = task["pair"]
        gains = [tried["rewards"] - pair["first_return"] for tried in pair["tried"]]
        self._gains[task["run"]] += gains

    def _assemble(self, task: dict[str, Any]) -> dict[str, Any]:
        gains = self._gains[task["run"]]
        pairs = list(zip(gains[::2], gains[1::2], strict=True))
        unequal = sum(one != other for one, other in pairs)
        counts = {"pairs": len(pairs), "preferences": unequal, "equal": len(pairs) - unequal}
        counts["good"] = sum(gain > 0 for gain in gains)
        path = f"{task['run']}/replay-buffer.jsonl"
        return {"path": path, "counts": counts, "sha256": "0" * 64}

    def _score(self, task: dict[str, Any]) -> dict[str, Any]:
        return {"scores": [zlib.crc32(text.encode()) / 2**32 for text in task["reflections"]]}


class Version:
    """A checkout of one version, with a server, a worker and a model of its own."""

    def __init__(self, root: Path, folder: Path, script: Script, place: Path) -> None:
        self.root, self.folder, self.script, self.trainer = root, folder, script, Trainer()
        self._log = place
        self._named = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]
        self._environment: dict[str, str] = {}
        self._worker: asyncio.subprocess.Process
        self._commands: asyncio.subprocess.Process
        self._typing = asyncio.Lock()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve it while the block runs."""
        own = ("MULL_", "OPENAI_", "OTEL_", "TEMPORAL_", "PYTHON")
        plain = {name: text for name, text in os.environ.items() if not name.startswith(own)}
        with ScriptedEndpoint([self.script] * 1_000_000) as endpoint:
            async with server() as client:
                self._environment = plain | {
                    "MULL_DOCUMENTS": str(self.folder),
                    # Where a worker has to wait for a core, less would repeat its calls.
                    "MULL_HEARTBEAT_SECONDS": "20",
                    "MULL_MODEL": "openai/gpt-4o-mini",
                    "MULL_TASKS": str(self.folder),
                    "NO_COLOR": "1",
                    "OPENAI_API_BASE": endpoint.url,
                    "OPENAI_API_KEY": "scripted",
                    "PYTHONPATH": str(self.root),
                    "TEMPORAL_ADDRESS": os.environ["TEMPORAL_ADDRESS"],
                }
                trains = [self.trainer.answer]
                await self._start_commands()
                await self._start_worker()
                try:
                    async with Worker(client, task_queue="mull-train", activities=trains):
                        await self._until_served(client)
                        # The first call of a model takes the worker longer.
                        await self._mull(
                            "ask", "Warm, in case warm-0?", "--max-responses", "2", "--json"
                        )
                        yield
                finally:
                    for one in (self._worker, self._commands):
                        with suppress(ProcessLookupError):
                            one.terminate()
                        await one.wait()

    async def make(self, scenario: Scenario) -> Outcome:
        """Make the run of a scenario, and do to it what it says."""
        found = Outcome()
        beside = [asyncio.create_task(self._disturb(scenario, found))]
        words = {word for command in scenario.commands for word in command}
        if words & REVIEWED:
            beside.append(asyncio.create_task(self._review(scenario, found)))
        for command in scenario.commands:
            found.commands.append(await self._mull(*command))
        self.script.end(scenario)
        await asyncio.gather(*beside)
        found.commands.sort(key=lambda one: one.words not in scenario.commands)
        found.calls = self.script.calls[scenario.name]
        found.trained = self.trainer.noted[scenario.name]
        return found

    async def make_with_a_kill(self, scenarios: Sequence[Scenario]) -> dict[str, Outcome]:
        """Make runs at once; the worker is killed once each has its call open, or has ended."""
        runs = {each.name: asyncio.create_task(self.make(each)) for each in scenarios}
        due = set[str]()
        while len(due) < sum(not run.done() for run in runs.values()):
            await asyncio.sleep(0.02)
            due = {each.name for each in scenarios if self.script.is_due(each)}
        self._worker.kill()
        await self._worker.wait()
        await self._start_worker()
        for scenario in scenarios:
            self.script.go_on(scenario)
        made = {name: await run for name, run in runs.items()}
        return {name: replace(found, killed=name in due) for name, found in made.items()}

    async def _disturb(self, scenario: Scenario, found: Outcome) -> None:
        """Give a command once so many calls were made."""
        while scenario.act and not self.script.is_over(scenario):
            if self.script.is_due(scenario):
                await self._act(scenario, found)
                self.script.go_on(scenario)
                return
            await asyncio.sleep(0.02)

    async def _act(self, scenario: Scenario, found: Outcome) -> None:
        assert scenario.act
        first, *rest = scenario.act[1]
        found.commands.append(await self._mull(first, scenario.name, *rest, "--json"))

    async def _review(self, scenario: Scenario, found: Outcome) -> None:
        """Give the next review whenever the run waits for one, and accept after the last one."""
        given = chain(scenario.reviews, repeat(("--accept",)))
        while not self.script.is_over(scenario):
            await asyncio.sleep(0.3)
            if not self.script.rests(scenario, 1.0):
                continue
            shown = await self._mull("review", scenario.name, "--json")
            if shown.code != 0:
                continue
            word, *rest = next(given)
            found.commands.append(shown)
            decided: list[tuple[str, ...]] = [(word, *rest)]
            if asking := shown.document.get("asking"):
                verdict = "--allow" if word == "--accept" else word
                why = ("not now",) if verdict == "--deny" else ()
                decided = [(verdict, str(number), *why) for number in asking]
            for words in decided:
                said = await self._mull("review", scenario.name, *words, "--json")
                found.commands.append(said)

    async def _mull(self, *words: str) -> Ended:
        """Run a command to its end; one that goes on for too long is ended with code -9."""
        place = f"{self._log}.{uuid4().hex}."
        typed, said = self._commands.stdin, self._commands.stdout
        assert typed
        assert said
        async with self._typing:
            typed.write(json.dumps([words, place]).encode() + b"\n")
            copy = int(await said.readline())
        code, began = -9, time.monotonic()
        while code == -9 and time.monotonic() < began + RUN_SECONDS:
            await asyncio.sleep(0.02)
            with suppress(FileNotFoundError):
                code = int(Path(place + "code").read_text())
        if code == -9:
            os.kill(copy, signal.SIGKILL)
        text, error = (Path(place + end).read_text() for end in ("out", "err"))
        try:
            document = json.loads(text)
        except ValueError:
            document = text
        return Ended(words, code, document, error)

    def _program(self, script: str) -> str:
        module, function = self._named[script].split(":")
        given = {"module": module, "function": function, "root": str(self.root)}
        return (COPY if script == "mull" else LAUNCH).format(**given, commands=COMMANDS)

    async def _start_commands(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._commands = await asyncio.create_subprocess_exec(
            sys.executable, "-c", self._program("mull"),
            cwd=self.folder, env=self._environment, stdin=pipe, stdout=pipe,
        )  # fmt: skip

    async def _start_worker(self) -> None:
        with self._log.open("ab") as log:
            self._worker = await asyncio.create_subprocess_exec(
                sys.executable, "-c", self._program("mull-worker"),
                cwd=self.folder, env=self._environment, stdout=log, stderr=log,
            )  # fmt: skip

    async def _until_served(self, client: Client) -> None:
        """Wait until a worker polls each queue."""
        kinds = dict.fromkeys(QUEUES, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
        kinds["mull"] = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
        async with asyncio.timeout(START_SECONDS):
            for name, kind in kinds.items():
                asked = DescribeTaskQueueRequest(
                    namespace=client.namespace,
                    task_queue=TaskQueue(name=name),
                    task_queue_type=kind,
                )
                while not (await client.workflow_service.describe_task_queue(asked)).pollers:
                    assert self._worker.returncode is None, self._log.read_text()[-1000:]
                    await asyncio.sleep(0.2)


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """Check a commit out into a worktree of its own while the block runs."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)
