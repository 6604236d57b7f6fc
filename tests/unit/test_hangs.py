"""What becomes of a test that hangs, in any of the ways in which one does."""

import os
import re
import subprocess
import sys
from pathlib import Path

HANGING = """
import asyncio, threading, time
import pytest

async def test_awaits():
    await asyncio.Event().wait()

async def test_polls():
    while True:
        await asyncio.sleep(0)

async def test_leaves_a_thread():
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    raise ValueError

@pytest.fixture(scope="module")
def ending():
    yield
    threading.Event().wait()

def test_ends(ending):
    pass
"""
STUBBORN = """
import time
import pytest

@pytest.fixture(scope="session")
def beginning():
    time.sleep(1_000)

def test_begins(beginning):
    pass

def test_catches_all():
    while True:
        try:
            time.sleep(1_000)
        except BaseException:
            pass

def test_passes():
    pass
"""


def test_no_hang_holds_up_a_suite(root: Path, tmp_path: Path) -> None:
    """Each ends as a failure that names its place, and the tests after it run."""
    (tmp_path / "test_hanging.py").write_text(HANGING)
    (tmp_path / "test_stubborn.py").write_text(STUBBORN)
    options = (
        "-c", os.devnull, "--rootdir", str(tmp_path), "-o", "asyncio_mode=auto", "-n2", "-rA",
    )  # fmt: skip

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.hangs", *options, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(root), "MULL_TEST_PATIENCE": "0.002"},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    ended = set(re.findall(r"^(PASSED|FAILED|ERROR) .*::(\w+)", done.stdout, re.MULTILINE))
    # On a busy machine the end of what hung may take too long, too.
    expected = {
        "FAILED": ("test_awaits", "test_polls", "test_leaves_a_thread", "test_catches_all"),
        "ERROR": ("test_leaves_a_thread", "test_ends", "test_begins"),
        "PASSED": ("test_ends", "test_passes"),
    }
    assert ended >= {(end, name) for end in expected for name in expected[end]}, done.stdout
    assert "it took more than 1.8 s, and waits here" in done.stdout
    assert "    await asyncio.Event().wait()" in done.stdout
    # What dies with its process says so where the others' output goes.
    assert "Timeout (0:00:02.700000)!" in done.stderr
    assert "in test_catches_all" in done.stderr
