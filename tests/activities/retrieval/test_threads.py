import asyncio
import threading
from collections.abc import Callable
from time import perf_counter, sleep

import pytest

from activities.retrieval import folder
from activities.retrieval.bounds import LONG_WORKS
from activities.retrieval.index.lock import locked
from activities.retrieval.threads import Going, StoppedError, Threads
from tests.activities.retrieval.documents import Documents


def names() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("mull-documents")]


def held(free: threading.Event) -> Callable[[Going], None]:
    """Long work that ends when a test says so."""

    def work(_: Going) -> None:
        assert free.wait(20)

    return work


async def test_no_thread_is_begun_before_there_is_work() -> None:
    """Threads of their own name begin with the first work, end with `close`, and begin again."""
    before = len(names())
    threads = Threads()
    unused = len(names())

    name = await threads.short(lambda: threading.current_thread().name)
    threads.close()
    again = await threads.short(lambda: threading.current_thread().name)
    threads.close()

    assert (before, name[:14], again[:14]) == (unused, "mull-documents", "mull-documents")


async def test_long_work_leaves_threads_to_the_short() -> None:
    """While as many wait for long work as ever do, a query of another folder runs at once."""
    threads, free = Threads(), threading.Event()
    long = [asyncio.create_task(threads.long(held(free))) for _ in range(LONG_WORKS + 4)]
    await asyncio.sleep(0.2)

    found = await asyncio.wait_for(threads.short(lambda: "found"), 2)
    free.set()
    await asyncio.gather(*long)

    assert found == "found"


async def test_searches_that_wait_leave_the_rest_of_the_worker_its_threads(
    documents: Documents,
) -> None:
    """Retrievals that wait for another process take none of the threads that all others share."""
    for number in range(10):
        documents.write(f"{number}/a.txt", "apple")
        await documents.find("apple", docs=f"docs/{number}")
        documents.write(f"{number}/b.txt", "pear")
    locks = list(documents.cache.rglob("lock"))
    with_locks = [locked(each, 1, lambda: None) for each in locks]
    for each in with_locks:
        each.__enter__()

    waiting = [asyncio.create_task(documents.find("pear", docs=f"docs/{n}")) for n in range(10)]
    await asyncio.sleep(0.3)
    used = [each.name for each in threading.enumerate() if each.name.startswith("asyncio_")]
    elsewhere = await asyncio.wait_for(asyncio.to_thread(lambda: "done"), 2)
    for each in with_locks:
        each.__exit__(None, None, None)
    found = await asyncio.gather(*waiting)

    assert (len(locks), used, elsewhere) == (10, [], "done")
    assert [each.passages[0].source for each in found] == ["b.txt"] * 10


async def test_what_does_not_look_up_is_left_behind() -> None:
    """Work that nobody waits for any more, and that notices too late, holds nobody up."""
    threads, free, told = Threads(), threading.Event(), []
    started = perf_counter()
    running = asyncio.create_task(threads.long(held(free), lambda: told.append("left")))
    await asyncio.sleep(0.1)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    seconds = perf_counter() - started
    free.set()

    assert (seconds < 2.6, told) == (True, ["left"])


async def test_what_looks_up_is_not_left_behind() -> None:
    """Work that ends soon after its task was cancelled leaves nothing to begin anew."""
    threads, told = Threads(), []

    def work(going: Going) -> None:
        while True:
            going()
            sleep(0.01)

    running = asyncio.create_task(threads.long(work, lambda: told.append("left")))
    await asyncio.sleep(0.1)

    running.cancel()
    with pytest.raises((asyncio.CancelledError, StoppedError)):
        await running

    assert told == []


async def test_a_thread_that_hangs_keeps_nothing_that_others_use(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a search whose thread did not end the next one begins with a folder of its own."""
    documents.write("a.txt", "apple")
    begun, free, used = threading.Event(), threading.Event(), []
    refresh = folder.Folder.refresh

    def hang_once(self: folder.Folder, progress: object, going: Going) -> folder.Indexed:
        used.append(self)
        if len(used) == 1:
            begun.set()
            assert free.wait(20)
        return refresh(self, progress, going)  # type: ignore[arg-type]

    monkeypatch.setattr(folder.Folder, "refresh", hang_once)
    first = asyncio.create_task(documents.find("apple"))
    await asyncio.to_thread(begun.wait)
    waiting = asyncio.create_task(documents.find("apple"))
    await asyncio.sleep(0.1)

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    found = [await waiting, await documents.find("apple")]
    free.set()

    assert [each.passages[0].source for each in found] == ["a.txt"] * 2
    assert used[0] is not used[1]
    assert used[1] is used[2]
