"""Searching by meaning, what it costs, and its spans."""

import math
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from activities.documents.folder import pick_passages
from activities.documents.meaning import fuse
from activities.documents.retrieval import WordsAloneError
from activities.language_model.port import ModelError, PermanentModelError, TransientModelError
from reflection.multipath.state import Passage
from reflection.run import Spending
from tests.activities.documents.documents import MODEL, Documents, ScriptedEmbedder


def hit(number: int, file: int = 1) -> Passage:
    return Passage(id="", source=str(file), first_line=1, last_line=1, score=1.0, text=str(number))


def test_ranks_are_fused_by_their_reciprocals() -> None:
    """A passage's score is the sum of 1 / (60 + rank) over both lists, as in the paper."""
    fused = fuse([[hit(1), hit(2), hit(3)], [hit(3), hit(1)]])

    assert [(each.text, each.score) for each in fused] == [
        ("1", round(1 / 61 + 1 / 62, 9)),
        ("3", round(1 / 63 + 1 / 61, 9)),
        ("2", round(1 / 62, 9)),
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
    ranking = [hit(number, file) for number, file in enumerate(files)]

    found = pick_passages(ranking, most)

    assert [int(each.text) for each in found] == chosen


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


def embeddings(spans: InMemorySpanExporter) -> list[ReadableSpan]:
    return [
        each for each in spans.get_finished_spans() if each.name == "embeddings house/embedding"
    ]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_each_call_is_a_span(documents: Documents, spans: InMemorySpanExporter) -> None:
    """A passage without a word of the prompt is found, by calls whose spans have no text."""
    spans.clear()
    documents.write("a.txt", "a secret apple")
    documents.write("b.txt", "nothing else")
    documents.retriever = documents.worker(ScriptedEmbedder())
    by_words = await documents.find("fruit")

    found = await documents.find("secretly a fruit", embedding_model=MODEL)

    assert (by_words.passages, by_words.spending) == ((), None)
    assert [each.source for each in found.passages] == ["a.txt", "b.txt"]
    query, passages = embeddings(spans)
    assert query.kind == passages.kind == SpanKind.CLIENT
    assert attributes(query) == {
        "openinference.span.kind": "EMBEDDING",
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "house",
        "gen_ai.request.model": "house/embedding",
        "gen_ai.embeddings.dimension.count": 2,
        "gen_ai.usage.input_tokens": 10,
        "mull.cost.usd": 0.001,
        "mull.texts": 1,
    }
    assert "secret" not in query.to_json() + passages.to_json()


BUSY = TransientModelError("the provider is busy", "RateLimitError", 429, 7.5)
WRONG = PermanentModelError("no such model", "NotFoundError", 404)


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("error", [BUSY, WRONG])
async def test_where_embedding_fails_words_are_searched(
    documents: Documents, spans: InMemorySpanExporter, error: ModelError, failing: int
) -> None:
    """A call that fails, the first or a later one, leaves words, a warning, and a span in error.

    A failure in passing is raised with its reason, and with what words alone find. What was
    embedded before it is not embedded again, by another worker either.
    """
    spans.clear()
    documents.retriever = documents.worker(ScriptedEmbedder(*[None] * failing, error))
    for number in range(70):
        documents.write(f"{number}.txt", f"apple {number}")

    if error is WRONG:
        found = await documents.find("apple", embedding_model=MODEL)
    else:
        with pytest.raises(WordsAloneError) as raised:
            await documents.find("apple", embedding_model=MODEL)
        found = raised.value.found
        assert raised.value.cause is error

    failed = embeddings(spans)[-1]
    assert (len(found.passages), found.failed) == (8, 1)
    assert found.warnings == (f"searched by words alone: house/embedding failed: {error}",)
    assert failed.status.status_code == StatusCode.ERROR
    assert attributes(failed)["error.type"] == error.kind

    again = ScriptedEmbedder()
    documents.retriever = documents.worker(again)
    await documents.find("apple", embedding_model=MODEL)
    assert [len(batch) for batch in again.batches] == ([1, 6] if failing == 2 else [1, 64, 6])


async def test_a_span_leaves_out_what_is_not_known(
    documents: Documents, spans: InMemorySpanExporter
) -> None:
    """Without a price and tokens the span has neither; and damaged vectors are begun anew."""
    documents.retriever = documents.worker(ScriptedEmbedder(spending=Spending(calls=1)))
    documents.write("a.txt", "apple")
    await documents.find("fruit", embedding_model=MODEL)
    [kept] = documents.cache.rglob("index.sqlite3")
    kept.write_bytes(b"no database at all" * 100)
    spans.clear()

    found = await documents.find("fruit", embedding_model=MODEL)

    names = {name for span in embeddings(spans) for name in attributes(span)}
    assert ([passage.source for passage in found.passages], found.warnings) == (["a.txt"], ())
    assert names.isdisjoint({"gen_ai.usage.input_tokens", "mull.cost.usd"})


async def test_where_there_is_nothing_to_embed_with_or_of(documents: Documents) -> None:
    """An empty folder asks no model; and where none is served the search by words says so."""
    embedder = ScriptedEmbedder()
    empty = await Documents(documents.base, embedder).find("apple", embedding_model=MODEL)
    documents.write("a.txt", "apple")

    found = await documents.find("apple", embedding_model=MODEL)

    assert (empty.passages, embedder.batches, len(found.passages)) == ((), [], 1)
    assert found.warnings == ("searched by words alone: no embedding models are served",)
