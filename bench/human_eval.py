"""HumanEval's 164 problems through the agent: each written wrongly first, and then repaired.

    .venv/bin/python -m bench.human_eval [--tests script] [--broken "another type"]
        [--backend bubblewrap] [--problems 164]

A scripted model first writes a broken version of each problem's solution, then the solution itself;
server, workers and sandboxes are real. The tests are given in three ways: as a script that calls
check(), as a pytest file, and not at all: then the prompt's own examples are used, or else tests
that the model takes from check(). Prints how many problems pass after exactly two drafts, how the
first drafts failed, and seconds. With tests and `another type`, fails unless all problems pass.
"""

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import telemetry
from activities.sandbox.selftest import examine, names
from bench.overhead import reach
from commands.embedded import Place, free_port, server_command
from reflection.multipath.request import Limits
from reflection.multipath.suite import Failure
from tests.activities.code_tests.problems import BREAKINGS, PROBLEMS
from tests.workflows.multipath.repairing import TESTS, Run, solve_all

USUAL = "another type"
RAISED = re.compile(r"\w+(?:Error|Exit)\b")


def reason(failure: Failure | None) -> str:
    """Describe in a few words how a draft failed."""
    if failure is None:
        return "no error"
    known = failure.model_dump(exclude_none=True, exclude={"message", "traceback"})
    raised = RAISED.search(failure.message)
    kind = failure.status or (raised[0] if raised else "another failure")
    compared = "a wrong value" if {"got", "expected"} <= known.keys() else kind
    return compared if failure.test else f"{compared}, before any test"


def show(name: str, runs: Sequence[Run], took: float) -> bool:
    """Print the runs' results, and return True if all are as expected."""
    repaired = sum(run.repaired for run in runs)
    reasons = Counter(reason(run.first) for run in runs).most_common()
    median = statistics.median(run.seconds for run in runs)
    print(f"{name:<36} {repaired} of {len(runs)} passed after two drafts, in {took:.1f} s", end="")
    print(f" ({median:.2f} s a run). First drafts:", *(f"{count} {why};" for why, count in reasons))
    others = [run for run in runs if not run.repaired]
    for (why, origin, drafts), count in Counter(map(ended, others)).most_common():
        print(f"{'':<36} {count} {why} after {drafts} drafts, tests: {origin}")
    if others:
        print(f"{'':<36} {', '.join(run.problem.name for run in others)}")
    return not others


def ended(run: Run) -> tuple[str, str, int]:
    """Return how a run ended, the origin of its tests, and its number of drafts."""
    suite = run.result.suite
    return run.result.stop_reason, suite.origin if suite else "none", run.result.revisions


async def benchmark(
    place: Place, server: "subprocess.Popen[bytes]", options: argparse.Namespace
) -> bool:
    """Measure each available sandbox with each kind of tests."""
    telemetry.set_up(None)
    os.environ["TEMPORAL_ADDRESS"] = place.address
    client, right = await reach(server), True
    for backend in names(options.backend):
        found = await examine(backend, Limits())
        if found.sandbox is None or found.trouble:
            print(f"not measured: {found.name}: {found.trouble}")
            continue
        for tests in [options.tests] if options.tests else TESTS:
            started = time.perf_counter()
            asked = (PROBLEMS[: options.problems], tests, options.broken)
            runs = await solve_all(client, found.sandbox, *asked)
            name = f"{backend}, {tests}, {options.broken}"
            all_repaired = show(name, runs, time.perf_counter() - started)
            right &= all_repaired or tests == "prompt" or options.broken != USUAL
    return right


def main(options: argparse.Namespace) -> None:
    """Start a server, measure, stop it."""
    with tempfile.TemporaryDirectory() as name:
        place = Place(free_port(), free_port(), Path(name) / "temporal.db")
        with (Path(name) / "log").open("wb") as log:
            server = subprocess.Popen(server_command(place), stdout=log, stderr=log)
        try:
            right = asyncio.run(benchmark(place, server, options))
        finally:
            server.terminate()
            server.wait(30)
    if not right:
        raise SystemExit("not every problem was repaired")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", choices=TESTS, help="default: all")
    parser.add_argument("--broken", choices=BREAKINGS, default=USUAL, metavar="KIND")
    parser.add_argument("--backend", help="bubblewrap or landlock; default: all available")
    parser.add_argument("--problems", type=int, default=len(PROBLEMS))
    main(parser.parse_args())
