import asyncio
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.documents import DocumentActivities, RetrievalError, RetrievalTask, progressing
from activities.scripted_retriever import ScriptedRetriever, passage
from tests.activities.retrieval.documents import Documents

TASK = RetrievalTask(prompt="apple", docs="docs", passages=8)


async def test_the_activity_finds_passages(documents: Documents) -> None:
    """The activity `retrieve` returns what the retriever finds, and which attempt it was."""
    documents.write("a.txt", "apple")
    activities = DocumentActivities(documents.retriever)

    found = await ActivityEnvironment().run(activities.retrieve, TASK)

    assert [each.source for each in found.passages] == ["a.txt"]
    assert found.attempts == 1


async def test_what_can_not_be_searched_is_not_tried_again() -> None:
    """A RetrievalError is permanent, of that type and with its own words."""
    activities = DocumentActivities(ScriptedRetriever([RetrievalError("no such folder")]))

    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(activities.retrieve, TASK)

    error = raised.value
    assert (error.type, error.message, error.non_retryable) == (
        "RetrievalError",
        "no such folder",
        True,
    )


async def test_heartbeats_tell_how_far_it_is() -> None:
    """Every heartbeat has the newest counts: files read, and files in all."""
    beats: list[tuple[Any, ...]] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.append(details)

    async def work() -> None:
        async with progressing(0.01) as progress:
            await asyncio.sleep(0.1)
            await asyncio.to_thread(progress, 3, 10)
            await asyncio.sleep(0.1)

    await environment.run(work)

    assert (beats[0], beats[-1]) == ((), (3, 10))


async def test_the_fake_fails_beyond_its_script() -> None:
    """A retrieval that no test foresaw is an error that counts the calls."""
    fake = ScriptedRetriever([[passage(1, "apple")]])
    first = await fake.retrieve(TASK)

    with pytest.raises(RetrievalError, match="no retrieval is scripted for call 2"):
        await fake.retrieve(TASK)

    assert (first.files, first.searched, first.passages[0].source) == (1, 1, "document-1.md")


async def test_indexing_does_not_keep_heartbeats_back(documents: Documents) -> None:
    """A folder is read in a thread, so that its worker heartbeats with how far it is."""
    for number in range(300):
        documents.write(f"{number}.txt", f"apple {number} " * 500)
    beats: list[tuple[Any, ...]] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.append(details)

    async def work() -> None:
        async with progressing(0.02) as progress:
            await documents.find("apple", progress=progress)

    await environment.run(work)

    counted = [each for each in beats if each]
    assert len(counted) > 3
    assert counted == sorted(counted)
    assert {total for _, total in counted} == {300}
