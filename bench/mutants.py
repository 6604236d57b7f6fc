"""Plant faults one at a time: for each of them a test must fail.

    python -m bench.mutants                all of mutants.txt
    python -m bench.mutants --only wave    those whose words have "wave" in them

It works on a copy of the tracked files, and exits with 1 unless every fault is caught.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FAULTS = Path(__file__).with_suffix(".txt")
NO_PRODUCT = ("tests", "examples", "bench")
SECONDS = 300
# pytest's exit code for failed tests, not for errors of collection or of pytest itself.
TESTS_FAILED = 1


class Fault(NamedTuple):
    """A fault, its edit (`old` becomes `new`), and the tests that must see it.

    `file` contains `old`; if it does not, any other product file that does is used.
    """

    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def found(self, root: Path) -> Path | None:
        """Find the one file that contains the text exactly once; None if there is no such file."""
        given = root / self.file
        if given.is_file() and given.read_text("utf-8").count(self.old) == 1:
            return given
        files = [file for file in tracked("*.py") if file.parts[0] not in NO_PRODUCT]
        texts = ((root / file, (root / file).read_text("utf-8")) for file in files)
        holding = [path for path, text in texts for _ in range(text.count(self.old))]
        return holding[0] if len(holding) == 1 else None


class Outcome(NamedTuple):
    """The result for a fault; `said` is the test that failed, or why it is not caught."""

    caught: bool
    said: str


def tracked(*which: str) -> list[Path]:
    """List the tracked files that exist, by their paths from the root."""
    command = ["git", "ls-files", "-z", *which]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def faults() -> list[Fault]:
    """Read the faults: after an introduction, four lines each, with a blank line between."""
    _, *blocks = FAULTS.read_text("utf-8").rstrip("\n").split("\n\n")
    read = []
    for block in blocks:
        breaks, places, old, new = block.split("\n")
        file, tests = places.split(": ")
        read.append(Fault(breaks, file, old[2:], new[2:], tuple(tests.split())))
    return read


def copy(target: Path) -> None:
    """Copy the tracked files as they stand, with a link to the installed packages."""
    for name in tracked():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    (target / ".venv").symlink_to((ROOT / ".venv").resolve())


def plant(fault: Fault, tree: Path) -> Outcome:
    """Plant a fault, run its tests, and restore the file."""
    place = fault.found(tree)
    if place is None:
        return Outcome(False, "the edit does not apply")
    before = place.read_text("utf-8")
    place.write_text(before.replace(fault.old, fault.new), "utf-8")
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *fault.tests],
            cwd=tree,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(False, f"NOT CAUGHT: the tests did not end in {SECONDS} seconds")
    finally:
        place.write_text(before, "utf-8")
    if ran.returncode == TESTS_FAILED:
        failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return Outcome(True, failed[0].split()[1] if failed else "")
    if ran.returncode == 0:
        return Outcome(False, f"NOT CAUGHT by {' '.join(fault.tests)}")
    return Outcome(False, f"the tests could not be run: pytest ended with {ran.returncode}")


def main() -> int:
    """Plant the selected faults, and print the result of each."""
    parser = argparse.ArgumentParser(description="Plant faults that the tests must find.")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="only faults that contain this word"
    )
    only = parser.parse_args().only.casefold()
    wanted = [fault for fault in faults() if only in fault.breaks.casefold()]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        copy(tree)
        for fault in wanted:
            outcome = plant(fault, tree)
            missed += not outcome.caught
            shown = f"caught by {outcome.said}" if outcome.caught else outcome.said
            print(f"{fault.breaks}\n    {shown}", flush=True)
    print(f"{len(wanted) - missed} of {len(wanted)} faults are caught")
    return 1 if missed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
