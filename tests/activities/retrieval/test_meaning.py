import math
from contextlib import suppress

import pytest

from activities.documents import WordsAloneError
from activities.language_model.port import ModelError, PermanentModelError, TransientModelError
from activities.retrieval.index.searching import Hit
from activities.retrieval.ranking import choose, fuse
from tests.activities.retrieval.documents import Documents
from tests.activities.retrieval.embedding import MODEL, ScriptedEmbedder


def hit(copy: int, score: float = 1.0, file: int | None = None) -> Hit:
    return Hit(score, copy if file is None else file, 0, copy, None)  # type: ignore[arg-type]


def test_ranks_are_fused_by_their_reciprocals() -> None:
    """A passage's score is the sum of 1 / (60 + rank) over both lists, as in the paper."""
    fused = fuse([[hit(1), hit(2), hit(3)], [hit(3), hit(1)]])

    assert [(each.copy, each.score) for each in fused] == [
        (1, round(1 / 61 + 1 / 62, 9)),
        (3, round(1 / 63 + 1 / 61, 9)),
        (2, round(1 / 62, 9)),
    ]


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
    ranking = [hit(copy, file=file) for copy, file in enumerate(files)]

    found = choose(ranking, most)

    assert [each.copy for each in found] == chosen


async def test_meaning_finds_what_words_do_not(documents: Documents) -> None:
    """With an embedding model a passage without any word of the query is found."""
    documents = Documents(documents.base, ScriptedEmbedder())
    documents.write("a.txt", "A quince for you")
    documents.write("b.txt", "nothing else")

    by_words = await documents.find("fruit")
    by_both = await documents.find("fruit", embedding_model=MODEL)

    assert (by_words.passages, by_words.spending) == ((), None)
    assert [each.source for each in by_both.passages] == ["a.txt", "b.txt"]


async def test_vectors_are_kept(documents: Documents) -> None:
    """A passage is embedded once, by whichever worker; the query each time, and both are paid."""
    for number in range(70):
        documents.write(f"{number}.txt", f"apple {number}")
    first, second = ScriptedEmbedder(), ScriptedEmbedder()

    documents.retriever = documents.worker(first)
    before = await documents.find("fruit", embedding_model=MODEL)
    documents.write("new.txt", "a new pear")
    documents.retriever = documents.worker(second)
    after = await documents.find("fruit", embedding_model=MODEL)

    assert [len(batch) for batch in first.batches] == [1, 64, 6]
    assert second.batches == [["fruit"], ["a new pear"]]
    assert before.spending is not None
    assert after.spending is not None
    assert (before.spending.calls, after.spending.calls) == (3, 2)
    assert math.isclose(before.spending.cost_usd or 0, 0.003)


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_where_embedding_fails_words_are_searched(documents: Documents, failing: int) -> None:
    """A call that fails for good, the first or a later one, leaves words, and a warning."""
    error = PermanentModelError("no such model", "NotFoundError", 404)
    embedder = ScriptedEmbedder(*[None] * failing, error)
    documents = Documents(documents.base, embedder)
    for number in range(70):
        documents.write(f"{number}.txt", f"apple {number}")

    found = await documents.find("apple", embedding_model=MODEL)

    assert len(found.passages) == 8
    assert found.warnings == ("searched by words alone: house/embedding failed: no such model",)


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_a_busy_model_is_told_apart(documents: Documents, failing: int) -> None:
    """A failure in passing is raised with its reason, and with what words alone find."""
    error = TransientModelError("the provider is busy", "RateLimitError", 429, 7.5)
    documents = Documents(documents.base, ScriptedEmbedder(*[None] * failing, error))
    for number in range(70):
        documents.write(f"{number}.txt", f"apple {number}")

    with pytest.raises(WordsAloneError) as raised:
        await documents.find("apple", embedding_model=MODEL)

    found = raised.value.found
    assert (raised.value.cause, len(found.passages), found.failed) == (error, 8, 1)
    assert found.warnings == (
        "searched by words alone: house/embedding failed: the provider is busy",
    )


@pytest.mark.parametrize("error", [TransientModelError("busy"), PermanentModelError("no key")])
async def test_a_failure_loses_no_vector(documents: Documents, error: ModelError) -> None:
    """What was embedded before a failure is not embedded again, by another worker either."""
    embedder = ScriptedEmbedder(None, None, error)
    documents = Documents(documents.base, embedder)
    for number in range(70):
        documents.write(f"{number}.txt", f"apple {number}")

    with suppress(WordsAloneError):
        await documents.find("apple", embedding_model=MODEL)
    documents.retriever = documents.worker(embedder)
    await documents.find("apple", embedding_model=MODEL)

    assert [len(batch) for batch in embedder.batches] == [1, 64, 6, 1, 6]


async def test_damaged_vectors_are_embedded_again(documents: Documents) -> None:
    """A file of vectors that is no database is begun anew."""
    documents = Documents(documents.base, ScriptedEmbedder())
    documents.write("a.txt", "apple")
    await documents.find("fruit", embedding_model=MODEL)
    [kept] = documents.cache.rglob("vectors.sqlite3")
    kept.write_bytes(b"no database at all" * 100)

    found = await documents.find("fruit", embedding_model=MODEL)

    assert ([each.source for each in found.passages], found.warnings) == (["a.txt"], ())


async def test_a_worker_without_embedding_models(documents: Documents) -> None:
    """Where nothing embeds, the search by words says so."""
    documents.write("a.txt", "apple")

    found = await documents.find("apple", embedding_model=MODEL)

    assert found.warnings == ("searched by words alone: no embedding models are served",)
    assert len(found.passages) == 1


async def test_an_empty_folder_asks_no_model(documents: Documents) -> None:
    """Nothing is embedded where there is nothing to compare with."""
    embedder = ScriptedEmbedder()
    documents = Documents(documents.base, embedder)

    found = await documents.find("apple", embedding_model=MODEL)

    assert (found.passages, embedder.batches) == ((), [])
