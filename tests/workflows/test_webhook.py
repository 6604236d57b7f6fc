"""What a webhook is told of runs that wait and of runs that fail, and what that costs them."""

import asyncio
import gc
import hashlib
import hmac
import json
import os
import time
import uuid
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from temporalio.client import ActivityFailureError, Client
from temporalio.exceptions import ActivityError
from temporalio.service import RPCError, RPCStatusCode

from activities.language_model.port import PermanentModelError
from activities.webhook import Notice
from adapters import webhook_of
from commands.command import run_page
from mull.connection import TASK_QUEUE
from mull.errors import ConfigurationError
from tests import conftest
from tests.conftest import ONE_BY_ONE, begin, ended, failure, until, until_step
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel
from tests.workflows.test_reviews import AGENT, ASK, REFLECT, Waiting
from tests.workflows.turn.running import Noted, permit

SECRET = "hook-secret-0123456789"
KEY = "a-key-in-the-address"
OK, MOVED = b"204 No Content", b"307 Temporary Redirect"
UI = "https://runs.example.org"


class Receiver:
    """A receiver on loopback: it takes requests, and answers by a script, then with 204.

    None among the answers: it never answers.
    """

    def __init__(self, *answers: bytes | None) -> None:
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.port = 0
        self._answers = list(answers)
        self._open: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Receiver":
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        for writer in self._open:
            writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in head[1:] if line)
        headers = {":path": head[0].split()[1]} | {name.lower(): value for name, _, value in pairs}
        body = await reader.readexactly(int(headers["content-length"]))
        self.taken.append((headers, body))
        answer = self._answers.pop(0) if self._answers else OK
        if answer is not None:
            place = f"http://127.0.0.1:{self.port}/elsewhere".encode()
            writer.write(b"HTTP/1.1 " + answer + b"\r\nLocation: " + place + b"\r\n")
            writer.write(b"Content-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()

    def told(self) -> list[dict[str, Any]]:
        """Verify each request's signature, and return the bodies."""
        for headers, body in self.taken:
            parts = dict(part.split("=") for part in headers["mull-signature"].split(","))
            signed = f"{parts['t']}.".encode() + body
            assert parts["v1"] == hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
            assert abs(int(parts["t"]) - time.time()) < 60
        return [json.loads(body) for _, body in self.taken]

    async def until_told(self, requests: int) -> list[dict[str, Any]]:
        """Wait for so many requests, and return the bodies."""
        await until(lambda: len(self.taken) >= requests)
        return self.told()


def served(
    client: Client, model: Any, port: int, tools: Noted | None = None
) -> AbstractAsyncContextManager[None]:
    """Serve with a webhook at this port, one workflow task after the other."""
    told = {"MULL_WEBHOOK": f"http://127.0.0.1:{port}/{KEY}", "MULL_WEBHOOK_SECRET": SECRET}
    webhook, called = webhook_of({**os.environ, **told}), tools.tools() if tools else None
    return conftest.served(client, model, called=called, webhook=webhook, **ONE_BY_ONE)


async def decide(run: Any, update: str, said: dict[str, Any]) -> None:
    """Say what a person says: again where it meets the event that the notice's run has started."""
    while True:
        try:
            await run.execute_update(update, said)
        except RPCError as error:
            if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def children(client: Client, run: str) -> list[str]:
    """List the types of a run's children, as its history has them."""
    history = await client.get_workflow_handle(run).fetch_history()
    begun = [
        event.start_child_workflow_execution_initiated_event_attributes for event in history.events
    ]
    return [each.workflow_type.name for each in begun if each.workflow_id]


@pytest.mark.parametrize("loop", [ASK, REFLECT, AGENT], ids=lambda loop: loop.workflow)
async def test_a_run_that_waits_for_a_person_is_told_of(
    client: Client, loop: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notice is signed, names the run and why, links to it, and holds none of its text."""
    monkeypatch.setenv("MULL_WEB_UI", UI)
    async with Receiver() as receiver, served(client, loop.model(), receiver.port):
        run = await begin(client, loop.request, loop.workflow)
        (told,) = await receiver.until_told(1)
        await decide(run, "review", {"accept": True})
        result = await run.result()

    assert result["stop_reason"] == "accepted_by_person"
    assert told["link"] == f"{UI}/namespaces/default/workflows/{run.id}/{told['run_id']}/history"
    assert (told["event"], told["workflow_id"]) == ("waiting", run.id)
    assert (told["workflow_type"], told["error_type"]) == (loop.workflow, None)
    assert set(told) == {*Notice.model_fields, "link"}
    assert told["stop_reason"] is None or " " not in told["stop_reason"]


async def test_a_call_that_waits_for_permission_is_told_of(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MULL_WEB_UI", raising=False)
    model = ScriptedModel(step=[[("write", {"text": "a"})], "It is 4."])
    async with Receiver() as receiver, served(client, model, receiver.port, Noted()):
        run = await begin(client, {"message": "How much is it?"}, "ToolTurnWorkflow")
        (told,) = await receiver.until_told(1)
        await permit(run, 1)
        await run.result()

    assert (told["event"], told["workflow_type"]) == ("waiting", "ToolTurnWorkflow")
    assert told["link"] is None


async def test_a_run_that_fails_is_told_of(client: Client) -> None:
    """The notice outlives the run, comes again until it is accepted, and follows no redirect."""
    model = ScriptedModel(sample=[PermanentModelError("no key", "AuthenticationError")] * 5)
    async with Receiver(MOVED) as receiver, served(client, model, receiver.port):
        run = await begin(client, {"question": "How many?"})
        assert (await failure(run)).type == "AuthenticationError"
        told = await receiver.until_told(2)
        assert await children(client, run.id) == ["WebhookWorkflow"]
        await asyncio.wait_for(client.get_workflow_handle(told[0]["id"]).result(), PATIENCE)

    assert len({each["id"] for each in told}) == 1
    assert {headers[":path"] for headers, _ in receiver.taken} == {f"/{KEY}"}
    assert (told[0]["event"], told[0]["error_type"]) == ("failed", "AuthenticationError")
    assert (told[0]["workflow_id"], told[0]["stop_reason"]) == (run.id, None)


async def test_an_attempt_that_fails_is_one_line_of_the_log(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says why the receiver was not told, without a traceback.

    Where models are called too, their adapter has bounded httpx for the whole process.
    """
    monkeypatch.delattr(httpx.AsyncHTTPTransport, "handle_async_request")
    model = ScriptedModel(sample=[PermanentModelError("no key", "AuthenticationError")] * 5)
    async with Receiver(MOVED) as receiver, served(client, model, receiver.port):
        run = await begin(client, {"question": "How many?"})
        told = await receiver.until_told(2)
        await asyncio.wait_for(client.get_workflow_handle(told[0]["id"]).result(), 20)
        assert (await failure(run)).type == "AuthenticationError"

    [line] = [each for each in caplog.records if "webhook" in each.getMessage()]
    assert "the webhook was not notified: the receiver answered with 307" in line.getMessage()
    assert (line.name, line.levelname) == ("temporalio.activity", "WARNING")
    assert line.exc_info is None


NOW = datetime.now(UTC).isoformat()
MADE_UP = {"id": "x", "event": "failed", "time": NOW, "error_type": "Phishing"}


async def made_up(client: Client, **fields: Any) -> dict[str, Any]:
    """Build a notice as any client may, of a run that there is: it waits, and failed nowhere."""
    run = await begin(client, ASK.request)
    await until_step(run, "waiting_for_review")
    known = {"workflow_id": run.id, "run_id": run.result_run_id, "workflow_type": "Mull"}
    return {**MADE_UP, **known, **fields}


@pytest.mark.parametrize(
    "fields",
    [{}, {"event": "waiting"}, {"workflow_id": "../../../admin?x=", "run_id": "/../.."}],
    ids=["no failure", "waits", "made up"],
)
async def test_a_notice_that_no_run_sent_is_not_posted(
    client: Client, fields: dict[str, str]
) -> None:
    async with Receiver() as receiver, served(client, ASK.model(), receiver.port):
        notice = await made_up(client, **fields)
        own = await receiver.until_told(1)
        receiver.taken.clear()
        refused = await failure(await begin(client, notice, "WebhookWorkflow"), ActivityError)
        with pytest.raises(ActivityFailureError) as caught:
            await client.execute_activity(
                "send_notice", notice, id=f"notice-{uuid.uuid4()}", task_queue=TASK_QUEUE,
                start_to_close_timeout=timedelta(seconds=20),
            )  # fmt: skip

    assert own[0]["event"] == "waiting"
    assert receiver.taken == []
    for error in (refused.__cause__, caught.value.cause):
        assert "only sent for a run of Mull's" in str(error)


@pytest.mark.parametrize(
    "inputs",
    [[], [MADE_UP, MADE_UP], [MADE_UP, 1, "x"], [b"\x00\xff"], [None], [7]],
    ids=["none", "two", "three", "bytes", "null", "a number"],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the SDK's own
async def test_a_notice_that_is_none_fails_its_run(client: Client, inputs: list[Any]) -> None:
    """As any other workflow's request does, and not every workflow task for ever."""
    async with Receiver() as receiver, served(client, ASK.model(), receiver.port):
        run = await client.start_workflow(
            "WebhookWorkflow", args=inputs, id=f"test-{uuid.uuid4()}", task_queue=TASK_QUEUE
        )
        refused = await failure(run)

    assert (refused.type, refused.non_retryable) == ("InvalidRequest", True)
    assert receiver.taken == []
    # It finds the coroutine that the SDK left behind.
    gc.collect()


@pytest.mark.parametrize("name", [".", "..", "../../admin?a#b", "a/b", "%2e%2e", "\u202e"])
def test_a_link_stays_below_its_base(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever id a run has: a browser resolves dots, also encoded ones, before it asks."""
    monkeypatch.setenv("MULL_WEB_UI", f"{UI}/ui")
    link = run_page(name, "run") or ""

    assert urljoin(link, urlsplit(link).path).startswith(f"{UI}/ui/namespaces/default/workflows")
    assert not {"?", "#"} & set(link)
    assert "." not in urlsplit(link).path.split("/")[-3:]
    assert ".." not in urlsplit(link).path.split("/")


async def test_a_line_of_a_batch_that_fails_is_told_of_by_its_batch_alone(client: Client) -> None:
    model = ScriptedModel(sample=[PermanentModelError("no key", "AuthenticationError")] * 5)
    variant = {"name": "ask", "workflow": "SelfConsistencyWorkflow"}
    request = {"items": [{"question": "How many?"}], "variants": [variant]}
    async with Receiver() as receiver, served(client, model, receiver.port):
        batch = await begin(client, request, "BatchWorkflow")
        result = await batch.result()

    assert result["failed"] == 1
    assert await children(client, result["runs"][0]["workflow_id"]) == []


async def started(client: Client, run: str) -> list[str]:
    """List the ids of a run's children that have started."""
    history = await client.get_workflow_handle(run).fetch_history()
    begun = [event.child_workflow_execution_started_event_attributes for event in history.events]
    return [each.workflow_execution.workflow_id for each in begun if each.workflow_type.name]


async def last_failure(client: Client, run: str) -> str | None:
    """Return why the last attempt of a run's only activity failed; None where it has none yet."""
    pending = (await client.get_workflow_handle(run).describe()).raw_description.pending_activities
    return pending[0].last_failure.message if pending else None


@pytest.mark.parametrize("answers", [(None, None), ()], ids=["hangs", "is down"])
async def test_a_receiver_that_takes_nothing_delays_no_run(
    client: Client, answers: tuple[None, ...]
) -> None:
    """The run waits for no attempt, and no message of an attempt shows the address or the key."""
    async with Receiver(*answers) as receiver:
        port = receiver.port if answers else 9
        async with served(client, ASK.model(), port):
            run = await begin(client, ASK.request)
            said = "" if answers else "the receiver can't be reached: ClientConnectorError"
            [child] = await until(lambda: started(client, run.id))
            # Once the run no longer waits, there is nothing to tell.
            await until(lambda: last_failure(client, child), lambda told: told == said)
            await run.execute_update("review", {"accept": True})
            assert (await ended(run))["stop_reason"] == "accepted_by_person"
            await client.get_workflow_handle(child).terminate()
            receiver.hang_up()


async def test_without_a_webhook_there_is_not_one_event_more(client: Client) -> None:
    """A run that waits has no child, and the answer of its first activity is the usual list."""
    async with conftest.served(client, ASK.model()):
        run = await begin(client, ASK.request)
        await until_step(run, "waiting_for_review")
        await run.execute_update("review", {"accept": True})
        await run.result()

    assert await children(client, run.id) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"MULL_WEBHOOK": "ftp://x/y", "MULL_WEBHOOK_SECRET": SECRET}, "expected an address"),
        ({"MULL_WEBHOOK": "https://", "MULL_WEBHOOK_SECRET": SECRET}, "expected an address"),
        ({"MULL_WEBHOOK": f"https://example.org/{KEY}"}, "MULL_WEBHOOK_SECRET is not set"),
    ],
)
def test_a_webhook_that_can_t_be_told_is_refused_at_the_start(
    given: dict[str, str], said: str
) -> None:
    """The message names the variable, and never its value."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        webhook_of(given)

    assert KEY not in str(caught.value)
    assert webhook_of({}) is None
