"""MCP's tools over HTTP: the keys of OpenAI's interface, their models, runs at once and dollars."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Literal

import httpx2
import mcp_types as types
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from temporalio.client import Client, WorkflowExecutionStatus

import mull
from commands.http import application
from commands.http.bearers import Account, Bearer
from commands.http.tools import with_tools
from mull.quota import Place
from tests.conftest import served, until
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel
from tests.workflows.serving import KEYS, answering, bearers, stalled

QUESTION = {"question": "How much?"}


@asynccontextmanager
async def listening(
    client: Client, known: Mapping[str, Bearer] | None = None, wait: float = PATIENCE
) -> AsyncIterator[str]:
    """Serve with these keys; yield where the tools are."""
    async with answering(with_tools(mull.Client(client), known or {}, wait)) as address:
        yield f"{address}/mcp"


@asynccontextmanager
async def speaking(
    address: str, name: str | None = None, mode: str = "auto"
) -> AsyncIterator[McpClient]:
    """Speak to it with the key of this name."""
    headers = {} if name is None else {"Authorization": f"Bearer {KEYS[name]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as plain,
        McpClient(streamable_http_client(address, http_client=plain), mode=mode) as client,
    ):
        yield client


def text(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_tool_is_called_with_progress(
    client: Client, mode: Literal["auto", "legacy"]
) -> None:
    """Without keys whoever is on this machine has the four tools, as over standard input."""
    told = list[str | None]()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        told.append(message)

    async with (
        served(client, ScriptedModel(sample=lambda _: "7")),
        listening(client) as address,
        speaking(address, mode=mode) as spoken,
    ):
        listed = [tool.name for tool in (await spoken.list_tools()).tools]
        asked = await spoken.call_tool("ask", QUESTION, progress_callback=hear)
        found = asked.structured_content
        shown = await spoken.call_tool("show", {"id": found["id"]})

    assert listed == ["ask", "reflect", "agent", "show"]
    assert (found["answer"], found["doubt"]) == ("7", "")
    assert found["id"].startswith("ask-mcp-local-")
    assert told[0] == f"{found['id']} has begun"
    assert shown.structured_content == found


async def test_who_is_not_let_in_calls_nothing(client: Client) -> None:
    """A wrong key, none, a web page, another content type and a large body: the door's errors."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    large = {**message, "padding": "x" * 1_000_001}
    async with (
        listening(client, bearers()) as locked,
        listening(client) as opened,
        httpx2.AsyncClient(timeout=PATIENCE) as plain,
    ):
        said = [
            (await plain.post(locked, json=message)).status_code,
            (
                await plain.post(locked, json=message, headers={"Authorization": "Bearer wrong"})
            ).status_code,
            (await plain.post(opened, json=message, headers={"Origin": "http://a"})).status_code,
            (await plain.post(opened, json=message, headers={"Host": "evil.example"})).status_code,
            (await plain.post(opened, content=b"{}")).status_code,
            (await plain.post(opened, json=large)).status_code,
        ]

    assert said == [401, 401, 403, 403, 415, 413]


async def test_no_connection_is_held_on_which_nothing_comes(client: Client) -> None:
    """A server that keeps no session has nothing to say by itself: the protocol's answer is 405."""
    async with listening(client) as address, httpx2.AsyncClient(timeout=PATIENCE) as plain:
        found = await plain.get(address, headers={"Accept": "text/event-stream"})

    assert found.status_code == 405


async def test_a_key_has_its_models_runs_and_ids(client: Client) -> None:
    """What it may not ask is refused, a run too many too, and the other key's run is unknown."""
    opened = asyncio.Event()

    async def reply(_: object) -> str:
        await opened.wait()
        return "7"

    known = bearers(models=("mull/ask",), runs_at_once=1)
    async with (
        served(client, ScriptedModel(sample=reply)),
        listening(client, known, wait=1) as address,
        speaking(address, "ann") as ann,
        speaking(address, "bob") as bob,
    ):
        refused = await ann.call_tool("reflect", {"query": "Why?"})
        first = await ann.call_tool("ask", QUESTION)
        second = await ann.call_tool("ask", QUESTION)
        run = first.structured_content["id"]
        foreign = [await one.call_tool("show", {"id": run}) for one in (bob, ann)]
        opened.set()
        done = await until(
            lambda: ann.call_tool("show", {"id": run}),
            lambda shown: shown.structured_content["state"] == "done",
        )
        third = await until(
            lambda: ann.call_tool("ask", QUESTION), lambda asked: not asked.is_error
        )

    assert text(refused) == "this key may not ask mull/reflect."
    assert (first.structured_content["state"], second.is_error) == ("running", True)
    assert text(second).startswith("This key has 1 run under way, and may have 1 at once")
    assert run.startswith("ask-mcp-ann-")
    assert text(foreign[0]) == f"no run that was started here has the id {run}."
    assert foreign[1].structured_content["state"] == "running"
    assert done.structured_content["answer"] == "7"
    assert third.structured_content["id"] != run


async def test_a_key_s_dollars_bound_each_run(client: Client) -> None:
    """A run has what its key has left; what it spent counts, so that a later one gets less."""
    known: dict[str, Any] = {"usd_a_day": 0.02, "runs_at_once": 1}
    async with (
        served(client, ScriptedModel(sample=lambda _: "7")),
        listening(client, {"ann": bearers(**known)["ann"]}) as address,
        speaking(address, "ann") as ann,
    ):
        m = mull.Client(client)
        budgets = []
        for _ in range(2):
            asked = await ann.call_tool("ask", QUESTION)
            run = await m.get(asked.structured_content["id"])
            budgets.append((await run.request()).budget_usd)

    assert budgets[0] == 0.02
    assert 0 < budgets[1] < 0.02


async def test_a_client_that_goes_away_leaves_its_run(client: Client) -> None:
    opened = asyncio.Event()

    async def reply(_: object) -> str:
        await opened.wait()
        return "7"

    named: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        if not named.done():
            named.set_result((message or "").split()[0])

    async with served(client, ScriptedModel(sample=reply)), listening(client) as address:
        async with speaking(address) as spoken:
            call = asyncio.create_task(spoken.call_tool("ask", QUESTION, progress_callback=hear))
            identity = await asyncio.wait_for(named, PATIENCE)
            call.cancel()
        run = await mull.Client(client).get(identity)
        status = (await run.handle.describe()).status
        opened.set()
        result = await asyncio.wait_for(run.result(), PATIENCE)

    assert status is WorkflowExecutionStatus.RUNNING
    assert result.final_answer == "7"


async def test_a_body_that_does_not_come_is_not_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor is one that breaks off an error of the server."""
    monkeypatch.setattr(application, "BODY_SECONDS", 0.2)
    async with listening(client) as address:
        answered = await stalled(address)

    assert b" 408 " in answered
    assert "Traceback" not in capfd.readouterr().err


async def test_a_run_that_goes_on_keeps_its_place() -> None:
    """Though the server does not answer for a while: only a run that has ended frees it."""
    freed = list[Any]()

    class Going:
        async def result(self) -> Any:
            raise mull.NoServerError("the Temporal server did not answer in time")

        async def look(self) -> Any:
            return SimpleNamespace(usage=SimpleNamespace(cost_usd=0.0))

    class Kept(Account):
        async def _free(self, place: Place, usd: float | None) -> None:
            freed.append((place, usd))

    place = Place(run="ask-mcp-ann-1", since=datetime.now(UTC))
    going: Any = Going()
    await Kept(going, "ann")._free_at_end(place, going)

    assert freed == []
