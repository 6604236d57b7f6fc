"""A process that may open no more files."""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from activities.documents import TransientRetrievalError
from tests.activities.retrieval.documents import Documents

MOST = 300


def close(opened: list[int], count: int) -> None:
    for _ in range(count):
        os.close(opened.pop())


@pytest.fixture
def use_up() -> Iterator[Callable[[int], list[int]]]:
    """Open all files that the process may, but for some; what comes back is open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []

    def all_but(room: int) -> list[int]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (MOST, hard))
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        close(opened, room)
        return opened

    yield all_but
    close(opened, len(opened))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1, 2, 3, 5])
async def test_what_can_not_be_opened_now_is_tried_again(
    documents: Documents, use_up: Callable[[int], list[int]], room: int
) -> None:
    """Where files run out none is left out for it, and the index that there is stays."""
    documents.write("a.txt", "apple")
    await documents.find("apple")
    documents.write("b.txt", "apple too")
    [index] = documents.cache.rglob("index")
    inode = index.stat().st_ino
    documents.retriever = documents.worker()

    opened = use_up(room)
    with pytest.raises(TransientRetrievalError) as raised:
        await documents.find("apple")
    close(opened, len(opened))
    found = await documents.find("apple")

    assert str(raised.value) == (
        "the worker can't search the documents now (Too many open files): give its process more "
        "of that, or fewer activities at once"
    )
    assert {each.source for each in found.passages} == {"a.txt", "b.txt"}
    assert (found.left_out, index.stat().st_ino) == ((), inode)
