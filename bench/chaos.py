"""Disturb runs of every workflow, and compare each one's end with an undisturbed run's.

    .venv/bin/python -m bench.chaos --fault kills [--runs 300] [--at-once 12] [--seed 7] [--cut 60]
    .venv/bin/python -m bench.chaos --small --runs 20000 --at-once 32 [--minutes 60] [--state FILE]

The faults: `kills` (SIGKILL of the worker at random moments, also while it recovers), `server`
(SIGKILL of the Temporal server, started again on its file), `network` (the connection of worker and
server cut, for `--cut` seconds), `version` (a worker of a nondeterministic version deployed and
taken back), `endpoint` (each way in which a provider fails), `clock` (only the worker's clock steps
to and fro; needs Debian's libfaketime). Prints how many runs ended differently, and how. Fails if
there is one.

`--small` makes many runs of two or three seconds, and kills the worker every 15 seconds and the
server, which goes on from its file, every two minutes. It fails if a run is lost, ends differently,
has asked again for a recorded reply, or has a decision without a span, or with two, once the spans
that a killed worker had not written are rebuilt. It writes its progress to a JSON file, anew after
each kill. It stops early at Ctrl-C, or after --minutes, and then reports on the runs made.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from mull import telemetry
from tests.chaos.rebuilt import rebuilt_of
from tests.chaos.runs import ANSWERS, REQUESTS, made, persistent, reflects, replied
from tests.chaos.stage import LOST_SECONDS, Stage
from tests.scripted_endpoint import Body, Scripted, failing

FAKETIME = Path(f"/usr/lib/{os.uname().machine}-linux-gnu/faketime/libfaketime.so.1")
# Workers: as users start them, and of a version that takes another step in runs that it did not
# begin itself. A run begun with that step could not go on elsewhere.
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
# A provider's failures, each before it replies well.
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
    """Cut the connection between the server and its workers for some seconds."""
    await stage.network.cut(seconds)


async def version(stage: Stage, chance: random.Random, _: float) -> None:
    """Deploy a nondeterministic version, and take it back."""
    stage.kill_workers()
    await stage.serve(OTHER_VERSION)
    # Until calls under way have been made again, so that the runs go on.
    await asyncio.sleep(chance.uniform(8, 12))
    stage.kill_workers()
    stage.start_worker()


async def endpoint(stage: Stage, chance: random.Random, seconds: float) -> None:
    """Make the provider fail in one way, for some seconds, at its first request."""
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
    """A scripted model that fails in one of these ways at its first request."""

    def __init__(self, *failures: Scripted) -> None:
        self._failures = cycle(failures)
        self._asked = set[str]()

    def __call__(self, request: Body) -> Scripted:
        """Fail, or reply."""
        key = json.dumps(request, sort_keys=True)
        # A reflection in a turn is asked for once: the result has its outcome.
        fails = key not in self._asked and not reflects(str(request["messages"][0]["content"]))
        self._asked.add(key)
        failure = next(self._failures) if fails else None
        # An empty reply is a step of a turn, which its result counts.
        steps = failure is not None and failure.choices == [] and "tools" in request
        return replied(request) if failure is None or steps else failure


# Of a small run: its name in each of its prompts, and the mark of each reply.
CASE, MARK = re.compile(r"case (\d+)"), re.compile(r" ?\[(\w+) (\d+)\]")
# Seconds between two kills of the worker, and the number of them for one of the server.
WORKER_SECONDS, SERVER_EVERY = 15.0, 8
# How long runs that have begun may go on after the benchmark is stopped.
ENDING_SECONDS = 60.0
# One run in this many is rebuilt although no span is missing.
SAMPLE = 50


def small(number: int) -> tuple[str, dict[str, Any]]:
    """Return the workflow and request of a small run: three answers, or a draft and a revision."""
    if number % 2:
        asked = {"query": f"Explain a tide table, in case {number}", "max_revisions": 1}
        return "ReflectOnResultWorkflow", {**asked, "complexity": 1.0}
    asked = {"question": f"How much is it in case {number}?", "max_responses": 3}
    return "SelfConsistencyWorkflow", {**asked, "answers": "number", "seed": 0}


class Marking:
    """A model that replies at once, and marks each reply with its call and a number of its own."""

    def __init__(self) -> None:
        self.calls = self.again = 0
        self.last: dict[int, dict[str, int]] = defaultdict(dict)

    def __call__(self, request: Body) -> Scripted:
        """Reply by the prompt."""
        prompt = str(request["messages"][0]["content"])
        asked = self.last[int(CASE.findall(prompt)[0])]
        drafts = re.findall(r"draft (one|two) \[", prompt)
        said: str | dict[str, Any]
        if "How much" in prompt:
            call = f"sample_{request['seed']}"
            said = {"reasoning": "counted {}", "answer": ANSWERS[request["seed"]]}
        elif "You judge a draft" in prompt:
            call = f"judge_{drafts[0]}"
            point = {"criterion": "clarity", "place": "the end", "advice": "Say which one. {}"}
            score = {"one": 0.3, "two": 0.5}[drafts[0]]
            scores = dict.fromkeys(("completeness", "correctness", "clarity"), score)
            said = {"feedback": [point], "criteria_scores": scores, "confidence": "high"}
        else:
            number = "two" if drafts else "one"
            call, said = f"write_{number}", f"draft {number} {{}}"
        self.calls += 1
        self.again += call in asked
        asked[call] = self.calls
        text = said if isinstance(said, str) else json.dumps(said)
        return Scripted(text.replace("{}", f"[{call} {self.calls}]"))


@dataclass
class Found:
    """The progress of small runs, the findings, and each fault with its place."""

    asked: int
    done: int = 0
    seconds: float = 0.0
    worker_kills: int = 0
    server_kills: int = 0
    calls: int = 0
    calls_again: int = 0
    decisions: int = 0
    rebuilt: int = 0
    disk_mb: int = 0
    lost: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    without_span: list[str] = field(default_factory=list)
    two_spans: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> dict[str, int]:
        """The number of faults by kind."""
        names = ("lost", "different", "repeated", "without_span", "two_spans")
        return {name.replace("_", " "): len(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        """Say it in two lines, the second about faults."""
        kills = f"{self.worker_kills} kills of the worker, {self.server_kills} of the server"
        return (
            f"{self.done:,} of {self.asked:,} runs in {self.seconds:,.0f} s, {kills};"
            f" {self.calls:,} calls, {self.calls_again:,} of them for a reply that a kill lost;"
            f" {self.decisions:,} decisions, the spans of {self.rebuilt:,} runs rebuilt;"
            f" {self.disk_mb:,} MB on disk\n"
            + ", ".join(f"{name}: {count}" for name, count in self.wrong.items())
        )


class SmallRuns:
    """Makes small runs, and compares each with an undisturbed one, and with its spans."""

    def __init__(self, stage: Stage, asked: int) -> None:
        self.found, self.model = Found(asked), Marking()
        self._stage, self._began = stage, time.monotonic()
        self._expected = dict[int, Any]()
        # The number of decisions of each ended run, its trace, and the ids of decisions' spans by
        # trace: only until they are compared.
        self._ended = dict[int, int]()
        self._traces = dict[str, str]()
        self._decided = defaultdict[str, set[str]](set)
        self._file = stage.folder / "spans-0"
        stage.reply = self.model

    def start_worker(self) -> None:
        """Start a worker that writes its spans to its own file."""
        self._file = self._file.with_name(f"spans-{self.found.worker_kills}")
        self._stage.start_worker("", "--traces", str(self._file), "--queues", "mull,llm")

    async def make(self, number: int) -> None:
        """Make a run, and note faults of its end."""
        name, found = f"small-{number}", self.found
        run = made(self._stage.client, "", name, small(number))
        try:
            [ended] = await asyncio.wait_for(run, LOST_SECONDS)
        except TimeoutError:
            found.lost.append(name)
            return
        found.done += 1
        text, last = json.dumps(ended), self.model.last.pop(number, {})
        same = json.loads(CASE.sub("the case", MARK.sub("", text)))
        if same != self._expected.setdefault(number % 2, same):
            found.different.append(f"{name}: {json.dumps(same)}")
        if isinstance(ended, dict):
            recorded = {(call, int(reply)) for call, reply in MARK.findall(text)}
            if recorded != set(last.items()):
                found.repeated.append(f"{name}: recorded {sorted(recorded)}, asked for last {last}")
            self._ended[number] = len(ended["decisions"])

    async def kill_worker(self) -> None:
        """Kill the worker, at times the server too, and read the spans that the worker wrote."""
        self._stage.kill_workers()
        self.found.worker_kills += 1
        ended, self._ended, written = self._ended, {}, self._file
        if self.found.worker_kills % SERVER_EVERY == 0:
            self._stage.kill_server()
            self.found.server_kills += 1
        if not self._stage.server_runs():
            await self._stage.start_server()
        self.start_worker()
        self._read(written)
        for number, decisions in ended.items():
            await self._compare(number, decisions)

    def _read(self, written: Path) -> None:
        for line in written.read_text().splitlines() if written.exists() else ():
            # The last line may be cut off.
            with suppress(ValueError):
                span = json.loads(line)
                trace, known = span["context"]["trace_id"], span["attributes"]
                if span["name"] == "mull.decision":
                    self._decided[trace].add(span["context"]["span_id"])
                elif "mull.workflow_id" in known:
                    self._traces[known["mull.workflow_id"]] = trace
        written.unlink(missing_ok=True)
        # Since endpoints keep their requests.
        for kept in (self._stage.endpoint.requests, self._stage.endpoint.paths):
            kept.clear()
        self._stage.endpoint.authorizations.clear()

    async def _compare(self, number: int, decisions: int) -> None:
        """Compare a run's decisions with their spans: the written ones, and the rebuilt ones."""
        name, found = f"small-{number}", self.found
        trace = self._traces.pop(name, "")
        ids = self._decided.pop(trace, set())
        said = ""
        if number % SAMPLE == 0 or len(ids) != decisions:
            client = self._stage.client
            for one in await persistent(lambda: rebuilt_of(client, name)):
                said += one.error or ""
                spans = [json.loads(span.to_json()) for span in one.spans]
                for span in spans:
                    if span["name"] == "mull.decision":
                        ids |= self._decided.pop(span["context"]["trace_id"], set())
                        ids.add(span["context"]["span_id"])
            found.rebuilt += 1
        found.decisions += decisions
        if len(ids) < decisions:
            found.without_span.append(f"{name}: {len(ids)} of {decisions} {said}")
        if len(ids) > decisions:
            found.two_spans.append(f"{name}: {len(ids)} of {decisions}")

    def write(self, state: Path) -> None:
        """Print the progress, and write it down."""
        found = self.found
        found.seconds = time.monotonic() - self._began
        found.calls, found.calls_again = self.model.calls, self.model.again
        files = (each.stat() for each in self._stage.folder.iterdir())
        found.disk_mb = sum(each.st_size for each in files) >> 20
        state.parent.mkdir(parents=True, exist_ok=True)
        partly = state.with_suffix(".new")
        partly.write_text(json.dumps(asdict(found), indent=1) + "\n")
        partly.replace(state)
        print(found, flush=True)

    def note_late_calls(self) -> None:
        """Note requests after a run had ended."""
        lost = set(self.found.lost)
        for number, calls in self.model.last.items():
            if (name := f"small-{number}") not in lost:
                self.found.repeated.append(f"{name}: {sorted(calls)} after its end")


async def kill_all_along(options: argparse.Namespace, folder: Path) -> int:
    """Make small runs while worker and server are killed; return the number of faults."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for end in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(end, stopped.set)
    if options.minutes:
        loop.call_later(options.minutes * 60, stopped.set)
    numbers = iter(range(options.runs))
    async with Stage(folder) as stage:
        runs = SmallRuns(stage, options.runs)
        runs.start_worker()
        # Undisturbed: one of each kind.
        for number in islice(numbers, 2):
            await runs.make(number)
        print("Both kinds of runs have ended, undisturbed.", flush=True)

        async def make_some() -> None:
            while not stopped.is_set() and (number := next(numbers, None)) is not None:
                await runs.make(number)

        making = {asyncio.create_task(make_some()) for _ in range(options.at_once)}
        kill_at = time.monotonic()
        while making and not stopped.is_set():
            kill_at = max(kill_at + WORKER_SECONDS, time.monotonic() + 1)
            done, making = await asyncio.wait(making, timeout=kill_at - time.monotonic())
            for one in done:
                one.result()
            await runs.kill_worker()
            runs.write(options.state)
        if making:
            # It was stopped: runs under way may end.
            for one in (await asyncio.wait(making, timeout=ENDING_SECONDS))[1]:
                one.cancel()
            await runs.kill_worker()
        runs.note_late_calls()
        runs.write(options.state)
    return sum(runs.found.wrong.values())


async def main(options: argparse.Namespace, folder: Path) -> int:
    """Disturb this many runs until they end; print which ended differently, return how many did."""
    if options.small:
        return await kill_all_along(options, folder)
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
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--fault", choices=FAULTS)
    kind.add_argument("--small", action="store_true", help="many small runs, under constant kills")
    parser.add_argument("--only", choices=REQUESTS, action="append", help="may be repeated")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--cut", type=float, default=60, help="seconds of a cut, or of failures")
    parser.add_argument("--minutes", type=float, help="small runs: begin no more after this many")
    state = Path("build", "chaos.json")
    parser.add_argument("--state", type=Path, default=state, help="small runs: their progress")
    # As `mull traces` does, which rebuilds spans.
    telemetry.set_up(None)
    with tempfile.TemporaryDirectory() as place:
        sys.exit(asyncio.run(main(parser.parse_args(), Path(place))) > 0)
