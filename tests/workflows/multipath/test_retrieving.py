"""The node `retrieve`: what a search costs, and what it may take."""

from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

from activities.documents.folder import LOCK_SECONDS
from activities.documents.meaning import EMBEDDING_SECONDS
from activities.documents.retrieval import Retrieval
from activities.language_model.port import PermanentModelError, TransientModelError
from reflection.multipath.result import MultiPathResult
from reflection.run import Spending
from tests.activities.documents.documents import MODEL, Documents, ScriptedEmbedder
from tests.scripted import ScriptedAgent, ScriptedRetriever, reflection, routed
from tests.workflows.multipath.running import FINE, passage, researching, run
from tests.workflows.test_spans import tree
from workflows.calls import EMBEDDING, INDEX_LOCK, retrieval_times

UNPRICED = Spending(calls=2, input_tokens=20, output_tokens=0)
PRICED = Spending(calls=2, input_tokens=20, output_tokens=0, cached_tokens=0, cost_usd=0.002)


async def search(
    client: Client, base: Path, embedder: ScriptedEmbedder, model: ScriptedAgent | None = None
) -> MultiPathResult:
    """Search one file by meaning, and report on it."""
    documents = Documents(base, embedder)
    documents.write("tides.md", "Burntcoat Head has the highest tide.")
    asked = {"docs": "docs", "embedding_model": MODEL}
    return await run(client, model or researching(FINE), None, documents.retriever, **asked)


def found(spending: Spending | None, failed: int = 0) -> Retrieval:
    return Retrieval(passages=(passage(),), files=1, searched=1, spending=spending, failed=failed)


async def test_a_search_by_meaning_is_paid_for(client: Client, tmp_path: Path) -> None:
    """The embedding of the prompt and of the passages is a part of the run's usage, and in all."""
    result = await search(client, tmp_path, ScriptedEmbedder())

    part = result.usage.parts["retrieving"]
    assert (part.calls, part.input_tokens, part.cost_usd) == (2, 20, 0.002)
    assert result.usage.tokens == 20 + 50 + 100 + 50
    assert result.usage.cost_usd == pytest.approx(0.002 + 0.004)


async def test_a_search_by_words_costs_nothing(client: Client) -> None:
    """Without an embedding model usage has no part for it, however often it was tried."""
    retriever = ScriptedRetriever([OSError("the disk is away"), found(None)])

    result = await run(client, researching(FINE), None, retriever, docs="tides")

    assert "retrieving" not in result.usage.parts
    assert result.usage.parts["retried"].calls == 0


async def test_failed_embedding_is_counted(client: Client, tmp_path: Path) -> None:
    """A call of the embedding model that brings no reply is one of the calls without a reply."""
    wrong = PermanentModelError("no such model", "NotFoundError", 404)

    result = await search(client, tmp_path, ScriptedEmbedder(None, wrong))

    calls = {name: each.calls for name, each in result.usage.parts.items()}
    assert (calls["retrieving"], calls["retried"]) == (1, 1)
    assert result.warnings[-1] == "searched by words alone: house/embedding failed: no such model"


async def test_a_busy_embedding_model_is_asked_again(client: Client, tmp_path: Path) -> None:
    """A search whose embedding model is busy once is made again, and what it paid is counted."""
    busy = TransientModelError("busy", "RateLimitError", 429)

    result = await search(client, tmp_path, ScriptedEmbedder(None, busy))

    calls = {name: each.calls for name, each in result.usage.parts.items()}
    assert (calls["retrieving"], calls["retried"]) == (3, 1)
    assert not [each for each in result.warnings if "words alone" in each]


async def test_words_are_enough_in_the_end(client: Client, tmp_path: Path) -> None:
    """After the last attempt with a busy embedding model the search by words stands."""
    busy = [TransientModelError("busy", "ServerError", 503, 0.1) for _ in range(2)]
    documents = Documents(tmp_path, ScriptedEmbedder(*busy))
    documents.write("tides.md", "Burntcoat Head has the highest tide.")
    asked = {"docs": "docs", "embedding_model": MODEL, "max_attempts": 2}

    result = await run(client, researching(FINE), None, documents.retriever, **asked)

    assert result.usage.parts["retried"].calls == 2
    assert result.warnings[-1] == "searched by words alone: house/embedding failed: busy"


async def test_failed_attempts_of_a_search_by_meaning_are_counted(client: Client) -> None:
    """What a search cost that was lost with its worker is unknown, so that it is counted."""
    retriever = ScriptedRetriever([OSError("the disk is away"), found(PRICED, failed=1)])
    asked = {"docs": "tides", "embedding_model": MODEL}

    result = await run(client, researching(FINE), None, retriever, **asked)

    assert result.usage.parts["retrieving"] == PRICED
    assert result.usage.parts["retried"] == Spending(calls=2)


@pytest.mark.parametrize(
    ("spending", "budget", "said"),
    [
        (PRICED, {"budget_tokens": 20}, "20 of 20 tokens are spent on the search by meaning"),
        (PRICED, {"budget_usd": 0.001}, "0.002 of 0.001 US dollars are spent on the search by"),
        (
            UNPRICED,
            {"budget_usd": 1.0},
            "the embedding model's provider does not report US dollars",
        ),
    ],
)
async def test_a_search_may_use_a_budget_up(
    client: Client, spending: Spending, budget: dict[str, float], said: str
) -> None:
    """After a search that left nothing, or of unknown cost, no model is asked anything."""
    model, asked = researching(FINE), {"docs": "tides", "embedding_model": MODEL, **budget}

    result = await run(client, model, None, ScriptedRetriever([found(spending)]), **asked)

    assert (result.stop_reason, result.output, model.calls) == ("budget", None, [])
    assert said in result.stop_explanation


async def test_a_search_says_nothing_of_the_size_of_other_calls(client: Client) -> None:
    """A folder that cost most of a budget to embed leaves the rest of it to the calls that fit."""
    large = PRICED.model_copy(update={"input_tokens": 10_000})
    model = researching(FINE, reflect_on_report=[reflection()], route=[routed("research")])
    asked = {"docs": "tides", "embedding_model": MODEL, "budget_tokens": 10_200}

    result = await run(client, model, None, ScriptedRetriever([found(large)]), **asked)

    assert (result.stop_reason, len(model.calls)) == ("consistent", 3)


async def test_calls_of_an_embedding_model_are_spans_of_the_node(
    client: Client, tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    """Under `retrieve` there is one span for the prompt, and one for the passages."""
    await search(client, tmp_path, ScriptedEmbedder())

    assert tree(spans.get_finished_spans())["retrieve"] == {"embeddings house/embedding": 2}


def test_the_times_of_a_search_have_room_for_all_of_its_waits() -> None:
    """An attempt outlasts the index's lock, the indexing, the embedding and two calls of it."""
    times = retrieval_times(client_seconds=120, max_attempts=2)

    assert (INDEX_LOCK.total_seconds(), EMBEDDING.total_seconds()) == (
        LOCK_SECONDS,
        EMBEDDING_SECONDS,
    )
    assert times["start_to_close_timeout"].total_seconds() == 60 + 600 + 60 + 240 + 15
    assert times["schedule_to_close_timeout"].total_seconds() == 2 * (975 + 60) + 3_600
    assert times["heartbeat_timeout"].total_seconds() == 10
