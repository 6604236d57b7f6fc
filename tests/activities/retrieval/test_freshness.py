import asyncio
import json
import os
from pathlib import Path

import pytest

from activities.retrieval.retriever import cache_folder
from tests.activities.retrieval.documents import Documents

YEAR_2020 = 1_577_836_800


async def test_new_changed_and_gone_files_are_noticed(documents: Documents) -> None:
    """The next search is of the files as they are then."""
    documents.write("a.txt", "apple one")
    documents.write("b.txt", "apple two")
    before = await documents.sources("apple")

    documents.write("a.txt", "pear")
    (documents.folder / "b.txt").unlink()
    documents.write("c.txt", "apple three")
    after = await documents.sources("apple")

    assert (sorted(before), after) == (["a.txt", "b.txt"], ["c.txt"])


async def test_a_change_that_keeps_size_and_time_is_noticed(documents: Documents) -> None:
    """A file that was written twice at the same moment, with the same size, is read again."""
    path = documents.write("a.txt", "apple")
    os.utime(path, (YEAR_2020, YEAR_2020))
    before = await documents.sources("apple")

    path.write_text("grape")
    os.utime(path, (YEAR_2020, YEAR_2020))
    after = await documents.sources("apple"), await documents.sources("grape")

    assert (before, after) == (["a.txt"], ([], ["a.txt"]))


async def test_a_file_that_was_only_touched_keeps_its_passages(documents: Documents) -> None:
    """The content decides: another time alone changes no passage and no id."""
    path = documents.write("a.txt", "apple")
    before = await documents.find("apple")

    os.utime(path, (YEAR_2020, YEAR_2020))
    after = await documents.find("apple")

    assert before.passages == after.passages


def operations(documents: Documents) -> int:
    """Count what was ever added to an index, taken out of it, and committed."""
    [meta] = documents.cache.rglob("meta.json")
    return int(json.loads(meta.read_bytes())["opstamp"])


async def test_only_what_changed_is_indexed_again(documents: Documents) -> None:
    """A file that was touched is read and no more; for one that changed its passages are new."""
    for number in range(20):
        documents.write(f"{number}.txt", f"apple {number}")
    await documents.find("apple")
    first = operations(documents)

    os.utime(documents.folder / "3.txt", (YEAR_2020, YEAR_2020))
    await documents.find("apple")
    touched = operations(documents)
    documents.write("4.txt", "quince")
    await documents.find("apple")
    changed = operations(documents)

    taken_out, added, committed = 1, 1, 1
    assert first == 20 + committed
    assert (touched - first, changed - touched) == (0, taken_out + added + committed)


async def test_a_file_that_became_binary_is_left_out(documents: Documents) -> None:
    """Passages of a text go when the file is no text any more, and come back with it."""
    documents.write("a.txt", "apple")
    before = await documents.sources("apple")

    documents.write("a.txt", b"apple\0")
    between = await documents.find("apple")
    documents.write("a.txt", "apple")
    after = await documents.sources("apple")

    assert (before, between.passages, after) == (["a.txt"], (), ["a.txt"])
    assert between.left_out == ("no text (1): a.txt",)


async def test_another_worker_finds_the_index_as_it_is(documents: Documents) -> None:
    """An index that exists is used: no file is read that did not change."""
    for number in range(20):
        documents.write(f"{number}.txt", f"apple {number}")
    await asyncio.sleep(1.1)
    before = await documents.find("apple")
    documents.retriever = documents.worker()
    counts: list[tuple[int, int]] = []

    after = await documents.find("apple", progress=lambda done, of: counts.append((done, of)))

    assert before.passages == after.passages
    assert counts == []


async def test_ids_are_of_content_and_place(documents: Documents) -> None:
    """An id has twelve digits of the content's hash and the passage's number, on every worker."""
    documents.write("a.txt", "apple")

    [passage] = (await documents.find("apple")).passages

    assert passage.id == "a24a876b13db-0"


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"MULL_CACHE": "/c/mine", "XDG_CACHE_HOME": "/x"}, "/c/mine"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/mull"),
        ({"MULL_CACHE": "", "XDG_CACHE_HOME": ""}, str(Path.home() / ".cache" / "mull")),
    ],
)
def test_where_indexes_are_kept(environment: dict[str, str], folder: str) -> None:
    """MULL_CACHE says where, else the desktop's standard does."""
    chosen = cache_folder(environment)

    assert chosen == Path(folder)


async def test_the_cache_is_private(documents: Documents) -> None:
    """An index holds the documents' text, so that nobody else may read it."""
    documents.write("a.txt", "apple")
    await documents.find("apple")

    [kept] = (documents.cache / "documents" / "2").iterdir()

    assert kept.stat().st_mode & 0o077 == 0
