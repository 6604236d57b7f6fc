"""What an index finds, and how it follows its folder."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from activities.documents import folder, index
from activities.documents.folder import cache_folder
from tests.activities.documents.documents import Documents

ANY_TEXT = [
    "",
    " \n\t",
    "apple AND",
    "apple OR OR pear",
    'a "phrase that never ends',
    "field:value words:apple key:manifest",
    "(((",
    "apple^99999 ~ * ? [a TO z] {b TO c} -apple +pear !",
    "\\",
    "/re.*/",
    "\0apple\x1b[31m",
    "\ud800 apple \udfff",
    "日本語 한국어 🍎 \u202e",
    "apple " * 20_000,
    " ".join(f"word{number}" for number in range(12_000)),
    "x" * 100_000,
    "the of and",
]


async def test_any_text_is_a_query(documents: Documents) -> None:
    """No query raises, and one with a word of a document finds it, whatever stands around it."""
    documents.write("fruit.txt", "An apple a day.")
    documents.write("other.txt", "Nothing of the kind.")

    for prompt in ANY_TEXT:
        found = await documents.sources(prompt.encode(errors="replace").decode())
        assert found == ["fruit.txt"] * ("apple" in prompt), prompt[:50]


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("running", "He runs."),
        ("uber", "Über allem"),
        ("parse reply", "def parseReply(): ..."),
        ("parseReply", "def parse_reply(): ..."),
        ("文", "日本語の文です"),
        ("2024", "In 2024 it rained."),
        ("settings", ""),
    ],
)
async def test_words_are_found_in_other_shapes(
    documents: Documents, prompt: str, text: str
) -> None:
    """Stems, accents, joined words, unspaced scripts and the file's name lead to a passage."""
    documents.write("settings/deep.py", text or "nothing else")

    assert await documents.sources(prompt) == ["settings/deep.py"]


YEAR_2020 = 1_577_836_800


async def test_new_changed_and_gone_files_are_noticed(documents: Documents) -> None:
    """The next search is of the files as they are then."""
    documents.write("a.txt", "apple one")
    documents.write("b.txt", "apple two")
    before = await documents.sources("apple")

    documents.write("a.txt", "pear")
    (documents.folder / "b.txt").unlink()
    documents.write("c.txt", "apple three")
    documents.write("d.txt", b"apple\0")
    after = await documents.find("apple")
    documents.write("d.txt", "apple four")
    (documents.folder / "c.txt").write_bytes(b"apple\0")
    again = await documents.find("apple")

    assert sorted(before) == ["a.txt", "b.txt"]
    assert [each.source for each in after.passages] == ["c.txt"]
    assert [each.source for each in again.passages] == ["d.txt"]
    assert (after.left_out, again.left_out) == (("no text (1): d.txt",), ("no text (1): c.txt",))


async def test_a_change_that_keeps_size_and_time_is_noticed(documents: Documents) -> None:
    """A file that was written twice at the same moment, with the same size, is read again."""
    path = documents.write("a.txt", "apple")
    os.utime(path, (YEAR_2020, YEAR_2020))
    before = await documents.sources("apple")

    path.write_text("grape")
    os.utime(path, (YEAR_2020, YEAR_2020))
    after = await documents.sources("apple"), await documents.sources("grape")

    assert (before, after) == (["a.txt"], ([], ["a.txt"]))


def rows(documents: Documents) -> dict[bytes, int]:
    """Read which row of the index each file has: a file that is indexed again gets a new one."""
    [place] = documents.cache.rglob("index.sqlite3")
    with closing(sqlite3.connect(place)) as database:
        return dict(database.execute("SELECT path, id FROM files"))


async def test_only_what_changed_is_indexed_again(documents: Documents) -> None:
    """A file that was touched is read and no more; for one that changed its passages are new."""
    for number in range(20):
        documents.write(f"{number}.txt", f"apple {number}")
    await documents.find("apple")
    first = rows(documents)

    os.utime(documents.folder / "3.txt", (YEAR_2020, YEAR_2020))
    documents.write("4.txt", "quince")
    await documents.find("apple")

    assert {path for path, row in rows(documents).items() if row != first[path]} == {b"4.txt"}


async def test_ids_are_of_content_and_the_cache_is_private(documents: Documents) -> None:
    """An id is of a content's hash and the passage's number; only the user may read an index."""
    documents.write("a.txt", "apple")

    [passage] = (await documents.find("apple")).passages
    [kept] = (documents.cache / "documents" / "6").iterdir()

    assert passage.id == "a24a876b13db-0"
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"MULL_CACHE": "/c/mine", "XDG_CACHE_HOME": "/x"}, "/c/mine"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/mull"),
        # The standard has it that a relative one is ignored.
        ({"XDG_CACHE_HOME": "x"}, str(Path.home() / ".cache" / "mull")),
        ({"MULL_CACHE": "", "XDG_CACHE_HOME": ""}, str(Path.home() / ".cache" / "mull")),
    ],
)
def test_where_indexes_are_kept(environment: dict[str, str], place: str) -> None:
    """MULL_CACHE says where, else the desktop's standard does."""
    assert cache_folder(environment) == Path(place)


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda _: None,
    "empty": lambda _: b"",
    "no database": lambda _: b"{nope" * 5_000,
    "cut": lambda content: content[: len(content) // 2],
    "pages of zeros": lambda content: content[:4_096] + bytes(len(content) - 4_096),
    "noise in the words": lambda content: content[:12_288] + b"\xa5" * (len(content) - 12_288),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_index_is_built_anew(
    documents: Documents, damage: Callable[[bytes], bytes | None]
) -> None:
    """An index that is cut, lost or overwritten costs a search the time to build it."""
    documents.write("a.txt", "apple")
    await documents.find("apple")
    [place] = documents.cache.rglob("index.sqlite3")
    content = damage(place.read_bytes())
    place.unlink()
    if content is not None:
        place.write_bytes(content)

    assert [each.source for each in (await documents.find("apple")).passages] == ["a.txt"]


async def test_a_large_folder_is_not_checked_at_every_search(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For ten times as long as a check took the files count as they were, if the index has any."""
    monkeypatch.setattr(index, "YOUNG_NANOSECONDS", 0)
    monkeypatch.setattr(folder, "FREE_CHECK_SECONDS", 0)
    monkeypatch.setattr(folder, "CHECK_COSTS", 1_000_000)
    documents.write("a.txt", "apple")
    await documents.find("apple")
    await documents.find("apple")
    documents.write("b.txt", "apple too")

    before = await documents.sources("apple")
    [place] = documents.cache.rglob("index.sqlite3")
    os.truncate(place, 0)  # as another process does with one that is damaged
    assert (before, sorted(await documents.sources("apple"))) == (["a.txt"], ["a.txt", "b.txt"])
