"""Requests of other clients that are no requests: they fail at once, by the field's name."""

import gc
import uuid

import pytest
from temporalio.client import Client

from tests.conftest import begin, failure, served
from tests.scripted import ScriptedCritic, ScriptedModel

ASK, REFLECT, AGENT = "SelfConsistencyWorkflow", "ReflectOnResultWorkflow", "MultiPathWorkflow"
FIELDS = {ASK: "question", REFLECT: "query", AGENT: "prompt"}
CLEAR = {"name": "clear", "meaning": "It is clear."}

ASKED: list[tuple[dict[str, object], str]] = [
    ({"colour": "secret-8"}, "colour: no such field"),
    ({"question": "  "}, "question: "),
    ({"entropy_mode": "secret-8"}, "entropy_mode: should be"),
    ({"min_responses": 6, "max_responses": 5}, "min_responses (6) is above max_responses (5)"),
    ({"confidence_threshold": 1.5}, "confidence_threshold: "),
    ({"question": "secret-7" * 100_000}, "question: "),
]
REFLECTED: list[tuple[dict[str, object], str]] = [
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
    ({"draft": "  "}, "draft: must not be empty"),
    ({"draft": "secret-11" * 20_000}, "draft: 180,000 bytes exceed the limit of 81,250"),
    ({"format": "xml"}, "format"),
    ({"sources": ["secret-12" * 30_000]}, "sources: 270,000 bytes"),
    ({"budget_seconds": 0}, "budget_seconds"),
    ({"review_below": 2}, "review_below"),
    (
        {"sources": ["secret-13" * 20_000], "max_revisions": 10, "judges": list("abcde")},
        "bytes of history, more than the limit",
    ),
]
AGENTS: list[tuple[dict[str, object], str]] = [
    ({"colour": "secret-8"}, "colour: no such field"),
    ({"prompt": " "}, "prompt: "),
    ({"prompt": "secret-9" * 20_000}, "prompt: 160,000 bytes exceed the limit of 100,000"),
    ({"mode": "secret-10"}, "mode: "),
    ({"passages": 0}, "passages: "),
    ({"max_revisions": 0}, "max_revisions: "),
    ({"max_revisions": 11}, "max_revisions: "),
    ({"language": "cobol"}, "language: "),
    ({"entry": "secret-11()"}, "entry: "),
    ({"tests": {"name": "../x.py", "text": "x"}}, "tests.name: "),
    ({"tests": {"name": "x.py", "text": ""}}, "tests.text: "),
    ({"packages": ["../secret"]}, "packages.0: "),
    ({"limits": {"wall_seconds": 0}}, "limits.wall_seconds: "),
    ({"budget_seconds": 0}, "budget_seconds"),
]


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        *((ASK, *row) for row in ASKED),
        *((REFLECT, *row) for row in REFLECTED),
        *((AGENT, *row) for row in AGENTS),
    ],
)
async def test_a_malformed_request_fails_at_once(
    client: Client, kind: str, fields: dict[str, object], said: str
) -> None:
    """The failure names the field and never quotes the input."""
    request = {FIELDS[kind]: "secret-7", **fields}

    async with served(client, ScriptedModel([])):
        error = await failure(await begin(client, request, kind))

    assert error.type == "InvalidRequest"
    assert said in error.message
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("request_", "said"), [({}, "question: missing"), ("secret-7", "SelfConsistencyRequest")]
)
async def test_a_request_without_its_question_fails_at_once(
    client: Client, request_: object, said: str
) -> None:
    """An empty object and a text are no request either."""
    async with served(client, ScriptedModel([])):
        error = await failure(await begin(client, request_))

    assert (error.type, said in error.message) == ("InvalidRequest", True)
    assert "secret" not in error.message


@pytest.mark.parametrize(("kind", "field"), FIELDS.items())
@pytest.mark.parametrize("count", [0, 2, None], ids=["none", "two", "bytes"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_start_without_its_one_request_fails_at_once(
    client: Client, kind: str, field: str, count: int | None
) -> None:
    """No input, two inputs and bytes are told what to give."""
    inputs = [b"rubbish"] if count is None else [{field: "a"}] * count

    async with served(client, ScriptedModel([])):
        handle = await client.start_workflow(
            kind, args=inputs, id=f"test-{uuid.uuid4()}", task_queue="mull"
        )
        error = await failure(handle)
    # The SDK leaves a coroutine behind that it never awaits, here and not in a later test.
    gc.collect()

    assert f'{{"{field}": "..."}}' in error.message


async def test_the_source_s_name_of_the_threshold_is_taken(client: Client) -> None:
    """`confidence_threshold` is `score_threshold`, as the chapter calls it."""
    request = {"query": "Explain tides", "confidence_threshold": 0.3, "guardrails": []}

    async with served(client, ScriptedCritic(["a"], [0.35])):
        handle = await begin(client, request, REFLECT)
        result = await handle.result()

    assert (result["stop_reason"], result["score_threshold"]) == ("passed", 0.3)


async def test_a_guardrail_that_the_worker_has_not_fails_the_run_at_once(client: Client) -> None:
    """It is named before anything is paid for."""
    model = ScriptedCritic(["a"], [0.9])
    request = {"query": "Explain tides", "guardrails": ["default", "mine"]}

    async with served(client, model):
        error = await failure(await begin(client, request, REFLECT))

    assert (error.type, error.message) == ("InvalidRequest", "guardrails: the worker has no mine")
    assert model.calls == []
