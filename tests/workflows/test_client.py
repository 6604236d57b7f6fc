"""The client of the package: runs are started, attached to and found again by their ids."""

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

import mull
from activities.language_model.port import PermanentModelError
from mull.sampling.request import SelfConsistencyRequest
from tests.conftest import served
from tests.scripted import ScriptedModel

SURE = ["129"] * 5


def fresh() -> str:
    return f"client-{uuid.uuid4().hex}"


async def test_a_question_is_asked_and_its_record_knows_its_run(client: Client) -> None:
    """The id is no part of what is recorded."""
    m, model = mull.Client(client), ScriptedModel(sample=SURE)
    async with served(client, model):
        run = await m.ask("How much?", answers="number", id=(name := fresh()))
        again = await (await m.get(name)).result()

    assert (run.final_answer, run.doubt, run.id, again.id) == ("129", "", name, name)
    assert "id" not in run.model_dump()
    assert name not in run.model_dump_json()


async def test_an_id_makes_a_call_that_can_be_repeated(client: Client) -> None:
    """At once, and once it is done: nothing is paid again; another request is refused."""
    m, model, name = mull.Client(client), ScriptedModel(sample=SURE), fresh()
    request = SelfConsistencyRequest(question="How much?", max_responses=5)
    async with served(client, model):
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
        assert "secret" not in str(refused.value)
    with pytest.raises(mull.RequestError, match="no run has the id"):
        await m.get(name)


async def test_a_run_that_fails_or_is_cancelled_is_an_error_with_its_id(client: Client) -> None:
    m, failing = mull.Client(client), PermanentModelError("no key", "AuthenticationError", 401)
    async with served(client, ScriptedModel(sample=[failing] * 5)):
        with pytest.raises(mull.RunFailedError) as failed:
            await m.ask("How much?", id=(name := fresh()))
    assert (failed.value.id, failed.value.kind) == (name, "AuthenticationError")
    assert failed.value.exit_code == 1

    async with served(client, ScriptedModel(sample=SURE, delay=60)):
        run = await m.start("ask", question="How much?", id=(name := fresh()))
        await run.cancel()
        with pytest.raises(mull.RunCancelledError) as cancelled:
            await run.result()
    assert (cancelled.value.id, cancelled.value.exit_code, run.command) == (name, 5, "ask")


async def test_a_doubtful_result_is_an_error_where_that_is_asked_for(client: Client) -> None:
    """The error has the record."""
    m, model = mull.Client(client), ScriptedModel(sample=["a", "b"] * 5)
    async with served(client, model):
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
    async with served(client, ScriptedModel(sample=SURE)):
        run = await mull.Client(theirs).ask("How much?")

    assert run.final_answer == "129"
    assert theirs.data_converter is pydantic_data_converter
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(mull.NoServerError, match=r"no Temporal server answers at 127\.0\.0\.1:1"):
        async with mull.connect():
            pass


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
        await run.handle.terminate()
    assert none.value.queues == ("mull", "mull-llm")
