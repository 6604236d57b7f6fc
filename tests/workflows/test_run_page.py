"""The page of a run, from a real server: what it shows, how it changes, how a person ends it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.middleware import Middleware
from temporalio.client import Client

import mull
from activities.language_model.port import PermanentModelError
from commands.web import live
from commands.web.application import application
from commands.web.door import Door, Proxy
from commands.web.rendering import Page
from tests.conftest import QUERY, polling, until
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel
from tests.workflows.serving import answering

ORIGIN = "https://mull.example.org"
ANN = {"X-User": "ann", "Host": "mull.example.org"}
SENT = {"Origin": ORIGIN}


@asynccontextmanager
async def browsing(client: Client, *, read_only: bool = False) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the page, and browse it as Ann, behind a proxy."""
    proxy = Proxy("127.0.0.1", "X-User", ORIGIN)
    door = Middleware(Door, 0, "", proxy, read_only=read_only)
    served = application(Page(mull.Client(client), read_only), door)
    async with (
        answering(served) as address,
        httpx.AsyncClient(base_url=address, headers=ANN, timeout=PATIENCE) as browser,
    ):
        yield browser
        await until(lambda: not len(served.state.watchers))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LINGER_SECONDS", 0.3)


async def address_of(run: mull.Run[Any]) -> str:
    return f"/runs/{(await run.handle.describe()).run_id}"


async def test_a_run_that_ended_shows_its_answer_and_has_no_stream(client: Client) -> None:
    """It has no buttons either, and only settings that were chosen stand open."""
    async with polling(client, ScriptedModel(sample=["129"] * 5)), browsing(client) as browser:
        run = await mull.Client(client).start("ask", question="How <b>much</b>?", max_responses=5)
        await run.result()
        shown = await browser.get(await address_of(run))

    assert shown.status_code == 200
    assert '<p class="answer"><bdi>129</bdi>' in shown.text
    assert "How &lt;b&gt;much&lt;/b&gt;?" in shown.text
    assert "hx-sse:connect" not in shown.text
    assert "<form" not in shown.text.partition("<main")[2]
    assert "<title>How &lt;b&gt;much&lt;/b&gt;?" in shown.text


async def test_a_run_that_goes_on_is_sent_as_it_changes(client: Client) -> None:
    """From the page that is shown to the end, after which the stream is closed."""
    held = asyncio.Event()
    model = ScriptedModel(sample=["129"] * 5, held=held)
    async with polling(client, model), browsing(client) as browser:
        run = await mull.Client(client).start("ask", question="How much?")
        await until(lambda: model.calls)
        shown = await browser.get(await address_of(run))
        [stream] = re.findall(r'hx-sse:connect="([^"]+)"', shown.text)
        async with browser.stream("GET", stream) as response:
            held.set()
            lines = [line async for line in response.aiter_lines()]

    assert response.headers["content-type"].startswith("text/event-stream")
    assert f"{await address_of(run)}/finish" in shown.text
    assert 'data: <p class="answer"><bdi>129</bdi>' in "\n".join(lines)
    assert "event: ended" in lines


async def test_a_person_ends_a_run_from_its_page(client: Client) -> None:
    """The proxy's name for them stands in the decision."""
    model = ScriptedModel(write=["A note."], judge=[0.3])
    async with polling(client, model), browsing(client) as browser:
        run = await mull.Client(client).start(
            "reflect", query=QUERY, guardrails=[], review_below=0.9, max_revisions=0
        )
        await until(run.look, lambda seen: seen.step == "waiting_for_review")
        place = await address_of(run)
        foreign = await browser.post(f"{place}/finish", headers={"Origin": "https://evil.example"})
        done = await browser.post(f"{place}/finish", headers=SENT)
        result = await run.result()
        again = await browser.post(f"{place}/finish", headers=SENT)

    assert (foreign.status_code, done.status_code, done.headers["location"]) == (403, 303, place)
    assert result.decisions[-1].author == "ann"
    assert again.status_code == 400
    assert "has already ended" in again.text


async def test_a_run_is_cancelled_from_its_page_unless_that_is_read_only(client: Client) -> None:
    """Its page then says so first."""
    held = asyncio.Event()
    async with polling(client, ScriptedModel(sample=["7"] * 5, held=held)):
        run = await mull.Client(client).start("ask", question="How much?")
        place = await address_of(run)
        async with browsing(client, read_only=True) as browser:
            shown = await browser.get(place)
            refused = await browser.post(f"{place}/cancel", headers=SENT)
        async with browsing(client) as browser:
            done = await browser.post(f"{place}/cancel", headers=SENT)
            with pytest.raises(mull.RunCancelledError):
                await run.result()
            ended = await browser.get(place)

    assert "/cancel" not in shown.text
    assert (refused.status_code, done.status_code) == (403, 303)
    assert "the run was cancelled" in ended.text


async def test_a_failed_run_shows_its_error_first(client: Client) -> None:
    """Then what to do about it."""
    refused = PermanentModelError("no such <key>", "AuthenticationError")
    async with polling(client, ScriptedModel(sample=[refused] * 3)), browsing(client) as browser:
        run = await mull.Client(client).start("ask", question="How much?", max_responses=3)
        with pytest.raises(mull.RunFailedError):
            await run.result()
        shown = await browser.get(await address_of(run))

    head = shown.text.partition("<main")[2]
    assert "AuthenticationError: no such &lt;key&gt;" in head
    assert "mull doctor" in head.partition("no such")[2]
    assert "hx-sse:connect" not in head


@pytest.mark.parametrize("wrong", ["60a3ef40-a8e1-4367-9851-738454e7382d", "no-run", "' OR '1'='1"])
async def test_an_address_of_no_run_says_so(
    client: Client, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is not a run id never reaches the server's filter."""
    monkeypatch.setattr("commands.web.run.LISTED_SECONDS", 0.2)
    async with browsing(client) as browser:
        shown = await browser.get(f"/runs/{wrong}")

    assert shown.status_code == 404
