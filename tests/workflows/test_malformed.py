"""Requests of other clients that are no requests: they fail at once, by the field's name."""

import gc
import json
import uuid
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from tests.conftest import begin, failure, served, until_asked
from tests.scripted import ScriptedModel
from tests.workflows.batches import batch_of, judging

# For a start that fails the SDK leaves a coroutine behind that it never awaits.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
FIELDS = {
    "SelfConsistencyWorkflow": "question",
    "ReflectOnResultWorkflow": "query",
    "MultiPathWorkflow": "prompt",
    "ToolTurnWorkflow": "message",
    "BatchWorkflow": "items",
    "SessionWorkflow": "model",
    "ReflexionWorkflow": "task",
    "MemoryWorkflow": "name",
}
ASK, REFLECT, AGENT, TURN, BATCH, SESSION, REFLEXION, MEMORY = FIELDS
Start = tuple[str, list[Any], str | None]
CLEAR = {"name": "clear", "meaning": "It is clear."}

ASKED: list[tuple[dict[str, object], str]] = [
    ({"colour": "secret-8"}, "colour: no such field"),
    ({"question": "  "}, "question: "),
    ({"entropy_mode": "secret-8"}, "entropy_mode: should be"),
    ({"min_responses": 6, "max_responses": 5}, "min_responses (6) is above max_responses (5)"),
    ({"confidence_threshold": 1.5}, "confidence_threshold: "),
    ({"question": "secret-7" * 100_000}, "question: "),
    ({"max_responses": "5"}, "max_responses: should be a whole number"),
    ({"max_responses": True}, "max_responses: should be a whole number"),
    ({"temperature": "0.7"}, "temperature: should be a valid number"),
    ({"temperature": True}, "temperature: should be a valid number"),
    ({"options": {"api_key": "secret-8"}}, "options: there is no api_key; the options are top_p"),
    ({"messages": [{"role": "secret-8", "content": "x"}]}, "messages.0.role: should be"),
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
    ({"reflect": 1}, "reflect: should be a valid boolean"),
    ({"reflect": "yes"}, "reflect: should be a valid boolean"),
    ({"criteria": [{**CLEAR, "weight": "2"}]}, "criteria.0.weight: should be a valid"),
    ({"options": {"api_base": "secret-8"}}, "options: there is no api_base; the options are"),
    ({"context": ["secret-8" * 10_000] * 4}, "system, context and messages make it 320,0"),
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
    ({"limits": {"memory_mb": "64"}}, "limits.memory_mb: should be a whole number"),
]


TURNS: list[tuple[dict[str, object], str]] = [
    ({"colour": "secret-8"}, "colour: no such field"),
    ({"message": " "}, "message: "),
    ({"message": "secret-9" * 20_000}, "message: 160,000 bytes exceed the limit of 100,000"),
    ({"context": ["secret" * 10_000] * 9}, "more than the limit of 300,000"),
    ({"messages": [{"role": "system", "content": "secret"}]}, "messages.0.role: "),
    ({"options": {"api_base": "secret"}}, "options: there is no api_base; the options are"),
    ({"options": {"extra_headers": {}}}, "options: there is no extra_headers; the options are"),
    ({"tools": "secret"}, "tools: "),
    ({"approve": [{"tool": "*", "action": "secret"}]}, "approve.0.action: "),
    ({"think_level": 5}, "think_level: should be a valid string"),
    ({"think_level": "secret" * 20}, "think_level: "),
    ({"max_steps": 0}, "max_steps: "),
    ({"max_context_tokens": 200_001}, "max_context_tokens: "),
    ({"turn_count": 0}, "turn_count: "),
    ({"turn_count": 10**1100}, "turn_count: "),
    ({"summary": "secret" * 4_000}, "summary: 24,000 bytes exceed the limit of 20,000"),
    (
        {"approve": [{"tool": "*", "action": "ask", "why": "secret" * 160}] * 60},
        "bytes exceed the limit of 30,000",
    ),
    ({"budget_seconds": None}, "budget_seconds: "),
]
BATCHES: list[tuple[dict[str, object], str]] = [
    (batch_of("secret", colour="secret"), "colour: no such field"),
    (batch_of("secret") | {"variants": [judging(query="secret")]}, "query is in both request and"),
    (batch_of("secret") | {"variants": [judging(repeats=101)]}, "variants.0.repeats: "),
]
RULE = {"tool": "secret" * 30, "action": "ask", "why": "secret" * 150}
SESSIONS: list[tuple[dict[str, object], str]] = [
    ({"message": "secret"}, "message: no such field"),
    ({"system": " "}, "system: "),
    ({"idle_seconds": 0}, "idle_seconds: "),
    ({"turns_per_execution": 501}, "turns_per_execution: "),
    ({"system": "secret" * 10_000, "context": ["secret" * 8_000]}, "the options are "),
    ({"carried": {"warnings": ["secret" * 30_000]}}, "carried: "),
    ({"carried": {"answers": {"a": {"number": "secret"}}}}, "carried.answers.a.number: "),
]
ACTED = {"kind": "action", "content": "secret", "step": 1}
SHOWN = {"task": "secret", "trajectory": {"items": [ACTED]}}
LONG = {"task": "secret", "trajectory": {"items": [{**ACTED, "content": "secret" * 20_000}]}}
REFLEXIONS: list[tuple[dict[str, object], str]] = [
    ({"colour": "secret-8"}, "colour: no such field"),
    ({"task": " "}, "task: "),
    ({"task": "secret" * 100}, "task: "),
    ({"environment": "Secret!"}, "environment: "),
    ({"environment": None}, "environment: "),
    ({"strategy": "secret"}, "strategy: should be"),
    ({"episode_limit": 13}, "episode_limit: "),
    ({"step_limit": 51}, "step_limit: "),
    ({"step_limit": "5"}, "step_limit: should be a whole number"),
    ({"environment_seed": -1}, "environment_seed: "),
    ({"memory": "../secret"}, "memory: "),
    ({"scope": "secret"}, "scope: should be"),
    ({"judge": "a/b", "episode_limit": 3}, "at most 2 where a model judges"),
    ({"planner_examples": []}, "planner_examples: "),
    ({"reflector_examples": [SHOWN]}, "reflector_examples.0.context: missing"),
    ({"planner_examples": [{**SHOWN, "trajectory": {"items": [ACTED] * 2}}]}, "out of turn"),
    ({"planner_examples": [LONG]}, "bytes exceed the limit of 100,000"),
    ({"planner_instructions": "secret" * 2_000}, "planner_instructions: "),
    ({"tasks": "secret" * 1_000}, "tasks: "),
    ({"step_timeout_seconds": 601}, "step_timeout_seconds: "),
]
HELD = {"reflections": [{"text": "secret"}] * 4}
MEMORIES: list[tuple[dict[str, object], str]] = [
    ({"colour": "secret-8"}, "colour: no such field"),
    ({"name": "secret/8"}, "name: "),
    ({"name": "s" * 61}, "name: "),
    ({"held": {"scopes": {"a": HELD}}}, "held.scopes.a.reflections: "),
    ({"held": {"scopes": {"a": {"reflections": [{"text": " "}]}}}}, "reflections.0.text: "),
]
LONG_ID = "b" * 101


async def failures(client: Client, starts: Sequence[Start]) -> list[ApplicationError]:
    """Start runs, and wait for each to fail before a model is asked, in few words."""
    found = []
    async with served(client, ScriptedModel()):
        for kind, inputs, name in starts:
            handle = await client.start_workflow(
                kind, args=inputs, id=name or f"test-{uuid.uuid4()}", task_queue="mull"
            )
            found.append(await failure(handle))
            last = [event async for event in handle.fetch_history_events()][-1]
            assert last.ByteSize() < 4_096
    # Here, and not in a later test.
    gc.collect()
    return found


@pytest.mark.parametrize("kind", FIELDS)
async def test_a_malformed_request_fails_at_once(client: Client, kind: str) -> None:
    """The failure names the field and never quotes the input.

    Neither `true` nor a text is taken for a number, nor a number for a truth value.
    """
    lists = (ASKED, REFLECTED, AGENTS, TURNS, BATCHES, SESSIONS, REFLEXIONS, MEMORIES)
    wrong = dict(zip(FIELDS, lists, strict=True))[kind]
    whole = {} if kind == BATCH else {FIELDS[kind]: "secret-7"}
    whole |= {"environment": "code"} if kind == REFLEXION else {}
    rows: list[tuple[object, str]] = [({**whole, **fields}, said) for fields, said in wrong]
    # Nothing has to be said of a session.
    needed = "variants" if kind == BATCH else FIELDS[kind]
    rows += [({}, f"{needed}: missing")] if kind != SESSION else []
    rows += [("secret-7", "Request")]

    errors = await failures(client, [(kind, [request], None) for request, _ in rows])

    for (_, said), error in zip(rows, errors, strict=True):
        assert (error.type, "secret" in error.message) == ("InvalidRequest", False)
        assert said in error.message


async def test_a_start_without_its_one_request_fails_at_once(client: Client) -> None:
    """No input, two inputs and bytes are told what to give."""
    starts: list[Start] = [
        (kind, inputs, None)
        for kind, field in FIELDS.items()
        for inputs in ([], [{field: "a"}] * 2, [b"rubbish"])
    ]

    errors = await failures(client, starts)

    for (kind, _, _), error in zip(starts, errors, strict=True):
        assert f'{{"{FIELDS[kind]}": "..."}}' in error.message


async def test_an_id_that_is_too_long_is_refused(client: Client) -> None:
    """The ids of a batch's runs are made of its own, and stand in every record."""
    starts: list[Start] = [
        (BATCH, [batch_of("score 0.4")], LONG_ID), (SESSION, [{}], LONG_ID * 2)
    ]  # fmt: skip

    errors = await failures(client, starts)

    for error, most in zip(errors, ("100", "200"), strict=True):
        assert (error.type, f"over {most} bytes" in error.message) == ("InvalidRequest", True)


ONES = b"[" + b"1," * 900_000 + b"1]"
MANY = json.dumps({f"secret-{place}" + "é" * 200: 1 for place in range(900)}).encode()
# Fields that are texts, and others that are not, in one workflow or another.
LISTED = ("model", "seed", "judges", "sources", "variants")
TEXTS = ("model", "question", "query", "prompt", "entry", "docs")
# Up to the 2 MB that a server takes, for one workflow or for each, by what it calls FIELD.
FLOODS: list[tuple[str | None, bytes, str]] = [
    (None, b"rubbish", "not valid JSON"),
    (None, MANY, "no such field; and 8"),
    (None, b'{"%s": 1}' % (b"k" * 1_900_000), "k…: no such field"),
    (None, b'{"question": "a", "question": "b"}', "question: stands twice in one object"),
    (None, json.dumps(["secret"] * 10_000).encode(), "should be an object"),
    (None, b"5", "should be an object"),
    (None, b"[" * 99_000, "nested too deeply"),
    (None, b"[" * 1_900_000, "it has 1,900,000 brackets that open; at most 100,000 are read"),
    (None, b'{"FIELD": ' + b"[" * 900 + b"]" * 900 + b"}", ""),
    (None, b'{"FIELD": "a", "budget_tokens": NaN}', ""),
    (None, b'{"FIELD": "a", "budget_tokens": ' + b"9" * 1_000_000 + b"}", ""),
    (None, b'{"FIELD": "\\ud800"}', ""),
    (None, b'{"FIELD": "\xff"}', "not valid JSON"),
    (None, json.dumps({"FIELD": "a"} | dict.fromkeys(LISTED, [["secret"]] * 10_000)).encode(), ""),
    (None, json.dumps(dict.fromkeys(TEXTS, "secret" * 25_000)).encode(), ""),
    (ASK, ONES, "a list has 900,001 elements; at most 10,000 are read"),
    (ASK, json.dumps({f"k{at}": 1 for at in range(150_000)}).encode(), "150,000 members"),
    (ASK, b'{"x": %s}' % ONES, ""),
    (REFLECT, b'{"sources": %s}' % ONES, ""),
    (AGENT, b'{"packages": %s}' % ONES, ""),
    (BATCH, b'{"items": %s}' % ONES, ""),
    (REFLEXION, b'{"planner_examples": %s}' % ONES, ""),
    (MEMORY, b'{"name": "a", "held": {"known": %s}}' % ONES, ""),
    (BATCH, b'{"variants": [' + b"{}," * 500_000 + b"{}]}", ""),
    (ASK, b"[" + b",".join([b"[" * 95 + b"]" * 95] * 9_998) + b"]", "949,811 brackets that open"),
]


def raw(encoding: bytes, data: bytes) -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


@pytest.mark.parametrize("kind", FIELDS)
async def test_the_largest_rubbish_fails_at_once_in_few_words(client: Client, kind: str) -> None:
    """At most 20 errors, 80 characters a name, 4 kB in all."""
    field = FIELDS[kind].encode()
    rows = [
        (data.replace(b"FIELD", field), said) for of, data, said in FLOODS if of in (None, kind)
    ]

    errors = await failures(client, [(kind, [raw(b"json/plain", data)], None) for data, _ in rows])

    for (_, said), error in zip(rows, errors, strict=True):
        assert error.type == "InvalidRequest"
        assert said in error.message
        assert max(map(len, error.message.split())) <= 80 + len("secret")


async def test_more_queues_than_there_are_fail_a_helper_at_once(client: Client) -> None:
    """As many as one start can name would be as many calls, in one task that never ends."""
    rows = [(21, "at most 20 items"), (280_000, "a list has 280,000 elements")]
    starts: list[Start] = [
        ("DoctorWorkflow", [{"queues": ["q"] * count}], None) for count, _ in rows
    ]

    errors = await failures(client, starts)

    for (_, said), error in zip(rows, errors, strict=True):
        assert (error.type, said in error.message) == ("InvalidRequest", True)


async def test_an_encoding_that_the_worker_lacks_fails_the_run(client: Client) -> None:
    """The failure says what the input has to be, and the run does not wait for ever."""
    rows = [
        (kind, encoding, count)
        for kind in FIELDS
        for encoding in (b"binary/of-others", b"json/protobuf", b"binary/zlib")
        for count in (1, 2)
    ]

    errors = await failures(
        client, [(kind, [raw(encoding, b"secret")] * count, None) for kind, encoding, count in rows]
    )

    for (_, encoding, count), error in zip(rows, errors, strict=True):
        assert error.type == "InvalidRequest"
        told = f"encoded as {encoding.decode()}" if count == 1 else "one JSON object"
        assert told in error.message


async def test_a_start_is_not_unpacked(client: Client) -> None:
    """A few kilobytes could be many megabytes, in the task of a run."""
    start = Payload(metadata={"encoding": b"json/plain"}, data=b'{"question": "a"}')
    packed = zlib.compress(start.SerializeToString())

    [error] = await failures(client, [(ASK, [raw(b"binary/zlib", packed)], None)])

    assert (error.type, "encoded as binary/zlib" in error.message) == ("InvalidRequest", True)


async def test_what_json_means_is_taken(client: Client) -> None:
    """5.0 is an integer, 1 a number that may have a fraction."""
    request = {"question": "a", "max_responses": 5.0, "min_responses": 1.0, "temperature": 1}

    async with served(client, ScriptedModel(sample=["7"] * 5)):
        result = await (await begin(client, request)).result()

    assert result["final_answer"] == "7"


async def test_an_update_without_its_one_input_is_refused(client: Client) -> None:
    model = ScriptedModel(sample=["1"] * 5, delays=[60] * 5)
    two = [{"author": "a"}, {"author": "b"}]
    wrong: list[tuple[str, list[Any]]] = [("add_answer", []), ("review", [])]
    wrong += [
        (name, given)
        for name in ("add_answer", "review", "finish_now")
        for given in (two, [b"rubbish"])
    ]

    async with served(client, model):
        handle = await begin(client, {"question": "a"})
        await until_asked(model, 5)
        for name, given in wrong:
            with pytest.raises(WorkflowUpdateFailedError) as caught:
                await handle.execute_update(name, args=given)
            cause = caught.value.cause
            assert isinstance(cause, ApplicationError)
            assert cause.type == "Refused"
        await handle.execute_update("finish_now")
        await handle.result()


async def test_the_source_s_name_of_the_threshold_is_taken(client: Client) -> None:
    """`confidence_threshold` is `score_threshold`, as the chapter calls it."""
    request = {"query": "Explain tides", "confidence_threshold": 0.3, "guardrails": []}

    async with served(client, ScriptedModel(write=["a"], judge=[0.35])):
        handle = await begin(client, request, REFLECT)
        result = await handle.result()

    assert (result["stop_reason"], result["score_threshold"]) == ("passed", 0.3)


async def test_a_guardrail_that_the_worker_has_not_fails_the_run_at_once(client: Client) -> None:
    """It is named before anything is paid for."""
    model = ScriptedModel(write=["a"], judge=[0.9])
    request = {"query": "Explain tides", "guardrails": ["default", "mine"]}

    async with served(client, model):
        error = await failure(await begin(client, request, REFLECT))

    assert (error.type, error.message) == ("InvalidRequest", "guardrails: the worker has no mine")
    assert model.calls == []
