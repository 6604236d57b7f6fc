from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.documents.retrieval import (
    DocumentActivities,
    RetrievalError,
    RetrievalTask,
    TransientRetrievalError,
    WordsAloneError,
)
from activities.language_model.port import TransientModelError
from connection import heartbeating
from tests.activities.documents.documents import Documents
from tests.scripted import ScriptedRetriever, of_passages, passage

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


def busy(retry_after: float | None) -> ScriptedRetriever:
    error = TransientModelError("busy", "ServiceUnavailableError", 503, retry_after)
    return ScriptedRetriever([WordsAloneError(error, of_passages([passage(1, "apple")]))])


def attempt(number: int, most: int | None) -> ActivityEnvironment:
    """The environment of an attempt, where `most` are allowed, 0 for any number."""
    environment = ActivityEnvironment()
    policy = None if most is None else RetryPolicy(maximum_attempts=most)
    environment.info = replace(environment.info, attempt=number, retry_policy=policy)
    return environment


@pytest.mark.parametrize("retry_after", [7.5, 0.0, None])
async def test_a_busy_embedding_model_is_asked_again(retry_after: float | None) -> None:
    """An attempt that is not the last fails, and the next one waits as the provider asked."""
    activities = DocumentActivities(busy(retry_after))

    with pytest.raises(ApplicationError) as raised:
        await attempt(4, 5).run(activities.retrieve, TASK)

    delay = None if retry_after is None else timedelta(seconds=retry_after)
    assert (raised.value.type, raised.value.non_retryable) == ("ServiceUnavailableError", False)
    assert raised.value.next_retry_delay == delay


@pytest.mark.parametrize(("number", "most"), [(5, 5), (1, 1), (1, 0), (2, None)])
async def test_the_last_attempt_is_content_with_words(number: int, most: int | None) -> None:
    """What words alone find is returned by the last attempt, or where none is known to be."""
    found = await attempt(number, most).run(DocumentActivities(busy(7.5)).retrieve, TASK)

    assert [passage.source for passage in found.passages] == ["document-1.md"]
    assert found.attempts == number


async def test_indexing_does_not_keep_heartbeats_back(documents: Documents) -> None:
    """A folder is read in a thread, so that its worker heartbeats with how far it is."""
    for number in range(300):
        documents.write(f"{number}.txt", f"apple {number} " * 500)
    beats: list[tuple[Any, ...]] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.append(details)

    async def work() -> None:
        async with heartbeating(0.02) as progress:
            await documents.find("apple", progress=progress)

    await environment.run(work)

    counted = [each for each in beats if each]
    assert len(counted) > 3
    assert counted == sorted(counted)
    assert {total for _, total in counted} == {300}
