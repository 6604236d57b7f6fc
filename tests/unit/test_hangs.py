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


# By their tests' names, also where the end of what hung takes too long itself.
EXPECTED = {
    "FAILED": ("test_awaits", "test_polls", "test_leaves_a_thread", "test_catches_all"),
    "ERROR": ("test_leaves_a_thread", "test_ends", "test_begins"),
    "PASSED": ("test_ends", "test_passes"),
}


def test_no_hang_holds_up_a_suite(root: Path, tmp_path: Path) -> None:
    """Each ends as a failure that names its place, and the tests after it run.

    On a busy machine a second and a half are too short for tests that do not hang, too: where they
    were, all have ten times as long.
    """
    (tmp_path / "test_hanging.py").write_text(HANGING)
    (tmp_path / "test_stubborn.py").write_text(STUBBORN)
    options = (
        "-c", os.devnull, "--rootdir", str(tmp_path), "-o", "asyncio_mode=auto", "-n2", "-rA",
    )  # fmt: skip
    expected = {(end, name) for end, names in EXPECTED.items() for name in names}
    for patience in ("0.002", "0.02"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "tests.hangs", *options, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(root), "MULL_TEST_PATIENCE": patience},
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        ended = set(re.findall(r"^(PASSED|FAILED|ERROR) .*::(\w+)", done.stdout, re.MULTILINE))
        if ended >= expected:
            break

    most = 900 * float(patience)
    assert ended >= expected, done.stdout
    assert f"it took more than {most:g} s, and waits here" in done.stdout
    assert "    await asyncio.Event().wait()" in done.stdout
    # What dies with its process says so where the others' output goes.
    assert f"Timeout (0:00:{1.5 * most:09.6f})!" in done.stderr
    assert "in test_catches_all" in done.stderr
