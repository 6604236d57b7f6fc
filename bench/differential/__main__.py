"""Compare this checkout with an earlier commit: the same scripted runs, in both versions.

    .venv/bin/python -m bench.differential [--base COMMIT] [--loops ask turn] [--runs 20] [--seed 0]

For a rewrite that is to change nothing. Each version is used by its command line alone, is served
by a worker of its own, and asks a model by script, which also fails. Scenarios are drawn by the
seed: options, faults of the provider, a person's reviews, additions and ends, and in every tenth
the worker is killed by SIGKILL while a given call is open, if the run makes so many. Compared are
the calls of the model with their bodies and order, the exit codes, and what `--json` prints, so
decisions with their numbers, answer, stop reason, warnings and cost.

The order counts only of calls of which one was over before the other began, in both versions, and
not between samples that differ by their seed alone, or between rollouts of a training. Of a run
whose worker was killed, or that a person cuts short, each body counts once; of a batch whose
provider fails, none. Ids, times and durations are left out. A field of one version alone is a note
where it is empty, else a difference, but for those of the newer version that `comparison.ADDED`
declares.

On a machine with much other work runs may differ by chance: a worker that gets no core for 20 s is
taken for lost, and makes its calls again.

Fails if a run differs. `--only ask-3 --keep FOLDER` makes one run, and writes down all of it.
"""

import argparse
import asyncio
import json
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from bench.differential.comparison import Outcome, compare
from bench.differential.model import Script
from bench.differential.scenarios import LOOPS, Scenario, draw, prepare
from bench.differential.versions import ROOT, Version, checkout

# The last commit before the rewrite.
BASE = "6796291a3dc450d7a5d754f1c82bfd62ae3df7a0"
AT_ONCE, MOST_SHOWN = 24, 8


async def outcomes(version: Version, scenarios: Sequence[Scenario]) -> dict[str, Outcome]:
    """Make every run in one version, several at once; those with a kill share it."""
    slots, found = asyncio.Semaphore(AT_ONCE), dict[str, Outcome]()

    async def one(scenario: Scenario) -> None:
        async with slots:
            found[scenario.name] = await version.make(scenario)

    began = time.monotonic()
    killed = [each for each in scenarios if each.kill]
    async with version.served():
        await asyncio.gather(*(one(each) for each in scenarios if not each.kill))
        for first in range(0, len(killed), AT_ONCE):
            found |= await version.make_with_a_kill(killed[first : first + AT_ONCE])
    print(f"{version.root}: {len(found)} runs in {time.monotonic() - began:.0f} s", flush=True)
    if lost := version.script.calls.get(""):
        print(f"{len(lost)} calls of a model do not tell their run, and are not compared")
    return found


def report(
    scenarios: Sequence[Scenario], before: Mapping[str, Outcome], after: Mapping[str, Outcome]
) -> int:
    """Print what differs, and return how many runs do."""
    notes, different = set[str](), Counter[str]()
    for scenario in scenarios:
        sides = before[scenario.name], after[scenario.name]
        # Of a call that is held until it is cancelled there may be several attempts, too.
        repeats = bool(scenario.kill or scenario.act)
        loop = scenario.name.partition("-")[0]
        # Lines of a batch share the pace of their model: which calls of others a call that fails
        # comes before, and ends, is chance.
        found = compare(
            *sides,
            loop=loop,
            killed=repeats,
            asked=loop != "batch" or not scenario.disturbed,
            ordered=scenario.ordered,
        )
        if not found.differences:
            notes |= found.notes
        else:
            different[loop] += 1
            print(f"\n{scenario.name} differs: mull {shlex.join(scenario.commands[0])}")
            for line in found.differences[:MOST_SHOWN]:
                print(f"  {line}")
            if (more := len(found.differences) - MOST_SHOWN) > 0:
                print(f"  and {more} more")
    for note in sorted(notes):
        print(f"note: {note}")
    for loop in dict.fromkeys(each.name.partition("-")[0] for each in scenarios):
        own = [each for each in scenarios if each.name.startswith(loop)]
        calls = sum(len(before[each.name].calls) for each in own)
        kinds = {
            "calls": calls,
            "with faults": sum(each.disturbed for each in own),
            "killed": sum(before[each.name].killed and after[each.name].killed for each in own),
            "with a person": sum(
                len(before[each.name].commands) > len(each.commands) for each in own
            ),
        }
        told = ", ".join(f"{count} {what}" for what, count in kinds.items())
        print(f"{loop}: {different[loop]} of {len(own)} runs differ ({told})")
    return sum(different.values())


async def main(options: argparse.Namespace, place: Path) -> int:
    """Make the runs in both versions; return how many differ."""
    # What is told to end ends its server and worker first, as at Ctrl-C.
    making = asyncio.current_task()
    assert making is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, making.cancel)
    folder = place / "files"
    prepare(folder, options.runs)
    scenarios = [
        draw(loop, number, options.seed) for loop in options.loops for number in range(options.runs)
    ]
    scenarios = [each for each in scenarios if not options.only or each.name in options.only]
    known, found = {each.name: each for each in scenarios}, list[dict[str, Outcome]]()
    for name, commit in (("base", options.base), ("new", options.new)):
        checked = checkout(commit, place / name) if commit else nullcontext(ROOT)
        with checked as root:
            script = Script(known, options.seed)
            version = Version(root, folder, script, place / f"{name}.log")
            found.append(await outcomes(version, scenarios))
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                kept = {run: asdict(outcome) for run, outcome in found[-1].items()}
                (options.keep / f"{name}.json").write_text(json.dumps(kept, indent=1))
    return report(scenarios, *found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default=BASE, help="the earlier commit")
    parser.add_argument("--new", help="a commit to compare with it; by default this checkout")
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=LOOPS)
    parser.add_argument("--runs", type=int, default=20, help="runs of each loop")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="make these runs alone, such as ask-3")
    parser.add_argument("--keep", type=Path, help="a folder for all that came of each run")
    with tempfile.TemporaryDirectory() as here:
        sys.exit(asyncio.run(main(parser.parse_args(), Path(here))) > 0)
