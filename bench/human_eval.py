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
import re
import statistics
import time
from collections import Counter
from collections.abc import Sequence

from activities.sandbox.selftest import examine, names
from bench import server
from mull import telemetry
from mull.multipath.request import Limits
from mull.multipath.suite import Failure
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
    for run in runs:
        if not run.repaired:
            result = run.result
            tests = result.suite.origin if result.suite else "none"
            ended = f"{result.stop_reason} after {result.revisions} drafts, tests: {tests}"
            print(f"{'':<36} {run.problem.name}: {ended}")
    return repaired == len(runs)


async def main(options: argparse.Namespace) -> None:
    """Measure each available sandbox with each kind of tests."""
    telemetry.set_up(None)
    right = True
    async with server() as client:
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
    asyncio.run(main(parser.parse_args()))
