"""Requests of other clients that are no requests: they fail at once, by the field's name."""

import gc
import uuid

import pytest
from temporalio.client import Client

from tests.conftest import begin, failure, served
from tests.scripted import ScriptedCritic

CLEAR = {"name": "clear", "meaning": "It is clear."}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"colour": "secret-8"}, "colour: no such field"),
        ({"query": " "}, "query: "),
        ({"score_threshold": 1.5}, "score_threshold: "),
        ({"max_revisions": -1}, "max_revisions: "),
        ({"max_revisions": 11}, "max_revisions: "),
        ({"criteria": "secret-9"}, "criteria"),
        ({"criteria": []}, "criteria"),
        ({"criteria": [CLEAR, CLEAR]}, "two criteria have the same name"),
        ({"criteria": [{"name": "Clear!", "meaning": "x"}]}, "criteria"),
        ({"judges": ["a", "a"]}, "two judges are the same model"),
        ({"judges": ["a", "b", "c", "d", "e", "f"]}, "judges"),
        ({"panel": "mode"}, "panel"),
        ({"guardrails": [""]}, "guardrails"),
        ({"score_threshold": 0.5, "confidence_threshold": 0.5}, "not both"),
        ({"criteria": [{"name": "clear", "meaning": " "}]}, "criteria.0.meaning"),
        ({"draft": "  "}, "draft: there is nothing in it"),
        ({"draft": "secret-11" * 20_000}, "draft: 180,000 bytes, and at most 81,250 are taken"),
        ({"format": "xml"}, "format"),
        ({"sources": ["secret-12" * 30_000]}, "sources: 270,000 bytes"),
        ({"budget_seconds": 0}, "budget_seconds"),
        ({"review_below": 2}, "review_below"),
        (
            {"sources": ["secret-13" * 20_000], "max_revisions": 10, "judges": list("abcde")},
            "bytes of history, and at most",
        ),
    ],
)
async def test_a_malformed_request_fails_at_once(
    client: Client, fields: dict[str, object], said: str
) -> None:
    """The failure names the field and never quotes the input."""
    request = {"query": "secret-7", **fields}

    async with served(client, ScriptedCritic([])):
        error = await failure(await begin(client, request, "ReflectOnResultWorkflow"))

    assert error.type == "InvalidRequest"
    assert said in error.message
    assert "secret" not in error.message


@pytest.mark.parametrize("inputs", [[], [{"query": "a"}, {"query": "b"}], [b"rubbish"]])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_start_without_its_one_request_fails_at_once(
    client: Client, inputs: list[object]
) -> None:
    """No input, two inputs and bytes are told what to give."""
    async with served(client, ScriptedCritic([])):
        handle = await client.start_workflow(
            "ReflectOnResultWorkflow", args=inputs, id=f"test-{uuid.uuid4()}", task_queue="mull"
        )
        error = await failure(handle)
    # The SDK leaves a coroutine behind that it never awaits, here and not in a later test.
    gc.collect()

    assert '{"query": "..."}' in error.message


async def test_the_source_s_name_of_the_threshold_is_taken(client: Client) -> None:
    """`confidence_threshold` is `score_threshold`, as the chapter calls it."""
    request = {"query": "Explain tides", "confidence_threshold": 0.3, "guardrails": []}

    async with served(client, ScriptedCritic(["a"], [0.35])):
        handle = await begin(client, request, "ReflectOnResultWorkflow")
        result = await handle.result()

    assert (result["stop_reason"], result["score_threshold"]) == ("passed", 0.3)


async def test_a_guardrail_that_the_worker_has_not_fails_the_run_at_once(client: Client) -> None:
    """It is named before anything is paid for."""
    model = ScriptedCritic(["a"], [0.9])
    request = {"query": "Explain tides", "guardrails": ["default", "mine"]}

    async with served(client, model):
        error = await failure(await begin(client, request, "ReflectOnResultWorkflow"))

    assert (error.type, error.message) == ("InvalidRequest", "guardrails: the worker has no mine")
    assert model.calls == []
