import random

import pytest

from tests.activities.retrieval.documents import Documents

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


@pytest.mark.parametrize("prompt", ANY_TEXT, ids=range(len(ANY_TEXT)))
async def test_any_text_is_a_query(documents: Documents, prompt: str) -> None:
    """No query raises, and one with a word of a document finds it, whatever stands around it."""
    documents.write("fruit.txt", "An apple a day.")
    documents.write("other.txt", "Nothing of the kind.")

    found = await documents.find(prompt.encode(errors="replace").decode())

    assert [each.source for each in found.passages] == ["fruit.txt"] * ("apple" in prompt)


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

    found = await documents.sources(prompt)

    assert found == ["settings/deep.py"]


async def test_rare_words_rank_first(documents: Documents) -> None:
    """The passage with the query's rare word comes before those with its frequent one."""
    for number in range(30):
        documents.write(f"{number}.txt", f"apple pie number {number}")
    documents.write("rare.txt", "apple and quince")

    found = await documents.sources("apple quince", passages=3)

    assert (found[0], len(found)) == ("rare.txt", 3)


async def test_a_long_prompt_is_searched_by_its_rare_words(documents: Documents) -> None:
    """Of a prompt of many words the 64 that tell passages apart are looked up."""
    words = [f"common{number}" for number in range(200)]
    for number in range(5):
        documents.write(f"{number}.txt", f"{number} " + " ".join(words[20 * number :]))
    documents.write("rare.txt", "quince")

    found = await documents.sources(" ".join([*words, "quince"]), passages=6)

    assert "rare.txt" in found


async def test_no_file_takes_all_places(documents: Documents) -> None:
    """At most half of the passages are of one file, while another has any."""
    documents.write("long.txt", "\n\n".join(f"apple {n} " + "apple " * 180 for n in range(9)))
    for number in range(3):
        documents.write(f"{number}.txt", f"one apple, and much else beside it {number}")

    shared = await documents.sources("apple", passages=4)
    alone = await documents.sources("apple", passages=12)

    assert shared.count("long.txt") == 2
    assert alone.count("long.txt") == 9


async def test_copies_are_found_once(documents: Documents) -> None:
    """A text that stands in many files takes one place, and the others find theirs."""
    for number in range(1_500):
        documents.write(f"copy{number}.txt", "apple")
    documents.write("other.txt", "apple, and something else that makes it less of an apple")

    found = await documents.sources("apple", passages=5)

    assert len(found) == 2
    assert "other.txt" in found


async def test_equals_come_in_the_same_order(documents: Documents) -> None:
    """Passages that fit alike are ranked alike by every worker, however it came to its index."""
    names = [f"{number}.txt" for number in range(60)]
    for number, name in enumerate(names):
        documents.write(name, f"apple number{number}")
    first = await documents.sources("apple", passages=10)

    documents.cache = documents.base / "other"
    documents.retriever = documents.worker()
    for name in random.Random(1).sample(names, 60):
        (documents.folder / name).rename(documents.base / name)
    await documents.find("apple")
    for name in random.Random(2).sample(names, 60):
        (documents.base / name).rename(documents.folder / name)
        await documents.find("apple") if name.startswith("1") else None
    second = await documents.sources("apple", passages=10)

    assert first == second


async def test_progress_counts_files(documents: Documents) -> None:
    """Progress tells how many files were read and how many there are, up to all of them."""
    for number in range(3):
        documents.write(f"{number}.txt", "apple")
    counts: list[tuple[int, int]] = []

    await documents.find("apple", progress=lambda done, of: counts.append((done, of)))

    assert counts == [(0, 3), (1, 3), (2, 3), (3, 3)]
