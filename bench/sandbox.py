"""Time a sandboxed `print(1)` and plain Python, alternating in one run.

    .venv/bin/python -m bench.sandbox [--rounds 100] [--busy]

A run is timed from the worker's call to the result: its folders, namespaces or rules, the
interpreter, the program, and the cleanup. Plain Python is the same interpreter as a subprocess,
with `-I -S` as in the sandbox. Each round begins with a different one. Prints medians with
quartiles, and each sandbox's ratio to the plain run of the same round. Fails if a median is
above 50 ms for bubblewrap or 70 ms for Landlock, on busy cores too.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from activities.sandbox.packages import base_python
from activities.sandbox.port import Program
from activities.sandbox.sandbox import ProcessSandbox
from activities.sandbox.selftest import examine, names
from bench import busy, parser, quartiles, ratios
from mull.multipath.request import Limits

MOST_MS = {"bubblewrap": 50.0, "landlock": 70.0}
PROGRAM = "print(1)"
WARM_UP = 3

Run = Callable[[], Awaitable[str]]


async def plain() -> str:
    """Run the program in plain Python."""
    command = [base_python(), "-I", "-S", "-c", PROGRAM]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    printed, _ = await process.communicate()
    return printed.decode()


def sandboxed(sandbox: ProcessSandbox) -> Run:
    """Return a function that runs the program in the sandbox."""

    async def run() -> str:
        return (await sandbox.run(Program(code=PROGRAM))).stdout.text

    return run


async def measure(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Time the runs in turn, in milliseconds, so that other load affects all alike."""
    took: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(WARM_UP + rounds):
        first = number % len(runs)
        for name, run in [*runs.items()][first:] + [*runs.items()][:first]:
            begin = time.perf_counter()
            printed = await run()
            ended = time.perf_counter()
            assert printed == "1\n"
            if number >= WARM_UP:
                took[name].append(1000 * (ended - begin))
    return took


def show(took: dict[str, list[float]]) -> None:
    """Print a table: milliseconds, and the ratio to plain Python."""
    for name, values in took.items():
        slower = ratios(values, took["plain"])
        print(f"{name:<11} {quartiles(values)} ms; times plain: {slower}, n = {len(values)}")


async def main(options: argparse.Namespace) -> int:
    """Measure the sandboxes of this machine; return the exit code."""
    runs: dict[str, Run] = {"plain": plain}
    for name in names():
        found = await examine(name, Limits())
        if found.sandbox is None or found.trouble:
            print(f"not measured: {found.name}: {found.trouble}")
            continue
        runs[name] = sandboxed(found.sandbox)
    with busy(options.busy):
        took = await measure(runs, options.rounds)
    show(took)
    medians = {name: quartiles(values).median for name, values in took.items()}
    return int(any(medians.get(name, 0) > most for name, most in MOST_MS.items()))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parser(__doc__, 100).parse_args())))
