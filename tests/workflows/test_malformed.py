"""Requests of other clients that are no requests: they fail at once, by the field's name."""

import gc
import json
import uuid

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from tests.conftest import begin, failure, served, until_asked
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


ONES = b"[" + b"1," * 900_000 + b"1]"
MANY = json.dumps({f"secret-{place}" + "é" * 200: 1 for place in range(900)}).encode()
FLOODS: list[tuple[bytes, str]] = [
    (b"rubbish", "not valid JSON"),
    (b"[" * 1_900_000, "nested too deeply"),
    (ONES, "should be an object"),
    (json.dumps({f"k{place}": 1 for place in range(150_000)}).encode(), "150,000 members"),
    (MANY, "no such field; and 8"),
    (b'{"%s": 1}' % (b"k" * 1_900_000), "k…: no such field"),
    *((b'{"%s": %s}' % (field, ONES), "") for field in (b"items", b"sources", b"packages", b"x")),
    (b'{"variants": [' + b"{}," * 500_000 + b"{}]}", ""),
    (b'{"question": "a", "question": "b"}', "question: stands twice in one object"),
]
BATCH = "BatchWorkflow"


@pytest.mark.parametrize("kind", [*FIELDS, BATCH])
@pytest.mark.parametrize(("data", "said"), FLOODS)
async def test_the_largest_rubbish_fails_at_once_in_few_words(
    client: Client, kind: str, data: bytes, said: str
) -> None:
    """Up to the 2 MB that a server takes: at most 20 errors, 80 characters a name, 4 kB in all."""
    request = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))

    async with served(client, ScriptedModel([])):
        handle = await begin(client, request, kind)
        error = await failure(handle)
    last = [event async for event in handle.fetch_history_events()][-1]

    assert error.type == "InvalidRequest"
    assert said in error.message
    assert max(map(len, error.message.split())) <= 80 + len("secret")
    assert last.ByteSize() < 4_096


@pytest.mark.parametrize("kind", [*FIELDS, BATCH])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("encoding", [b"binary/encrypted", b"json/protobuf"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_an_encoding_that_the_worker_lacks_fails_the_run(
    client: Client, kind: str, count: int, encoding: bytes
) -> None:
    """The failure says what the input has to be, and the run does not wait for ever."""
    inputs = [RawValue(Payload(metadata={"encoding": encoding}, data=b"secret"))] * count

    async with served(client, ScriptedModel([])):
        handle = await client.start_workflow(
            kind, args=inputs, id=f"test-{uuid.uuid4()}", task_queue="mull"
        )
        error = await failure(handle)
    gc.collect()

    assert error.type == "InvalidRequest"
    told = f"encoded as {encoding.decode()}" if count == 1 else "one JSON object"
    assert told in error.message


STRICT: list[tuple[str, dict[str, object], str]] = [
    (ASK, {"max_responses": "5"}, "max_responses: should be a valid integer"),
    (ASK, {"max_responses": True}, "max_responses: should be a valid integer"),
    (ASK, {"temperature": "0.7"}, "temperature: should be a valid number"),
    (ASK, {"temperature": True}, "temperature: should be a valid number"),
    (REFLECT, {"reflect": 1}, "reflect: should be a valid boolean"),
    (REFLECT, {"reflect": "yes"}, "reflect: should be a valid boolean"),
    (REFLECT, {"criteria": [{**CLEAR, "weight": "2"}]}, "criteria.0.weight: should be a valid"),
    (AGENT, {"limits": {"memory_mb": "64"}}, "limits.memory_mb: should be a valid integer"),
]


@pytest.mark.parametrize(("kind", "fields", "said"), STRICT)
async def test_a_number_is_a_number(
    client: Client, kind: str, fields: dict[str, object], said: str
) -> None:
    """Neither `true` nor a text is taken for a number, nor a number for a truth value."""
    async with served(client, ScriptedModel([])):
        error = await failure(await begin(client, {FIELDS[kind]: "a", **fields}, kind))

    assert said in error.message


async def test_what_json_means_is_taken(client: Client) -> None:
    """5.0 is an integer, 1 a number that may have a fraction."""
    request = {"question": "a", "max_responses": 5.0, "min_responses": 1.0, "temperature": 1}

    async with served(client, ScriptedModel(["7"] * 5)):
        result = await (await begin(client, request)).result()

    assert result["final_answer"] == "7"


@pytest.mark.parametrize("given", [[], [{"author": "a"}, {"author": "b"}]], ids=["none", "two"])
@pytest.mark.parametrize("name", ["add_answer", "review", "finish_now"])
async def test_an_update_without_its_one_input_is_refused(
    client: Client, name: str, given: list[object]
) -> None:
    """It is answered as every other refusal; to finish the run takes no input."""
    model = ScriptedModel(["1"] * 5, delays=[1.5] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": "a"})
        await until_asked(model, 5)
        if (name, given) == ("finish_now", []):
            await handle.execute_update(name)
        else:
            with pytest.raises(WorkflowUpdateFailedError) as caught:
                await handle.execute_update(name, args=given)
            cause = caught.value.cause
            assert isinstance(cause, ApplicationError)
            assert cause.type == "Refused"
        await handle.result()


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
