"""What the project measures of itself: files, lines of code, and its benchmarks."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import Quartiles, busy, quartiles, ratios
from bench.house import code_lines, code_of_loops, lines_of, product, walk
from tests.patience import patiently

CODE = {
    "ask": 2_070,
    "reflect": 2_420,
    "agent": 2_700,
    "turn": 2_950,
    "reflexion": 2_960,
    "train": 2_680,
    "batch": 1_190,
}
MOST = {"ask": 34, "reflect": 39, "agent": 42}


def test_a_question_runs_through_few_files() -> None:
    """From the starter to the model and back: at most 34, 39 and 42 of our own."""
    found = {name: len(files) for name, files in asyncio.run(walk()).items()}

    assert {name: found[name] for name, most in MOST.items() if found[name] > most} == {}


def test_loops_are_small() -> None:
    found = code_of_loops(product())

    assert {name: found[name] for name, most in CODE.items() if found[name] > most} == {}


def test_rooms_are_shallow_and_files_short() -> None:
    """A file has at most 450 lines, one folder below a room; README is two screens."""
    files = product()

    assert [str(file) for file in files if lines_of(file) > 450] == []
    # What runs inside the sandbox is apart from the rooms.
    assert [file for file in files if len(file.parts) > 3 and "inside" not in file.parts] == []
    assert len(Path("README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_lines_of_code_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = (
        '"""Said."""\n\n# why\nTEXT = """a\nb"""\n\n\ndef f():\n    """Do."""\n    return 1  # so\n'
    )
    (tmp_path / "one.py").write_text(written)
    monkeypatch.setattr("bench.house.ROOT", tmp_path)

    assert code_lines(Path("one.py")) == 4


PRINTED = r"\d+\.\d\d \(quartiles \d+\.\d\d to \d+\.\d\d\)"


@pytest.mark.parametrize(
    ("command", "compared"),
    [
        ("overhead --rounds 2 --batch 2 --only waves", ["latency", "throughput", "CPU"]),
        ("sandbox --rounds 2", ["plain"]),
    ],
)
def test_it_runs(command: str, compared: list[str], root: Path) -> None:
    """At its smallest settings it takes seconds. Its bounds are for more rounds than these."""
    words = [sys.executable, "-m", *f"bench.{command} --busy".split()]
    printed = subprocess.run(words, check=False, cwd=root, capture_output=True, text=True)

    assert "Traceback" not in printed.stderr
    for name in compared:
        assert re.search(rf"{name}.* {PRINTED}.*, n = \d", printed.stdout), printed


def test_ratios_are_those_of_pairs() -> None:
    """A machine that is slower for one pair changes no ratio; one value is all its quartiles."""
    assert ratios([2, 4, 30], [1, 2, 10]) == Quartiles(2, 2, 2.5)
    assert str(quartiles([3])) == "3.00 (quartiles 3.00 to 3.00)"


def test_other_work_is_one_process_a_core_and_ends() -> None:
    with busy(wanted=True) as others:
        cores = [os.sched_getaffinity(process) for process in others]
        assert all(runs(process) for process in others)

    assert cores == [{core} for core in sorted(os.sched_getaffinity(0))]
    assert not any(runs(process) for process in others)
    with busy(wanted=False) as others:
        assert others == []


def test_other_work_ends_with_a_benchmark_that_is_killed(root: Path) -> None:
    program = "import bench\nwith bench.busy(True) as others: print(*others, flush=True); input()"
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe) as killed:
        assert killed.stdout
        others = [int(word) for word in killed.stdout.readline().split()]
        assert any(runs(process) for process in others)
        killed.send_signal(signal.SIGKILL)

    assert any(not any(map(runs, others)) for _ in patiently(0.02))


def runs(process: int) -> bool:
    """Return whether a process is there, and more than an entry that nobody has read yet."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(") ")[2][0] != "Z"
