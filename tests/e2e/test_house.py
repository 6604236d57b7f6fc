"""The house keeps its measures: what a question runs through, how many files, how deep."""

import asyncio
from pathlib import Path

from bench.house import walk
from bench.mutants import tracked

MOST = {"ask": 30, "reflect": 35, "agent": 45}


def test_a_question_runs_through_few_files() -> None:
    """From the starter to the model and back: at most 30, 35 and 45 of our own."""
    found = {name: len(files) for name, files in asyncio.run(walk()).items()}

    assert {name: found[name] for name, most in MOST.items() if found[name] > most} == {}


def test_rooms_are_shallow_and_few() -> None:
    """At most 222 files of product code, one folder below a room; README is two screens.

    Turns, their tools and sessions are 25 of them, what production asks for is 14, agents with
    their environments are 22, and the training of their reflections is 21.
    """
    files = [file for file in tracked("*.py") if file.parts[0] not in {"tests", "examples"}]

    assert len(files) <= 222
    # What runs inside the sandbox is apart from the rooms.
    assert [file for file in files if len(file.parts) > 3 and "inside" not in file.parts] == []
    assert len(Path("README.md").read_text(encoding="utf-8").splitlines()) <= 100
