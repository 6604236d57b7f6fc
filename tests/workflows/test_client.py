"""The client of the package: runs are started, attached to and found again by their ids."""

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

import mull
from activities.language_model.port import PermanentModelError
from commands.embedded import Place, free_port, temporal
from mull.sampling.request import SelfConsistencyRequest
from mull.talk import Talk
from mull.turn.session import SessionRequest
from tests.conftest import QUERY, polling, served, until
from tests.scripted import ScriptedModel

SURE = ["129"] * 5


async def last_of(run: mull.Run[Any]) -> Any:
    return [record async for record in run][-1]


def fresh() -> str:
    return f"client-{uuid.uuid4().hex}"


async def test_a_question_is_asked_and_its_record_knows_its_run(client: Client) -> None:
    """The id is no part of what is recorded."""
    m, model = mull.Client(client), ScriptedModel(sample=SURE)
    async with polling(client, model):
        run = await m.ask("How much?", answers="number", id=(name := fresh()))
        again = await (await m.get(name)).result()

    assert (run.final_answer, run.doubt, run.id, again.id) == ("129", "", name, name)
    assert f"{run}" == f"<SelfConsistencyResult {name}: rule, '129'>"
    read = mull.SelfConsistencyResult.model_validate_json(run.model_dump_json())
    assert f"{read}" == "<SelfConsistencyResult: rule, '129'>"
    assert "id" not in run.model_dump()
    assert name not in run.model_dump_json()


async def test_an_id_makes_a_call_that_can_be_repeated(client: Client) -> None:
    """At once, and once it is done: nothing is paid again; another request is refused."""
    m, model, name = mull.Client(client), ScriptedModel(sample=SURE), fresh()
    request = SelfConsistencyRequest(question="How much?", max_responses=5)
    async with polling(client, model):
        both = await asyncio.gather(
            m.ask("How much?", max_responses=5, id=name), m.ask(request, id=name)
        )
        later = await m.ask(request, id=name)
        with pytest.raises(mull.RequestError, match="had another request") as refused:
            await m.ask("How many?", max_responses=5, id=name)
        paid = len(model.calls)
        anew = await m.ask("How many?", id=name, again=True)

    assert [run.final_answer for run in (*both, later)] == ["129"] * 3
    assert (paid, refused.value.field, refused.value.exit_code) == (5, "id", 2)
    assert (anew.question, len(model.calls)) == ("How many?", 10)


async def test_a_request_that_is_refused_starts_nothing(client: Client) -> None:
    """The error names the field, and quotes nothing that was given."""
    m, name = mull.Client(client), fresh()
    for fields, field in (
        ({"max_responses": 0}, "max_responses"),
        ({"max_response": 5}, "max_response"),
        ({"options": {"api_key": "sk-secret"}}, "options"),
    ):
        given: dict[str, Any] = fields
        with pytest.raises(mull.RequestError) as refused:
            await m.ask("How much?", id=name, **given)
        assert refused.value.field == field
        assert ("Did you mean max_responses?" in str(refused.value)) == ("max_response" in fields)
        assert "secret" not in str(refused.value)
    for wrong in (f"{name}\nmore", "", 17):
        with pytest.raises(mull.RequestError, match="id: expected printable characters on one li"):
            await m.ask("How much?", id=wrong)  # type: ignore[arg-type]
    with pytest.raises(mull.RequestError, match=r"query: no such field\W*$"):
        await m.ask("How much?", query="How much?")  # type: ignore[call-arg]
    with pytest.raises(mull.RequestError, match=r"variants\.0\.workflow: missing\W*$"):
        await m.batch([{"question": "How much?"}], variants=[{"name": "ask"}])
    known: dict[str, Any] = {"variants": [{"name": "a", "workflow": "SelfConsistencyWorkflow"}]}
    items: list[dict[str, Any]] = [{"question": "How much?", "id": 1}, {"questoin": "How much?"}]
    said = r"items\.1, variant a: question: missing; questoin: no such .* mean question\?$"
    for begin in (
        m.batch(items, **known),
        m.start("batch", items=items, **known),
        m.start(mull.BatchRequest(items=items, **known)),
    ):
        with pytest.raises(mull.RequestError, match=said) as refused:
            await begin
        assert refused.value.field == "items"
    with pytest.raises(mull.RequestError, match="no run has the id"):
        await m.get(name)


async def test_a_run_that_fails_or_is_cancelled_is_an_error_with_its_id(client: Client) -> None:
    m, failing = mull.Client(client), PermanentModelError("no key", "AuthenticationError", 401)
    async with polling(client, ScriptedModel(sample=[failing] * 5)):
        with pytest.raises(mull.RunFailedError) as failed:
            await m.ask("How much?", id=(name := fresh()))
    assert (failed.value.id, failed.value.kind) == (name, "AuthenticationError")
    assert failed.value.exit_code == 1

    async with polling(client, ScriptedModel(sample=SURE, delay=60)):
        run = await m.start("ask", question="How much?", id=(name := fresh()))
        await run.cancel()
        with pytest.raises(mull.RunCancelledError) as cancelled:
            await run.result()
    assert (cancelled.value.id, cancelled.value.exit_code, run.command) == (name, 5, "ask")


async def test_a_doubtful_result_is_an_error_where_that_is_asked_for(client: Client) -> None:
    """The error has the record."""
    m, model = mull.Client(client), ScriptedModel(sample=["a", "b"] * 5)
    async with polling(client, model):
        run = await m.ask("How much?", id=(name := fresh()))
        with pytest.raises(mull.DoubtfulError) as doubtful:
            await m.ask("How much?", id=name, check=True)

    assert doubtful.value.record == run
    assert (doubtful.value.doubt, doubtful.value.exit_code) == (run.doubt, 4)


async def test_a_client_of_ones_own_gets_mull_s_converter(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own client stays as it is."""
    config = client.config()
    config["data_converter"] = pydantic_data_converter
    theirs = Client(**config)
    async with polling(client, ScriptedModel(sample=SURE)):
        run = await mull.Client(theirs).ask("How much?")

    assert run.final_answer == "129"
    assert theirs.data_converter is pydantic_data_converter
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(mull.NoServerError, match=r"no Temporal server answers at 127\.0\.0\.1:1"):
        async with mull.connect():
            pass
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1")
    with pytest.raises(mull.NoServerError, match="Add the port to the address"):
        await mull.connect()


@pytest.mark.usefixtures("client")
async def test_without_a_worker_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to get one; `start` leaves the run to the next one that comes."""
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "idle")
    async with mull.connect() as m:
        with pytest.raises(mull.NoWorkerError, match='task queues "mull" and "mull-llm"') as none:
            await m.ask("How much?", id=(name := fresh()))
        with pytest.raises(mull.RequestError):
            await m.get(name)
        run = await m.start("ask", question="How much?")
        with pytest.raises(mull.NoWorkerError, match="Start one with `mull-worker`"):
            await run.look()
        await run.handle.terminate()
    assert none.value.queues == ("mull", "mull-llm")


async def test_a_run_is_followed_change_by_change(client: Client) -> None:
    """The last record is the result, and each before it is another than the one before."""
    m, model = mull.Client(client), ScriptedModel(sample=["129"] * 5, delays=[0, 3, 6, 6, 6])
    async with polling(client, model):
        run = await m.start("ask", question="How much?", max_concurrency=1)
        seen = [record async for record in run]

    assert [record.stop_reason for record in seen][-2:] == [None, "rule"]
    assert seen[-1] == await run.result()
    counts = [len(record.responses) for record in seen]
    assert counts == sorted(set(counts))
    assert len(counts) >= 3
    assert {record.id for record in seen} == {run.id}


async def test_who_stops_following_leaves_nothing_behind(client: Client) -> None:
    """Neither a task nor the end of the run: a loop that is left, and a task that is cancelled."""
    m, model = mull.Client(client), ScriptedModel(sample=SURE, delay=4)
    before = asyncio.all_tasks()
    async with polling(client, model):
        run = await m.start("ask", question="How much?")
        async for record in run:
            assert record.stop_reason is None
            break
        waiting = asyncio.create_task(m.ask("How much?", id=run.id))
        await asyncio.sleep(0.5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        ended = await run.result()

    assert ended.final_answer == "129"
    await until(lambda: asyncio.all_tasks() <= before)


async def test_a_person_steers_a_run(client: Client) -> None:
    """A review, a revision that is not taken, an answer, and an end with what there is."""
    m, model = mull.Client(client), ScriptedModel(write=["A note."], judge=[0.3])
    async with polling(client, model):
        run = await m.start(
            "reflect", query=QUERY, guardrails=[], review_below=0.9, max_revisions=0
        )
        await until(run.look, lambda seen: seen.step == "waiting_for_review")
        with pytest.raises(mull.RequestError, match="only runs of `ask` take answers"):
            await run.add("7")
        with pytest.raises(mull.RequestError, match="give one of accept, revise, replace"):
            await run.review(accept=True, score=0.8)
        with pytest.raises(mull.RequestError, match="refused: draft 1 is under review now"):
            await run.review(revise="shorter", draft=3)
        await run.review(score=0.8, author="ann")
        reviewed = await run.result()
        with pytest.raises(mull.RequestError, match="has already ended"):
            await run.finish()
    assert (reviewed.stop_reason, reviewed.score) == ("scored_by_person", 0.8)

    async with polling(client, ScriptedModel(sample=["7"] * 10, delay=60)):
        asked = await m.start("ask", question="How much?")
        number = await asked.add("7", author="ann")
        await asked.finish(author="ann")
        ended = await asked.result()
    assert ended.stop_reason == "finished_by_person"
    assert [one.index for one in ended.responses if one.author == "ann"] == [number]


async def test_messages_of_a_session_are_answered_in_turn(client: Client) -> None:
    """Each knows those before it; a message that is sent again is the same, and paid once."""
    m, model = mull.Client(client), ScriptedModel(step=["Hello.", "91 is 7 x 13."])
    async with polling(client, model):
        talk = m.session(fresh(), tools=())
        first = await talk.send("Hi")
        second = await talk.send("Is 91 prime?", id="second")
        again = await m.session(talk.id).send("Is 91 prime?", id="second")
        await (await m.get(talk.id)).finish()

    assert [turn.answer for turn in (first, second, again)] == ["Hello.", *["91 is 7 x 13."] * 2]
    assert [turn.id for turn in (first, second, again)] == [
        f"{talk.id}-turn-{number}" for number in (1, 2, 2)
    ]
    assert "Hello." in str(model.calls[1].messages)
    with pytest.raises(mull.RequestError, match="max_steps"):
        m.session("other", max_steps=0)


async def test_who_waits_for_a_session_in_vain_can_stop(client: Client) -> None:
    """Where no worker takes a message, asyncio.timeout ends the wait for one."""

    async def polled(_: Sequence[str]) -> None: ...

    talk = Talk(client, fresh(), SessionRequest(tools=()), polled)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await talk.send("Hi")


async def test_fifty_questions_at_once_are_each_answered_once(client: Client) -> None:
    """Though their worker is replaced in the middle; and one check for workers is enough."""
    m, model = mull.Client(client), ScriptedModel(sample=SURE, delay=0.5)
    asked = []
    async with polling(client, model):
        for number in range(50):
            request = SelfConsistencyRequest(question=f"How much is {number}?", max_responses=5)
            asked.append(asyncio.create_task(m.ask(request, id=f"{fresh()}-{number}")))
        await until(lambda: len(model.calls) >= 100)
    async with served(client, model):
        answers = await asyncio.gather(*asked)

    assert [run.final_answer for run in answers] == ["129"] * 50
    assert {run.id.rpartition("-")[2] for run in answers} == {str(number) for number in range(50)}
    assert sum(len(run.responses) for run in answers) == 250


async def test_a_server_that_goes_away_is_an_error_and_never_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits hears of it, and finds the run again once the server is back."""
    place, model = Place(free_port(), free_port(), tmp_path / "temporal.db"), ScriptedModel()
    monkeypatch.setenv("TEMPORAL_ADDRESS", place.address)
    async with temporal(place, tmp_path / "log") as (_, own):
        m = mull.Client(own)
        run = await m.start("ask", question="How much?", id="kept")
        waiting = asyncio.create_task(run.result())
        following: asyncio.Task[object] = asyncio.create_task(last_of(run))
        await asyncio.sleep(0.5)
    for task in (waiting, following):
        with pytest.raises(mull.NoServerError, match="lost"):
            await task
    with pytest.raises(mull.NoServerError):
        await m.ask("How much?")
    async with temporal(place, tmp_path / "log") as (_, again):
        found = await mull.Client(again).get("kept")
    assert (found.command, found.goes_on, model.calls) == ("ask", True, [])
