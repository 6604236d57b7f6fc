from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.documents.retrieval import (
    DocumentActivities,
    RetrievalError,
    RetrievalTask,
    TransientRetrievalError,
)
from mull.connection import heartbeating
from tests.activities.documents.documents import Documents
from tests.scripted import ScriptedRetriever

TASK = RetrievalTask(prompt="apple", docs="docs", passages=8)


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (RetrievalError("no such folder"), True),
        (TransientRetrievalError("no room: set MULL_CACHE"), False),
    ],
)
async def test_what_can_not_be_searched(error: RetrievalError, permanent: bool) -> None:
    """An error has its own type and words, and only what a machine can't do now is tried again."""
    activities = DocumentActivities(ScriptedRetriever([error]))

    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(activities.retrieve, TASK)

    said = raised.value
    assert (said.type, said.message) == (type(error).__name__, str(error))
    assert said.non_retryable == permanent


async def test_indexing_does_not_keep_heartbeats_back(documents: Documents) -> None:
    """A folder is read in a thread, so that its worker heartbeats with how far it is."""
    for number in range(300):
        documents.write(f"{number}.txt", f"apple {number} " * 500)
    beats: list[tuple[Any, ...]] = []
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=0.02))
    environment.on_heartbeat = lambda *details: beats.append(details)

    async def work() -> None:
        async with heartbeating() as progress:
            await documents.find("apple", progress=progress)

    await environment.run(work)

    counted = [each for each in beats if each]
    assert len(counted) > 3
    assert counted == sorted(counted)
    assert {total for _, total in counted} == {300}
