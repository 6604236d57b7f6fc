"""The house keeps its measures: what a question runs through, a loop's code, long files."""

import asyncio
from pathlib import Path

import pytest

from bench.house import code_lines, code_of_loops, lines_of, product, walk

CODE = {
    "ask": 2_150,
    "reflect": 2_540,
    "agent": 2_770,
    "turn": 3_030,
    "reflexion": 3_010,
    "train": 2_840,
    "batch": 1_230,
}
MOST = {"ask": 30, "reflect": 35, "agent": 45}


def test_a_question_runs_through_few_files() -> None:
    """From the starter to the model and back: at most 30, 35 and 45 of our own."""
    found = {name: len(files) for name, files in asyncio.run(walk()).items()}

    assert {name: found[name] for name, most in MOST.items() if found[name] > most} == {}


def test_loops_are_small() -> None:
    """What belongs to one loop alone has no more lines of code than this."""
    found = code_of_loops(product())

    assert {name: found[name] for name, most in CODE.items() if found[name] > most} == {}


def test_rooms_are_shallow_and_files_short() -> None:
    """A file has at most 465 lines, one folder below a room; README is two screens."""
    files = product()

    assert [str(file) for file in files if lines_of(file) > 465] == []
    # What runs inside the sandbox is apart from the rooms.
    assert [file for file in files if len(file.parts) > 3 and "inside" not in file.parts] == []
    assert len(Path("README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_lines_of_code_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Blank lines, comments and docstrings are none; a text that is used is."""
    written = (
        '"""Said."""\n\n# why\nTEXT = """a\nb"""\n\n\ndef f():\n    """Do."""\n    return 1  # so\n'
    )
    (tmp_path / "one.py").write_text(written)
    monkeypatch.setattr("bench.house.ROOT", tmp_path)

    assert code_lines(Path("one.py")) == 4
