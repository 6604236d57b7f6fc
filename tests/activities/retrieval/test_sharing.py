import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import pytest

from activities.retrieval.index.lock import locked
from tests.activities.retrieval.documents import Documents

ROOT = Path(__file__).parents[3]
FILES = 600
# What was written just now is read twice, lest a change in the same moment be missed.
OLD_SECONDS = 1.1
WORKER = """
import asyncio, sys
from pathlib import Path
from tests.activities.retrieval.documents import Documents
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


def test_two_processes_index_one_folder(documents: Documents) -> None:
    """Of two processes that begin at once each finds all, and none is in the other's way."""
    write_many(documents)

    both = [start(documents) for _ in range(2)]
    said = [each.communicate(timeout=60)[0].splitlines()[-1] for each in both]

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

    with locked(lock, 1, lambda: None):
        found = await documents.find("apple")

    assert [each.source for each in found.passages] == ["a.txt"]
    assert found.warnings == (
        "another worker is reading this folder: what it has read so far was searched",
    )


async def test_a_lock_is_waited_for(documents: Documents) -> None:
    """A writer that ends soon delays a search, and no more."""
    documents.write("a.txt", "apple")
    await documents.find("apple")
    documents.write("b.txt", "pear")
    [lock] = documents.cache.rglob("lock")

    with locked(lock, 1, lambda: None):
        waiting = asyncio.create_task(documents.find("pear"))
        await asyncio.sleep(0.3)
        before = waiting.done()
    found = await waiting

    assert (before, found.passages[0].source, found.warnings) == (False, "b.txt", ())


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
    started = perf_counter()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    seconds = perf_counter() - started
    found = await documents.find("apple")

    assert seconds < 1
    assert found.searched == FILES
