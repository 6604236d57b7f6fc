"""How much room files take, whatever is done to hide them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from activities.sandbox.disk import used
from activities.sandbox.inside.sweep import clear
from tests.sandbox.deep_folders import dig

MIB = 2**20


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A folder, within one that is to be deleted."""
    made = tmp_path / "top" / "box"
    made.mkdir(parents=True)
    return made


def test_measures_any_depth(box: Path) -> None:
    """A file counts though no path leads to it, and a sparse one by what it takes."""
    dig(box, MIB)
    with (box / "sparse").open("wb") as file:
        file.truncate(1 << 40)

    found = used(box, os.getpid(), 10_000)

    clear(str(box))
    assert MIB <= found.size < 4 * MIB
    assert found.files == 302


@pytest.mark.parametrize("keep", ["file", "mapped"])
def test_measures_deleted_files(box: Path, keep: str) -> None:
    """A deleted file counts while a process has it open, or mapped."""
    code = f"""
import mmap, os
file = os.open("x", os.O_CREAT | os.O_RDWR)
os.write(file, bytes({MIB}))
if {keep!r} == "mapped":
    mapped = mmap.mmap(file, 0)
    os.closerange(3, 20)
os.unlink("x")
print("ready", flush=True)
input()
"""
    command = [sys.executable, "-I", "-c", code]
    with subprocess.Popen(
        command, cwd=box, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        found = used(box, os.getpid(), 10_000)

        process.communicate(b"\n")
    assert MIB <= found.size < 2 * MIB


def test_counting_ends(box: Path) -> None:
    """No more entries are counted than it takes to see that there are too many."""
    for number in range(50):
        (box / str(number)).touch()

    found = used(box, os.getpid(), 10)

    assert found.files == 11


def test_too_deep(box: Path) -> None:
    """Folders that take ever longer to go down to are more than there may be."""
    dig(box, 1, depth=1_200)

    found = used(box, os.getpid(), 10_000)

    clear(str(box))
    assert found.files == 10_001
