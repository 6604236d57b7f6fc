"""OpenAI's interface over runs: what its clients send, and what they get."""

import asyncio
import uuid
from hashlib import sha256
from importlib import import_module
from typing import Any

import pytest
from openai import APIError, APIStatusError, AsyncOpenAI
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from activities.language_model.port import PermanentModelError
from commands.http import reply
from mull import news
from tests.conftest import Handle, ended, served, until, until_asked
from tests.scripted import ScriptedModel, reflection, routed
from tests.scripted import reply as scripted_reply
from tests.workflows.serving import KEYS, bearers, browsing, chat, listening, openai
from tests.workflows.turn import running
from tests.workflows.turn.running import Noted

FIVE = ["5"] * 10
FAILED = PermanentModelError("no such key", "AuthenticationError", 401)
AT_ONCE = {"mull": {"max_responses": 3}}


def again() -> dict[str, str]:
    """Make the header of a request that may come again, of this test's own."""
    return {"Idempotency-Key": uuid.uuid4().hex}


def run_of(client: Client, header: dict[str, str], name: str = "local") -> Handle:
    digest = sha256(header["Idempotency-Key"].encode()).hexdigest()
    return client.get_workflow_handle(f"chat-{name}-{digest[:16]}")


async def test_an_answer_comes_as_a_chat_completion(client: Client) -> None:
    """What OpenAI's fields have no place for stands in `mull`; usage adds up every call."""
    async with (
        served(client, ScriptedModel(sample=FIVE)),
        listening(client) as address,
        openai(address) as official,
    ):
        raw = await official.chat.completions.with_raw_response.create(
            **chat(), extra_body={"mull": {"min_responses": 3, "max_responses": 3}}
        )
        found = raw.parse()

    run = raw.headers["Mull-Run-Id"]
    assert (found.id, found._request_id, found.model) == (run, run, "mull/ask")
    assert [one.message.content for one in found.choices] == ["5"]
    assert found.choices[0].finish_reason == "stop"
    assert found.usage is not None
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (240, 60)
    mull = found.model_dump()["mull"]
    assert (mull["id"], mull["command"], mull["status"]) == (run, "ask", "completed")
    assert (mull["consensus_confidence"], mull["doubt"]) == (1.0, None)
    assert mull["cost_usd"] == pytest.approx(0.003)
    assert mull["stop_reason"]


async def test_the_models_are_listed(client: Client) -> None:
    """Those that a key may ask; the names behind a colon as far as they are no patterns."""
    known = bearers(models=("mull/ask", "mull/turn:*", "mull/turn:openai/gpt-5-mini"))
    async with (
        listening(client, known) as address,
        listening(client) as open_address,
        openai(address, KEYS["ann"]) as official,
        openai(open_address) as anybody,
    ):
        named = [model.id async for model in official.models.list()]
        every = [model.id async for model in anybody.models.list()]

    assert named == ["mull/ask", "mull/turn:openai/gpt-5-mini"]
    assert every == ["mull/ask", "mull/reflect", "mull/turn", "mull/agent"]


async def streamed(official: AsyncOpenAI, **fields: Any) -> tuple[str, list[dict[str, Any]]]:
    chunks = [
        chunk.model_dump()
        async for chunk in await official.chat.completions.create(stream=True, **fields)
    ]
    said = [choice["delta"]["content"] for chunk in chunks for choice in chunk["choices"]]
    return "".join(part or "" for part in said), chunks


@pytest.mark.parametrize("counted", [False, True])
async def test_an_answer_comes_as_a_stream(client: Client, counted: bool) -> None:
    """With usage in the last chunk where it is asked for, which has `mull` in any case."""
    more: dict[str, Any] = {"stream_options": {"include_usage": True}} if counted else {}
    async with (
        served(client, ScriptedModel(sample=FIVE)),
        listening(client) as address,
        openai(address) as official,
    ):
        text, chunks = await streamed(official, **chat(**more, extra_body=AT_ONCE))

    assert text == "5"
    assert [one["finish_reason"] for chunk in chunks for one in chunk["choices"]][-1] == "stop"
    assert chunks[-1]["mull"]["command"] == "ask"
    assert (chunks[-1]["usage"] is not None) is counted
    assert all(chunk.get("usage") is None for chunk in chunks[:-1])


async def test_while_nothing_comes_there_are_comments(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's id is in a header from the start, before there is any answer.

    So it is for a client in a worker's process, which reads replies of its own models as a whole.
    """
    import_module("activities.language_model.litellm_model")
    monkeypatch.setattr(reply, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(reply, "LOOK_SECONDS", 0.05)
    held = asyncio.Event()
    async with (
        served(client, ScriptedModel(sample=FIVE, held=held)),
        listening(client) as address,
        browsing(address) as plain,
        plain.stream("POST", "/chat/completions", json=chat(stream=True)) as response,
    ):
        assert response.headers["Mull-Run-Id"].startswith("chat-local-")
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.aiter_lines()
        before = [await anext(lines) for _ in range(8)]
        held.set()
        after = [line async for line in lines if line]

    assert len([line for line in before if line.startswith(": ")]) >= 2
    assert after[-1] == "data: [DONE]"


async def test_a_turn_s_text_comes_while_it_is_written(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece once; in the end the pieces are the answer."""
    monkeypatch.setattr(news, "LOOK_SECONDS", 0.05)
    seen = asyncio.Event()

    async def writing(call: Any) -> str:
        call.on_text("Five, I")
        await seen.wait()
        call.on_text("Five, I think")
        return "Five, I think."

    async with (
        served(client, ScriptedModel(step=writing)),
        listening(client) as address,
        openai(address) as official,
    ):
        fields = chat("mull/turn", extra_body={"mull": {"tools": []}})
        parts = list[str]()
        async for chunk in await official.chat.completions.create(stream=True, **fields):
            parts += [one.delta.content for one in chunk.choices if one.delta.content]
            if parts:
                seen.set()

    assert parts[0] == "Five, I"
    assert "".join(parts) == "Five, I think."


async def test_what_a_model_wrote_before_a_tool_call_stands_before_its_answer(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was sent, and can't be taken back; the last chunk has the answer alone."""
    monkeypatch.setattr(news, "LOOK_SECONDS", 0.05)
    seen = asyncio.Event()

    async def looking(call: Any) -> Any:
        if len(call.messages) > 2:
            return "It is blue."
        if call.on_text:
            call.on_text("Let me look.")
            await seen.wait()
        return [("look", {"place": "sky"})]

    async with (
        running.served(client, ScriptedModel(step=looking), Noted()),
        listening(client) as address,
        openai(address) as official,
    ):
        parts, last = list[str](), None
        async for last in await official.chat.completions.create(**chat("mull/turn"), stream=True):
            parts += [one.delta.content for one in last.choices if one.delta.content]
            if parts:
                seen.set()
        whole = await official.chat.completions.create(**chat("mull/turn"))

    assert "".join(parts) == "Let me look.\n\nIt is blue."
    assert last is not None
    assert last.model_dump()["mull"]["answer"] == "It is blue."
    assert whole.choices[0].message.content == "It is blue."


SAID: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "mull/reflect",
        {"write": ["Draft."], "judge": [0.9]},
        {"mull": {"min_complexity": 0}},
        "Draft.",
    ),
    (
        "mull/agent",
        {"generate_report": ["It is."], "reflect_on_report": [reflection()]},
        {"mull": {"mode": "research"}},
        "It is.",
    ),
    ("mull/turn", {"step": ["Hi."]}, {"mull": {"tools": []}, "reasoning_effort": "low"}, "Hi."),
]


@pytest.mark.parametrize(("model", "script", "fields", "answer"), SAID)
async def test_each_loop_answers(
    client: Client, model: str, script: dict[str, Any], fields: dict[str, Any], answer: str
) -> None:
    async with (
        served(client, ScriptedModel(**script)),
        listening(client) as address,
        browsing(address) as plain,
    ):
        found = (await plain.post("/chat/completions", json=chat(model, **fields))).json()

    assert found["choices"][0]["message"]["content"].endswith(answer)


async def test_what_is_not_to_be_built_on_says_so(client: Client) -> None:
    """As a doubt, or as an error where the request wants an answer beyond doubt."""
    split = {"mull": {"max_responses": 3, "min_responses": 3}}
    model = ScriptedModel(sample=["1", "2", "3"])
    async with served(client, model), listening(client) as address, browsing(address) as plain:
        doubtful = await plain.post("/chat/completions", json=chat(**split))
        strict = {"mull": {**split["mull"], "require": True}}
        refused = await plain.post("/chat/completions", json=chat(**strict))
        last = await plain.post("/chat/completions", json=chat(**strict, stream=True))

    assert (doubtful.status_code, refused.status_code) == (200, 422)
    assert doubtful.json()["mull"]["doubt"]
    assert doubtful.json()["mull"]["doubt"] in refused.json()["error"]["message"]
    assert refused.json()["mull"]["id"] == refused.headers["Mull-Run-Id"]
    assert '"not_to_be_built_on"' in last.text


@pytest.mark.parametrize(
    ("model", "script", "settings"),
    [
        ("mull/ask", {"sample": ["?"] * 3}, {"max_responses": 3, "answers": "number"}),
        ("mull/agent", {"route": lambda _: routed("neither")}, {}),
    ],
)
async def test_a_run_without_an_answer_is_an_error(
    client: Client, model: str, script: dict[str, Any], settings: dict[str, Any]
) -> None:
    """No client takes an empty text for its answer, though it asks for no certainty."""
    async with (
        served(client, ScriptedModel(**script)),
        listening(client) as address,
        browsing(address) as plain,
        openai(address) as official,
    ):
        found = await plain.post("/chat/completions", json=chat(model, mull=settings))
        with pytest.raises(APIError, match="The run has no answer: "):
            await streamed(official, **chat(model, extra_body={"mull": settings}))

    assert (found.status_code, found.json()["error"]["code"]) == (422, "no_answer")
    assert found.json()["mull"]["id"] == found.headers["Mull-Run-Id"]
    assert found.json()["mull"]["doubt"]
    assert found.headers["x-should-retry"] == "false"


async def test_an_answer_that_was_cut_off_says_so(client: Client) -> None:
    """By its finish reason, and as a doubt."""
    model = ScriptedModel(step=[scripted_reply("Once upon a", finish_reason="length")])
    async with served(client, model), listening(client) as address, browsing(address) as plain:
        sent = chat("mull/turn", mull={"tools": []})
        found = (await plain.post("/chat/completions", json=sent)).json()

    assert found["choices"][0]["message"]["content"] == "Once upon a"
    assert found["choices"][0]["finish_reason"] == "length"
    assert found["mull"]["doubt"]


async def test_a_failed_run_is_a_502_with_its_cause(client: Client) -> None:
    """OpenAI's client does not repeat it: that would be another run, and paid for."""
    model = ScriptedModel(each=[FAILED] * 9, sample=[FAILED] * 10)
    async with (
        served(client, model),
        listening(client) as address,
        openai(address, retries=3) as official,
    ):
        with pytest.raises(APIStatusError) as caught:
            await official.chat.completions.create(**chat())
        with pytest.raises(APIError, match="no such key"):
            await streamed(official, **chat())

    assert caught.value.status_code == 502
    assert caught.value.body["code"] == "AuthenticationError"  # type: ignore[index]
    assert "no such key" in caught.value.message
    assert caught.value.response.headers["Mull-Run-Id"]


async def test_without_a_worker_nothing_is_started(client: Client) -> None:
    """So whoever asks again later pays nothing twice."""
    config, key = client.config(), again()
    config["namespace"] = "idle"
    idle = Client(**config)
    async with listening(idle) as address, browsing(address) as plain:
        found = await plain.post("/chat/completions", json=chat(), headers=key)
    with pytest.raises(RPCError, match="not found"):
        await run_of(idle, key).describe()

    assert (found.status_code, found.headers["Retry-After"]) == (503, "5")
    assert found.json()["error"]["message"] == (
        'No worker is polling task queues "mull" and "mull-llm". Start one with `mull-worker`, or '
        "an embedded one with `mull dev`."
    )


async def test_a_run_that_waits_for_a_person_is_named(client: Client) -> None:
    """To a client that takes such a reply with 202 and no content, to others as an error.

    Once a person has decided, the same request with its key gets the answer.
    """
    waits = {"max_responses": 3, "min_responses": 3, "review_when": "high"}
    key = again()
    async with (
        served(client, ScriptedModel(sample=["1", "2", "3"])),
        listening(client) as address,
        browsing(address) as plain,
    ):

        async def ask(**fields: Any) -> Any:
            sent = chat(**{"mull": {**waits, **fields.pop("mull", {})}, **fields})
            return await plain.post("/chat/completions", json=sent, headers=key)

        refused, taken = await ask(), await ask(mull={"accept_waiting": True})
        last = await ask(mull={"accept_waiting": True}, stream=True)
        once = await plain.post("/chat/completions", json=chat(mull=waits))
        run = client.get_workflow_handle(taken.headers["Mull-Run-Id"])
        await run.execute_update("review", {"accept": True})
        done = await ask()

    assert (refused.status_code, refused.headers["x-should-retry"]) == (409, "false")
    assert "ask again with the same Idempotency-Key" in refused.json()["error"]["message"]
    assert f"then mull show {once.headers['Mull-Run-Id']}." in once.json()["error"]["message"]
    assert (taken.status_code, done.status_code) == (202, 200)
    assert refused.json()["mull"]["id"] == taken.json()["id"] == run.id
    assert taken.json()["mull"]["status"] == "waiting_for_review"
    assert taken.json()["choices"][0]["message"]["content"] == ""
    assert '"waiting_for_review"' in last.text
    assert done.json()["choices"][0]["message"]["content"] == "1"


async def test_a_request_that_comes_again_is_the_same_run(client: Client) -> None:
    """While it goes on, once it is done, and as a stream: nothing is paid twice."""
    held = asyncio.Event()
    model = ScriptedModel(sample=FIVE, held=held)
    sent, key = chat(**AT_ONCE), again()
    async with served(client, model), listening(client) as address, browsing(address) as plain:
        both = [
            asyncio.create_task(plain.post("/chat/completions", json=one, headers=key))
            for one in (sent, sent, {**sent, "stream": True})
        ]
        await until_asked(model, 3)
        held.set()
        found = [await one for one in both]
        later = await plain.post("/chat/completions", json=sent, headers=key)

    assert len({one.headers["Mull-Run-Id"] for one in (*found, later)}) == 1
    assert [one.status_code for one in (*found, later)] == [200] * 4
    assert len(model.calls) == 3


@pytest.mark.parametrize(
    "other",
    [chat(temperature=0), chat("mull/turn"), chat(messages=[{"role": "user", "content": "No"}])],
)
async def test_a_key_of_another_request_is_a_conflict(client: Client, other: Any) -> None:
    key = again()
    model = ScriptedModel(sample=FIVE)
    async with served(client, model), listening(client) as address, browsing(address) as plain:
        await plain.post("/chat/completions", json=chat(**AT_ONCE), headers=key)
        found = await plain.post("/chat/completions", json=other, headers=key)

    assert found.status_code == 409
    assert found.json()["error"]["code"] == "idempotency_key_reused"
    assert len(model.calls) == 3


async def test_a_failed_request_that_comes_again_is_made_again(client: Client) -> None:
    lines = [[FAILED, "5"], [FAILED, "5"], [FAILED, "5"]]
    key = again()
    model = ScriptedModel(sample=lines)
    async with served(client, model), listening(client) as address, browsing(address) as plain:
        found = [
            await plain.post("/chat/completions", json=chat(**AT_ONCE), headers=key)
            for _ in range(2)
        ]

    assert [one.status_code for one in found] == [502, 200]


async def test_another_key_s_header_is_another_run(client: Client) -> None:
    """Bob learns nothing of what Ann asked, nor that she has asked."""
    key, known = again(), bearers(runs_at_once=2)
    model = ScriptedModel(sample=FIVE)
    async with (
        served(client, model),
        listening(client, known) as address,
        browsing(address, KEYS["ann"]) as ann,
        browsing(address, KEYS["bob"]) as bob,
    ):
        hers = await ann.post("/chat/completions", json=chat(**AT_ONCE), headers=key)
        his = await bob.post("/chat/completions", json=chat(temperature=0), headers=key)

    assert (hers.status_code, his.status_code) == (200, 200)
    assert hers.headers["Mull-Run-Id"].startswith("chat-ann-")
    assert his.headers["Mull-Run-Id"].startswith("chat-bob-")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("cancels", [False, True])
async def test_a_client_that_goes_away(client: Client, stream: bool, cancels: bool) -> None:
    """Its run goes on, unless the request says that it is cancelled then."""
    held = asyncio.Event()
    model = ScriptedModel(sample=FIVE, held=held)
    fields = {"mull": {"max_responses": 3, "cancel_on_disconnect": cancels}, "stream": stream}
    key = again()
    async with (
        served(client, model),
        listening(client) as address,
        browsing(address) as plain,
    ):
        going = asyncio.create_task(
            plain.post("/chat/completions", json=chat(**fields), headers=key)
        )
        await until_asked(model, 3)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        run = run_of(client, key)
        if cancels:
            await until(run.describe, lambda seen: seen.status is WorkflowExecutionStatus.CANCELED)
        else:
            await asyncio.sleep(0.3)
            assert (await run.describe()).status is WorkflowExecutionStatus.RUNNING
            held.set()
            await ended(run)
