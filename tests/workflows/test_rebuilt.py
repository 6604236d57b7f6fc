"""Spans that are rebuilt from histories, beside those that the workers made."""

import base64
import json
import logging
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle

import spans as rebuilding
from activities.language_model.port import TransientModelError
from commands import traces
from mull import connection
from mull.connection import connect
from tests.conftest import Handle, begin, begin_reflecting, failure, served, until_asked
from tests.scripted import ScriptedModel
from tests.workflows.test_spans import (
    CHAT,
    Run,
    ask_once,
    code_once,
    identity,
    observed,
    reflect_once,
    research_once,
)
from tests.workflows.turn import running as turns

ASK = {"question": "secret?", "max_responses": 1, "model": "scripted/model"}
HANGS = 100


async def write_much_once(client: Client) -> None:
    critic = ScriptedModel(
        write=[random.Random(7).randbytes(10_000).hex(), "a revision"], judge=[0.4, 0.9]
    )
    async with served(client, observed(critic)):
        await (await begin_reflecting(client)).result()


async def turn_once(client: Client) -> None:
    model = ScriptedModel(
        step=[[("look", {"place": "sky"})], [("look", {"place": "bad"})], "4."],
        reflection=["So-so."] * 2,
    )
    async with turns.served(client, observed(model)):
        await turns.ended(await turns.start(client, think_level="low"))


def told(span: ReadableSpan) -> dict[str, Any]:
    """What a span says, but for when it was."""
    return {
        "name": span.name,
        "trace": identity(span).trace_id,
        "parent": span.parent and span.parent.span_id,
        "kind": span.kind,
        "status": (span.status.status_code, span.status.description),
        "attributes": dict(span.attributes or {}),
        "events": [(event.name, dict(event.attributes or {})) for event in span.events],
    }


def by_id(spans: Any) -> dict[int, Any]:
    return {identity(span).span_id: told(span) for span in spans}


async def ask(client: Client, *answers: Any) -> Handle:
    """Ask for one sample, to the end of the run."""
    async with served(client, observed(ScriptedModel(sample=answers))):
        handle = await begin(client, ASK)
        await handle.result()
    return handle


async def rebuilt_of(client: Client, workflow_id: str) -> rebuilding.Rebuilt:
    described = await client.get_workflow_handle(workflow_id).describe()
    return await rebuilding.Rebuilder(client).one(workflow_id, described.run_id)


@pytest.mark.parametrize(
    ("run", "encrypted"),
    [
        (ask_once, False),
        (reflect_once, False),
        (research_once, False),
        (code_once, False),
        (turn_once, False),
        (turn_once, True),
        (write_much_once, False),
        (write_much_once, True),
    ],
)
async def test_what_is_rebuilt_is_what_the_workers_made(
    client: Client,
    spans: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    encrypted: bool,
) -> None:
    """Each span has the same id, parent, name, kind, status, attributes and events."""
    if encrypted:
        key = base64.b64encode(bytes(32)).decode()
        monkeypatch.setenv("MULL_ENCRYPTION_KEYS", f"a:{key}")
        client = await connect()
    await run(client)
    made = spans.get_finished_spans()
    [root] = [span for span in made if span.parent is None]

    rebuilt = await rebuilt_of(client, str((root.attributes or {})["mull.workflow_id"]))

    assert by_id(rebuilt.spans) == by_id(made)
    assert len(rebuilt.spans) == len(made)
    assert (rebuilt.error, rebuilt.still_open, rebuilt.lost) == (None, [], {})
    assert all(begin <= end for begin, end in map(times, rebuilt.spans))
    assert spans.get_finished_spans() == made


def times(span: ReadableSpan) -> tuple[int, int]:
    return span.start_time or 0, span.end_time or 0


async def test_an_attempt_before_the_last_one_is_named_as_lost(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """The last attempt has its span, and of the first one the history has only its failure."""
    handle = await ask(client, [TransientModelError("again", "Overloaded", retry_after=0), "1"])
    calls = [span for span in spans.get_finished_spans() if span.name == CHAT]

    rebuilt = await rebuilt_of(client, handle.id)

    assert [(span.attributes or {})["mull.attempt"] for span in calls] == [1, 2]
    assert rebuilt.lost == {"sample_answer 2, Overloaded": 1}
    found = [span for span in rebuilt.spans if span.name == CHAT]
    assert by_id(found) == by_id(calls[1:])


async def test_a_call_that_failed_for_good_is_rebuilt_from_its_failure(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """It has the id, parent, name and status that it had, and no attribute that it had not."""
    model = ScriptedModel(sample=[TransientModelError("no luck")])
    async with served(client, observed(model)):
        handle = await begin(client, {**ASK, "max_attempts": 1})
        await failure(handle)
    [made] = [span for span in spans.get_finished_spans() if span.name == CHAT]

    rebuilt = await rebuilt_of(client, handle.id)

    [found] = [span for span in rebuilt.spans if span.name == CHAT]
    assert identity(found).span_id == identity(made).span_id
    before, after = told(made), told(found)
    assert after.pop("attributes").items() <= before.pop("attributes").items()
    assert after == before
    assert by_id(rebuilt.spans).keys() == by_id(spans.get_finished_spans()).keys()


async def test_a_run_that_goes_on_has_spans_that_are_still_open(
    client: Client, spans: InMemorySpanExporter
) -> None:
    del spans
    model = ScriptedModel(sample=["1"], delays=[HANGS])
    async with served(client, observed(model)):
        handle = await begin(client, ASK)
        await until_asked(model, 1)

        rebuilt = await rebuilt_of(client, handle.id)

        await handle.terminate()
    names = [span.name for span in rebuilt.still_open]
    assert names == ["invoke_workflow SelfConsistencyWorkflow", "mull.wave"]
    assert rebuilt.spans == []
    assert rebuilt.lost == {"sample_answer 2, under way or cancelled": 1}


async def test_a_history_that_can_t_be_replayed_is_one_line(
    client: Client, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spans
    handle = await ask(client, "1")
    whole: Any = await handle.fetch_history()
    [completed] = [
        one for one in whole.events if one.HasField("activity_task_completed_event_attributes")
    ]
    whole.events.remove(completed)

    async def cut(_: object) -> object:
        return whole

    monkeypatch.setattr(WorkflowHandle, "fetch_history", cut)
    error = (await rebuilt_of(client, handle.id)).error
    whole.events[0].workflow_execution_started_event_attributes.workflow_type.name = "Theirs"
    other = (await rebuilt_of(client, handle.id)).error

    assert error is not None
    assert other is not None
    assert error.startswith("this version can't replay its history: ")
    assert "Theirs" in other
    assert max(map(len, [error, other])) < 400


BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def by(worker: str, second: float, kind: str = "workflow_task_completed") -> HistoryEvent:
    """An event that a worker wrote so many seconds after the beginning."""
    event = HistoryEvent()
    event.event_time.FromDatetime(BEGIN + timedelta(seconds=second))
    getattr(event, f"{kind}_event_attributes").identity = worker
    return event


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ([by("a", 1), by("b", 2), by("a", 4)], True),
        ([by("a", 5)], True),
        ([by("a", 6)], False),
        ([by("a", 4), by("dead", 1)], False),
        ([by("a", 4), by("dead", 1, "activity_task_completed")], False),
        ([by("a", 4), by("dead", 1, "activity_task_failed")], False),
        ([by("a", 4), by("client", 5, "workflow_execution_started")], True),
        ([], True),
    ],
    ids=[
        "all lived on", "just long enough", "a moment too short", "one died", "a call's died",
        "a failed call's died", "a client is no worker", "nobody took it up",
    ],
)  # fmt: skip
def test_spans_are_complete_where_each_worker_lived_on(
    run: list[HistoryEvent], expected: bool
) -> None:
    """It lived for five seconds after its last task of the run, by its polls or by other runs."""
    workers = rebuilding.Workers()
    workers.have_sent([by("a", 8), by("b", 3)])
    workers.have_sent([by("a", 10), by("b", 20, "activity_task_completed")])

    assert workers.have_sent(run) is expected


async def test_a_worker_that_polls_is_alive(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run's spans are complete while its worker polls, and not where nobody does any more."""
    for name in ("BEGAN_WITHIN", "FLUSHED"):
        monkeypatch.setattr(rebuilding, name, timedelta(0))
    async with served(client, ScriptedModel(sample=["1"])):
        handle = await begin(client, ASK)
        await handle.result()
        history = await handle.fetch_history()
        alive, dead = rebuilding.Workers(), rebuilding.Workers()
        await alive.look(client)
        monkeypatch.setattr(connection, "POLLED_WITHIN", timedelta(seconds=-60))
        monkeypatch.setattr(rebuilding, "FLUSHED", timedelta(microseconds=1))
        await dead.look(client)

    assert alive.have_sent(history.events)
    assert not dead.have_sent(history.events)


@pytest.mark.parametrize(("ago", "expected"), [(100, False), (146, True)])
async def test_a_poll_may_end_after_its_worker_s_death(
    client: Client, monkeypatch: pytest.MonkeyPatch, ago: float, expected: bool
) -> None:
    """The server notes that as a poll; a live worker has begun one since its last task was done."""

    async def polled(_: object, queue: str) -> set[tuple[str, str]]:
        return {("paused", queue)}

    monkeypatch.setattr(rebuilding, "pollers", polled)
    workers, last = rebuilding.Workers(), datetime.now(UTC) - BEGIN - timedelta(seconds=ago)
    await workers.look(client)

    assert workers.have_sent([by("paused", last.total_seconds())]) is expected


async def test_a_run_whose_spans_are_complete_is_not_replayed(
    client: Client, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events alone are looked at."""
    del spans
    handle = await ask(client, "1")
    described = await handle.describe()
    rebuilder = rebuilding.Rebuilder(client)
    monkeypatch.setattr(rebuilder, "_replayer", None)

    found = await rebuilder.one(handle.id, described.run_id, lambda events: len(events) > 1)

    assert (found.spans, found.error) == ((), None)


async def test_the_document_is_written_run_by_run(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handle = await ask(client, "1")
    written: list[str] = []

    async def whole(_: object, workflow_id: str, run_id: str) -> AsyncIterator[rebuilding.Rebuilt]:
        for _ in range(2):
            yield rebuilding.Rebuilt(workflow_id, run_id)
            written.append(capsys.readouterr().out)

    monkeypatch.setattr(rebuilding.Rebuilder, "whole", whole)
    for chatty in ("temporalio", "opentelemetry"):
        monkeypatch.setattr(logging.getLogger(chatty), "setLevel", lambda _: None)
    await traces._traces(client, handle.id, False, True)

    assert [part.count(handle.id) for part in written] == [1, 1]
    document = json.loads("".join(written) + capsys.readouterr().out)
    assert (len(document["runs"]), document["executions"], document["sent"]) == (2, 2, False)
