"""Who may use OpenAI's interface, and how much: keys and their limits, web pages, large bodies."""

import asyncio
import gc
import json
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from temporalio.client import Client

import mull
from commands.http import application
from commands.http import bearers as places
from commands.http.application import BODY_BYTES
from mull.connection import connect
from mull.quota import quota_id
from tests.conftest import served, until, until_asked
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel
from tests.workflows.serving import KEYS, bearers, browsing, chat, listening, stalled
from tests.workflows.turn import running

FIVE = ["5"] * 10
AT_ONCE = {"mull": {"max_responses": 3}}


async def limited(plain: Any, often: int, **fields: Any) -> list[Any]:
    sent = [plain.post("/chat/completions", json=chat(**AT_ONCE, **fields)) for _ in range(often)]
    return list(await asyncio.gather(*sent))


async def test_two_servers_hold_a_key_to_one_limit(client: Client) -> None:
    """Of eight runs at once three are made; the others may come again soon, and then can."""
    held = asyncio.Event()
    model, known = ScriptedModel(sample=FIVE, held=held), bearers(runs_at_once=3)
    async with (
        served(client, model),
        listening(client, known) as one,
        listening(client, known) as other,
        browsing(one, KEYS["ann"]) as here,
        browsing(other, KEYS["ann"]) as there,
        browsing(other, KEYS["bob"]) as bob,
    ):
        going = [asyncio.create_task(limited(plain, 4)) for plain in (here, there)]
        await until_asked(model, 9)
        await asyncio.sleep(1)
        asked = len(model.calls)
        held.set()
        found = [each for some in going for each in await some]
        his = await limited(bob, 3)
        later = await until(lambda: limited(there, 1), lambda seen: seen[0].status_code == 200)

    assert asked == 9
    assert sorted(one.status_code for one in found) == [200] * 3 + [429] * 5
    refused = next(one for one in found if one.status_code == 429)
    assert refused.headers["Retry-After"] == "5"
    assert refused.json()["error"]["code"] == "runs_at_once"
    assert [one.status_code for one in (*his, *later)] == [200] * 4


async def test_a_key_s_dollars_of_a_day_are_a_run_s_budget(client: Client) -> None:
    """Each reply costs 0.001: a run that would make ten ends with what there is for it."""
    known = bearers(runs_at_once=1, usd_a_day=0.004)
    fields = {"mull": {"max_responses": 10, "min_responses": 10, "max_concurrency": 1}}
    model = ScriptedModel(sample=FIVE)
    async with (
        served(client, model),
        listening(client, known) as address,
        browsing(address, KEYS["ann"]) as ann,
    ):
        first = await ann.post("/chat/completions", json=chat(**fields))
        second = await ann.post("/chat/completions", json=chat(**fields))

    assert (first.status_code, first.json()["mull"]["stop_reason"]) == (200, "budget")
    assert len(model.calls) <= 5
    assert (second.status_code, second.json()["error"]["code"]) == (429, "usd_a_day")
    assert int(second.headers["Retry-After"]) > 5


async def test_fifty_requests_of_a_key_at_once(client: Client) -> None:
    """More than a workflow takes updates at once, and each gets its answer."""
    known = bearers(runs_at_once=60)
    async with (
        served(client, ScriptedModel(sample=FIVE)),
        listening(client, known) as address,
        browsing(address, KEYS["ann"]) as ann,
    ):
        found = await limited(ann, 50)
        left = await until(
            lambda: client.get_workflow_handle(quota_id("ann")).query("quota"),
            lambda seen: not seen.get("places"),
        )

    assert [one.status_code for one in found] == [200] * 50
    assert left["name"] == "ann"


async def test_a_run_whose_client_has_gone_frees_its_place_at_its_end(client: Client) -> None:
    """Nobody has to ask first for another."""
    held = asyncio.Event()
    quota = client.get_workflow_handle(quota_id("ann"))
    async with (
        served(client, model := ScriptedModel(sample=FIVE, held=held)),
        listening(client, bearers(runs_at_once=1)) as address,
        browsing(address, KEYS["ann"]) as ann,
    ):
        going = asyncio.create_task(limited(ann, 1))
        await until_asked(model, 1)
        going.cancel()
        before = await quota.query("quota")
        held.set()
        after = await until(lambda: quota.query("quota"), lambda seen: not seen.get("places"))

    assert len(before["places"]) == 1
    assert after["spent_usd"] > 0


async def test_a_place_is_not_waited_for_without_end(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last worker went away just now."""

    async def polled(_: mull.Client, __: Sequence[str]) -> None: ...

    monkeypatch.setattr(places, "START_SECONDS", 1.0)
    monkeypatch.setattr(mull.Client, "need_workers", polled)
    async with (
        listening(client, bearers()) as address,
        browsing(address, KEYS["ann"]) as ann,
    ):
        found = await ann.post("/chat/completions", json=chat())

    assert (found.status_code, found.headers["x-should-retry"]) == (503, "false")
    said = "The Temporal server did not answer as expected: this server's log says more."
    assert found.json()["error"]["message"] == said


async def test_a_key_asks_its_models_alone(client: Client) -> None:
    """Not even as a judge does a run ask another."""
    known = bearers(models=("mull/ask", "mull/reflect", "mull/reflect:openai/*"))
    judged = chat("mull/reflect", mull={"judges": ["anthropic/x"]})
    async with listening(client, known) as address, browsing(address, KEYS["ann"]) as ann:
        found = [
            await ann.post("/chat/completions", json=sent)
            for sent in (chat("mull/turn"), chat("mull/ask:openai/x"), judged)
        ]

    assert [one.status_code for one in found] == [404] * 3
    assert [one.json()["error"]["code"] for one in found] == ["model_not_found"] * 3
    assert "anthropic/x" in found[2].json()["error"]["message"]


@pytest.mark.parametrize("shown", [None, "ann", "ann-secret-0123456780", "\udcff"])
async def test_without_a_key_nobody_gets_in(client: Client, shown: str | None) -> None:
    async with listening(client, bearers()) as address, browsing(address) as plain:
        bearer = f"Bearer {shown}".encode("utf-8", "surrogateescape")
        headers: dict[bytes, bytes] = {} if shown is None else {b"Authorization": bearer}
        found = [
            await plain.get("/models", headers=headers),
            await plain.post("/chat/completions", json=chat(), headers=headers),
            await plain.get("/elsewhere", headers=headers),
        ]

    assert [one.status_code for one in found] == [401] * 3
    assert found[0].headers["WWW-Authenticate"] == "Bearer"
    assert found[0].json()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "127.0.0.1:1@evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "localhost:1"}, 400),
        ({"Content-Type": "Application/JSON; charset=utf-8"}, 400),
    ],
)
async def test_no_web_page_uses_a_server_without_keys(
    client: Client, headers: dict[str, str], status: int
) -> None:
    """By a name of its own for this machine, by a form, or by a script."""
    known = {"Content-Type": "application/json", **headers}
    async with listening(client) as address, browsing(address) as plain:
        found = await plain.post("/chat/completions", content=b"{}", headers=known)

    assert found.status_code == status
    assert "access-control-allow-origin" not in found.headers


def large() -> bytes:
    return json.dumps(chat(messages=[{"role": "user", "content": "a" * 2_000_000}])).encode()


async def parts() -> Any:
    for at in range(0, len(large()), 100_000):
        yield large()[at : at + 100_000]


@pytest.mark.parametrize("content", [large, parts])
async def test_a_large_body_is_refused(client: Client, content: Callable[[], Any]) -> None:
    """With its length at its head, and without."""
    known = {"Content-Type": "application/json"}
    async with listening(client) as address, browsing(address) as plain:
        found = await plain.post("/chat/completions", content=content(), headers=known)

    assert found.status_code == 413
    assert f"{BODY_BYTES:,}" in found.json()["error"]["message"]


async def test_a_body_that_does_not_come_is_not_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor is one that breaks off an error of the server."""
    monkeypatch.setattr(application, "BODY_SECONDS", 0.2)
    async with listening(client) as address:
        answered = await stalled(f"{address}/chat/completions")

    assert b" 408 " in answered
    assert "Traceback" not in capfd.readouterr().err


PART = b"GET /v1/models HTTP/1.1\r\nHost: "


@pytest.mark.parametrize(("begun", "earlier"), [(b"", 0), (PART, 0), (PART, 2)])
async def test_the_head_of_a_request_is_not_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch, begun: bytes, earlier: int
) -> None:
    """Neither a first one nor a later one, though something of it comes again and again."""
    monkeypatch.setattr(application, "HEAD_SECONDS", 0.5)
    whole = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with listening(client) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(address).port)
        for _ in range(earlier):
            writer.write(whole)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
        await asyncio.sleep(0.7 if earlier else 0)
        for at in range(len(begun)):
            writer.write(begun[at : at + 1])
            await asyncio.sleep(0.05)
        async with asyncio.timeout(PATIENCE):
            # What comes after the end is refused.
            with suppress(ConnectionError):
                assert await reader.read() == b""
        assert reader.at_eof() or reader.exception()
        writer.close()


async def test_a_connection_that_was_closed_is_forgotten(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the head of its next request could be waited for."""
    monkeypatch.setattr(application, "HEAD_SECONDS", 100 * PATIENCE)

    def opened() -> list[weakref.ref[asyncio.Transport]]:
        made = [one for one in gc.get_objects() if isinstance(one, application.Connection)]
        return [weakref.ref(one.transport) for one in made if one.transport]

    async with listening(client) as address:
        _, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(address).port)
        transports = await until(opened)
        writer.close()
        await until(lambda: gc.collect() >= 0 and not any(one() for one in transports))


@pytest.mark.parametrize(
    "content",
    [
        rb'{"model": "mull/ask", "messages": [], "\ud800": 1}',
        rb'{"\ud800": 1, "\ud800": 2}',
        rb'{"model": "mull/ask", "messages": [{"role": "user", "content": [{"type": "\ud800"}]}]}',
    ],
)
async def test_half_a_character_in_a_name_is_refused_by_name(
    client: Client, content: bytes
) -> None:
    """Which is JSON, and for which UTF-8 has no bytes."""
    known = {"Content-Type": "application/json"}
    async with listening(client) as address, browsing(address) as plain:
        found = await plain.post("/chat/completions", content=content, headers=known)

    assert found.status_code == 400
    assert "\ufffd" in found.json()["error"]["message"]


async def test_an_error_of_the_server_s_own_is_in_its_log_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fails(*_: Any) -> None:
        raise ZeroDivisionError("sesame")

    monkeypatch.setattr(mull.Client, "need_workers", fails)
    async with listening(client) as address, browsing(address) as plain:
        found = await plain.post("/chat/completions", json=chat())

    assert (found.status_code, found.headers["x-should-retry"]) == (500, "false")
    assert "sesame" not in found.text
    assert "sesame" in capfd.readouterr().err


async def test_such_an_error_is_the_last_event_of_a_stream(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: Any) -> None:
        raise ZeroDivisionError("sesame")

    monkeypatch.setattr(mull.Run, "result", fails)
    async with (
        served(client, ScriptedModel(sample=FIVE)),
        listening(client) as address,
        browsing(address) as plain,
    ):
        found = await plain.post("/chat/completions", json=chat(stream=True))

    *_, last, done = found.text.split("\n\n")[:-1]
    assert json.loads(last.removeprefix("data: "))["error"]["type"] == "server_error"
    assert done == "data: [DONE]"
    assert "sesame" not in found.text
    assert "sesame" in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/chat/completions", 405), ("GET", "/", 404), ("POST", "/models", 405)],
)
async def test_other_addresses_are_refused_in_openai_s_form(
    client: Client, method: str, path: str, status: int
) -> None:
    async with listening(client) as address, browsing(address) as plain:
        found = await plain.request(method, path, json={})

    assert found.status_code == status
    assert found.json()["error"]["type"] == "invalid_request_error"
    others = {"GET": {"POST"}, "POST": {"GET", "HEAD"}}[method] if status == 405 else {""}
    assert {*found.headers.get("Allow", "").split(", ")} == others
    assert ("/v1/chat/completions" in found.json()["error"]["message"]) == (status == 404)


@pytest.mark.parametrize("key", ["", "a" * 1_001])
async def test_a_header_of_no_use_is_refused(client: Client, key: str) -> None:
    async with listening(client) as address, browsing(address) as plain:
        found = await plain.post("/chat/completions", json=chat(), headers={"Idempotency-Key": key})

    assert found.status_code == 400


async def test_other_addresses_stand_behind_the_same_door(client: Client) -> None:
    """What is mounted beside it knows whose key was shown, and is shown to nobody else."""

    async def whose(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.state.account.name)

    served_too = application.application(mull.Client(client), bearers(), [Route("/whose", whose)])
    transport = httpx.ASGITransport(served_too)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as plain:
        refused = await plain.get("/whose")
        plain.headers["Authorization"] = f"Bearer {KEYS['bob']}"
        his = await plain.get("/whose")

    assert (refused.status_code, his.text) == (401, "bob")


async def test_limits_hold_where_payloads_are_encrypted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers, refusals and what is counted pass through the same codec as all else."""
    del client  # it set the server's address, and ends what this leaves
    running.keyed(monkeypatch)
    sealed, held = await connect(), asyncio.Event()
    model, known = ScriptedModel(sample=FIVE, held=held), bearers(runs_at_once=1, usd_a_day=1)
    async with (
        served(sealed, model),
        listening(sealed, known) as address,
        browsing(address, KEYS["ann"]) as ann,
    ):
        going = asyncio.create_task(limited(ann, 1))
        await until_asked(model, 1)
        [refused] = await limited(ann, 1)
        held.set()
        [found] = await going

    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "runs_at_once")
    assert found.json()["choices"][0]["message"]["content"] == "5"
