"""The tutorial `docs/a-new-workflow.md`: its code, put where it says, passes its test."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = ("mull", "activities", "workflows", "commands", "tests")
CREATED = re.compile(r"Create `([^`]+)`:\n\n```python\n(.*?)```", re.DOTALL)
LISTED = re.compile(r"In `([^`]+)`, `([A-Z]+)`[^:\n]*:\n\n```python\n(.*?)```", re.DOTALL)
LINES = 150
# A command is imported where its name is typed.
HELP = "import sys; sys.argv[1:] = ['echo', '--help']; import starter; starter.run()"


def python(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    known = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "100"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=known, capture_output=True, text=True, check=False
    )


@pytest.fixture
def written(root: Path, tmp_path: Path) -> tuple[Path, int]:
    """A copy of the project with the tutorial's code in it, and how many lines that took."""
    left_out = shutil.ignore_patterns("__pycache__", "hostile", "outcomes", "*.html")
    for name in SOURCES:
        shutil.copytree(root / name, tmp_path / name, ignore=left_out)
    for file in (*root.glob("*.py"), root / "pyproject.toml"):
        shutil.copy(file, tmp_path)
    text, count = (root / "docs" / "a-new-workflow.md").read_text(), 0
    for place, code in CREATED.findall(text):
        assert not (tmp_path / place).exists()
        (tmp_path / place).write_text(code)
        count += 0 if place.startswith("tests/") else code.count("\n")
    for place, name, code in LISTED.findall(text):
        count += code.count("\n")
        _enter(tmp_path / place, name, code)
    return tmp_path, count


def _enter(file: Path, name: str, code: str) -> None:
    """Put the imports of the code before the others of the file, and the rest into the list."""
    lines = code.splitlines(keepends=True)
    imports = "".join(line for line in lines if line.startswith("from "))
    entry = "".join(line for line in lines if not line.startswith("from "))
    text = file.read_text()
    opened = re.findall(rf"^{name} = [\[({{]\n", text, re.MULTILINE)
    assert len(opened) == 1, f"{file.name} has no list {name}"
    text = text.replace(opened[0], opened[0] + entry)
    file.write_text(re.sub(r"^(?=from )", imports, text, count=1, flags=re.MULTILINE))


def test_the_tutorial_holds(written: tuple[Path, int]) -> None:
    """Its workflow runs through a worker, its command is known, and it stays small."""
    folder, count = written

    tested = python(folder, "-m", "pytest", "-n", "0", "tests/workflows/test_echo.py")
    helped = python(folder, "-c", HELP)

    assert tested.returncode == 0, tested.stdout
    assert "1 passed" in tested.stdout
    assert "The answer waits for a person." in helped.stdout, helped.stderr
    assert count <= LINES
