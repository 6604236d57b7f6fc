"""The folders of a run: who owns them, what they take, and when they are deleted."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from activities.sandbox import landlock
from activities.sandbox.inside.confinement import clear
from activities.sandbox.port import SandboxError
from activities.sandbox.watcher import used
from tests.patience import PATIENCE, Stopwatch
from tests.sandbox import workers
from tests.sandbox.canaries import open_descriptors

NAME = "d" * 50


def dig(folder: Path, size: int, depth: int = 300) -> None:
    """Make a file of so many bytes beneath so many folders."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(NAME, dir_fd=handle)
        inner = os.open(NAME, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle)
    os.write(file, b"x" * size)
    os.close(file)
    os.close(handle)


# Where the links are that a run reads.
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - nothing is made here


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Path]:
    """A folder, within one that is to be deleted."""
    made = tmp_path / "top" / "box"
    made.mkdir(parents=True)
    yield made
    if made.exists():
        clear(str(made))


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that all can enter, as /tmp is."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.setattr(landlock, "_MEMORY", Path(name))
        yield Path(name)


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
    dig(box, 1)
    box.chmod(0)

    clear(str(box.parent))

    assert not box.parent.exists()
    assert (tmp_path / "outside/kept").read_text() == "kept"


def test_folders_of_a_killed_worker(temporary: Path) -> None:
    """What nobody holds is deleted, and what a living worker holds is not."""
    held, dead = landlock.make_folders(None), landlock.make_folders(None)
    for each in (dead.written, dead.shown):
        fcntl.flock(each.lock, fcntl.LOCK_UN)
    (temporary / "another's").mkdir()

    landlock.delete_stale()

    kept = [held.written.top, held.shown.top, temporary / "another's"]
    assert sorted(temporary.iterdir()) == sorted(kept)
    for each in (dead.written, dead.shown):
        os.close(each.lock)
    landlock.delete_folders(held)
    assert [each.name for each in temporary.iterdir()] == ["another's"]


def test_what_is_not_a_worker_s(temporary: Path, tmp_path: Path) -> None:
    """Neither a link nor a file is taken for the folder of a killed worker."""
    (tmp_path / "kept").touch()
    (temporary / "mull-sandbox-link").symlink_to(tmp_path)
    (temporary / "mull-sandbox-file").touch()

    landlock.delete_stale()

    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
    assert len(list(temporary.iterdir())) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_folder_of_another_user(temporary: Path) -> None:
    """What another user has made, whatever its name, is left alone."""
    (temporary / "mull-sandbox-x").mkdir()
    os.chown(temporary / "mull-sandbox-x", 65_534, 65_534)

    landlock.delete_stale()

    assert [each.name for each in temporary.iterdir()] == ["mull-sandbox-x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.usefixtures("temporary")
def test_owners() -> None:
    """A program's user owns what it may write, and goes through the rest without listing it."""
    made = landlock.make_folders(62_999)

    found = {
        name: (each.stat().st_uid, stat.S_IMODE(each.stat().st_mode))
        for name, each in {
            "written": made.written.top,
            "box": made.box,
            "work": made.work,
            "tmp": made.scratch,
            "shown": made.shown.top,
            "packages": made.packages,
            "bin": made.commands,
        }.items()
    }
    landlock.delete_folders(made)

    assert found == {
        "written": (0, 0o711),
        "box": (62_999, 0o700),
        "work": (62_999, 0o700),
        "tmp": (62_999, 0o700),
        "shown": (0, 0o711),
        "packages": (0, 0o755),
        "bin": (0, 0o755),
    }


def test_folder_that_is_taken(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a worker that begins deletes a folder before it is held, another is made."""
    made = tempfile.mkdtemp
    names = []

    def snatched(*arguments: str, **options: str) -> str:
        names.append(made(*arguments, **options))
        if len(names) == 1:
            landlock.delete_stale()
        return names[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", snatched)

    held = landlock.make_folders(None)

    assert [str(held.written.top), str(held.shown.top)] == names[1:]
    assert sorted(temporary.iterdir()) == sorted(map(Path, names[1:]))
    landlock.delete_folders(held)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
@pytest.mark.parametrize("failing", ["RunFolder", "_locked"])
def test_folders_that_cannot_be_made(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, failing: str, error: BaseException
) -> None:
    """Where making them fails half-way neither a folder nor a descriptor is left."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(landlock, failing, fail)
    before = open_descriptors()

    with pytest.raises(type(error)):
        landlock.make_folders(None)

    assert list(temporary.iterdir()) == []
    assert open_descriptors() == before


def test_other_folder_for_temporary_files(temporary: Path) -> None:
    """Where no other user could reach the folder for temporary files another is taken."""
    temporary.chmod(0o700)

    made = landlock.make_folders(None)

    assert temporary not in made.written.top.parents
    landlock.delete_folders(made)


def test_no_folder_for_temporary_files(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none can be used it is said which were tried."""
    temporary.chmod(0o700)
    monkeypatch.setattr(landlock, "_bases", lambda: [temporary])

    with pytest.raises(SandboxError, match=f"tried {temporary}"):
        landlock.make_folders(None)


@pytest.mark.parametrize("worker_is", ["endless", "outlived"])
def test_worker_that_is_killed(temporary: Path, root: Path, worker_is: str) -> None:
    """Where the worker dies while a program runs, the sandbox itself deletes the folders."""
    command = workers.command(worker_is, "landlock", "2")
    environment = workers.environment(root, temporary)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"running\n"
        held = []
        for each in Path(f"/proc/{worker.pid}/fd").iterdir():
            # Others may be closed meanwhile.
            with suppress(FileNotFoundError):
                held.append(str(each.readlink()))
        # Those of other tests are there too.
        own = [each for each in IN_MEMORY.iterdir() if any(str(each) in name for name in held)]
        made = [*temporary.iterdir(), *own]

        worker.kill()
        worker.wait()

    watch = Stopwatch()
    while any(each.exists() for each in made) and watch.seconds < PATIENCE:
        time.sleep(0.02)
    assert len(made) >= 4
    assert not any(each.exists() for each in made)


MIB = 2**20


@pytest.fixture
def childless() -> Iterator[int]:
    """The id of a process with no others below it.

    Those below the tests' own have its standard error, which pytest keeps in a deleted file.
    """
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        yield process.pid
        process.kill()


def test_measures_any_depth(box: Path, childless: int) -> None:
    """A file counts though no path leads to it, and a sparse one by what it takes."""
    dig(box, MIB)
    with (box / "sparse").open("wb") as file:
        file.truncate(1 << 40)

    size, files = used(box, childless, 10_000)

    assert MIB <= size < 4 * MIB
    assert files == 302


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

        size, _ = used(box, os.getpid(), 10_000)

        process.communicate(b"\n")
    assert MIB <= size < 2 * MIB


def test_counting_ends(box: Path, childless: int) -> None:
    """No more entries are counted than it takes to see that there are too many."""
    for number in range(50):
        (box / str(number)).touch()

    assert used(box, childless, 10)[1] == 11


def test_measures_every_folder(box: Path, childless: int) -> None:
    """Each of many folders at every depth counts once, whether its path is short or long."""
    for name in ("a", "b" * 200):
        (box / name).mkdir()
        dig(box / name, 1, depth=150)
    deepest = box
    for _ in range(60):
        for name in ("c" * 30, "e" * 30):
            (deepest / name).mkdir()
        deepest = deepest / name
    before = open_descriptors()

    _, files = used(box, childless, 10_000)

    assert files == 2 * (1 + 150 + 1) + 60 * 2
    assert open_descriptors() == before


def test_depth_costs_no_more_than_it_adds(box: Path, childless: int) -> None:
    """Twice as many folders in each other take about twice the time to measure."""
    spent = []
    handle = os.open(box, os.O_RDONLY)
    for _ in range(2):
        for _ in range(2_000):
            os.mkdir("d", dir_fd=handle)
            inner = os.open("d", os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = inner
        begin = time.thread_time()
        used(box, childless, 10_000)
        spent.append(time.thread_time() - begin)
    os.close(handle)

    assert spent[1] <= 3 * spent[0]


def test_too_deep(box: Path, childless: int) -> None:
    """Folders below a path of 50 KB are more than there may be."""
    dig(box, 1, depth=1_200)

    assert used(box, childless, 10_000)[1] == 10_001
