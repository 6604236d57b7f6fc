"""The Landlock backend's folders: measured whatever is in them, and deleted whatever is in them."""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.sandbox.confinement import folders
from activities.sandbox.confinement.measuring import used
from activities.sandbox.inside.clearing import clear

MIB = 2**20
DEEP = 300
NAME = "d" * 50


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A folder, within one that is to be deleted."""
    made = tmp_path / "top" / "box"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that all can enter, as /tmp is."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def _dig(folder: Path, size: int) -> None:
    """Make a file deeper than any path can say."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir(NAME, dir_fd=handle)
        inner = os.open(NAME, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle)
    os.write(file, b"x" * size)
    os.close(file)
    os.close(handle)


def test_deletes_what_is_hard_to_delete(box: Path, tmp_path: Path) -> None:
    """Depth, names, links and permissions keep nothing, and links lead to nothing."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").write_text("kept")
    (box / "link").symlink_to(tmp_path / "outside")
    (box / "\n0").mkdir()
    os.close(os.open(os.fsencode(box) + b"/\xff\xfe", os.O_CREAT))
    os.mkfifo(box / "fifo")
    (box / "shut").mkdir()
    (box / "shut/file").touch(0)
    (box / "shut").chmod(0)
    _dig(box, 1)
    box.chmod(0)

    clear(str(box.parent))

    assert not box.parent.exists()
    assert (tmp_path / "outside/kept").read_text() == "kept"


def test_measures_any_depth(box: Path) -> None:
    """A file counts though no path leads to it, and a sparse one by what it takes."""
    _dig(box, MIB)
    with (box / "sparse").open("wb") as file:
        file.truncate(1 << 40)

    found = used(box, os.getpid(), 10_000)

    clear(str(box))
    assert MIB <= found.size < 4 * MIB
    assert found.files == DEEP + 2


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


def test_folders_of_a_killed_worker(temporary: Path) -> None:
    """What nobody holds is deleted, and what a living worker holds is not."""
    held, dead = folders.make(None), folders.make(None)
    assert dead.lock is not None
    fcntl.flock(dead.lock, fcntl.LOCK_UN)
    (temporary / "another's").mkdir()

    folders.delete_stale()

    assert sorted(temporary.iterdir()) == sorted([held.top, temporary / "another's"])
    os.close(dead.lock)
    folders.delete(held)
    assert [each.name for each in temporary.iterdir()] == ["another's"]


def test_worker_that_is_killed(temporary: Path, root: Path) -> None:
    """Where the worker dies while a program runs, the sandbox itself deletes the folders."""
    command = [sys.executable, str(root / "tests/sandbox/endless_run.py"), "landlock", "2"]
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"running\n"
        made = len(list(temporary.iterdir()))

        worker.kill()
        worker.wait()

    end = time.monotonic() + 1
    while any(temporary.iterdir()) and time.monotonic() < end:
        time.sleep(0.02)
    assert made == 2
    assert list(temporary.iterdir()) == []
