"""The codec server: who may ask it, what it answers, and what a browser lets through."""

import zlib
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import pytest
import typer
from aiohttp import FormData
from aiohttp.test_utils import TestClient, TestServer
from google.protobuf.json_format import MessageToDict, ParseDict
from temporalio.api.common.v1 import Payload, Payloads

from commands.codec import BODY_BYTES, CodecServer, codec
from mull.connection import EXPANDED_BYTES, ZLIB
from tests.unit.test_encryption import PLAIN, RUN, codec_of, of_activity

TOKEN, WEB_UI = "a-token-of-24-characters", "http://localhost:8233"
KNOWN = {"Authorization": f"Bearer {TOKEN}", "X-Namespace": "default"}
Asked = TestClient[Any, Any]


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    server = CodecServer(codec_of("main-1"), TOKEN, WEB_UI)
    async with TestClient(TestServer(server.application())) as found:
        yield found


def body(*payloads: Payload) -> dict[str, Any]:
    return MessageToDict(Payloads(payloads=payloads))


def compressed(payload: Payload) -> Payload:
    data = zlib.compress(payload.SerializeToString())
    return Payload(metadata={"encoding": ZLIB}, data=data)


async def test_payloads_are_decrypted_and_decompressed(asked: Asked) -> None:
    """In their order; what is neither comes back as it was."""
    [inner, plain] = await codec_of("main-1").encode([compressed(PLAIN), PLAIN])
    answer = await asked.post(
        "/decode", json=body(inner, plain, compressed(PLAIN), PLAIN), headers=KNOWN
    )

    assert answer.status == 200
    found = ParseDict(await answer.json(), Payloads())
    assert list(found.payloads) == [PLAIN] * 4


async def test_what_was_encrypted_for_any_run_is_shown(asked: Asked) -> None:
    """The server knows no run to compare it with; `temporal` prints what has no more metadata."""
    places = (RUN, of_activity("mull-llm"))
    sealed = [each for place in places
              for each in await codec_of("main-1").with_context(place).encode([PLAIN])]  # fmt: skip
    answer = await asked.post("/decode", json=body(*sealed), headers=KNOWN)

    assert list(ParseDict(await answer.json(), Payloads()).payloads) == [PLAIN] * 2


async def test_payloads_are_encrypted_for_who_starts_a_run(asked: Asked) -> None:
    """Temporal's command line sends the input of a run it starts."""
    answer = await asked.post("/encode", json=body(PLAIN), headers=KNOWN)
    sealed = ParseDict(await answer.json(), Payloads())
    again = await asked.post("/decode", json=MessageToDict(sealed), headers=KNOWN)

    assert sealed.payloads[0].metadata["encoding"] == b"binary/encrypted"
    assert ParseDict(await again.json(), Payloads()).payloads[0] == PLAIN


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Authorization": TOKEN}, {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": "mull_codec=other"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/decode", "/encode"])
async def test_who_shows_no_token_gets_nothing(
    asked: Asked, headers: dict[str, str], path: str
) -> None:
    """Neither to read nor to write."""
    answer = await asked.post(path, json=body(PLAIN), headers=headers)

    assert answer.status == 401
    assert TOKEN not in await answer.text()


async def test_a_browser_shows_the_token_once(asked: Asked) -> None:
    """On the server's own page; its cookie is kept from scripts, and from other sites."""
    page = await (await asked.get("/")).text()
    wrong = await asked.post("/session", data=FormData({"token": "other"}))
    missing = await asked.post("/session", data=FormData({"x": "y"}))
    right = await asked.post("/session", data=FormData({"token": TOKEN}))
    cookie = right.headers["Set-Cookie"]
    shown = {"Cookie": cookie.partition(";")[0]}
    answer = await asked.post("/decode", json=body(PLAIN), headers=shown)

    assert 'name="token" type="password"' in page
    assert [wrong.status, missing.status, right.status, answer.status] == [401, 401, 200, 200]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


@pytest.mark.parametrize(
    ("origin", "named"),
    [
        (WEB_UI, "content-type,x-namespace"),
        (WEB_UI, "authorization,authorization-extras,content-type,x-namespace"),
        ("http://127.0.0.1:8233", "content-type,x-namespace"),
    ],
)
async def test_the_web_ui_reads_in_a_browser(asked: Asked, origin: str, named: str) -> None:
    """As Chromium asks for it: first what it may send, without a token, and then with its cookie.

    This machine has two names. A Web UI with logins shows its own bearer too.
    """
    wants = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": named}
    path, cookie = "/decode?preserveStorageRefs=true", {"Cookie": f"mull_codec={TOKEN}"}
    shown = {"X-Namespace": "default", "Authorization": "Bearer of-a-login"} | cookie
    first = await asked.options(path, headers=wants | {"Origin": origin})
    then = await asked.post(path, json=body(PLAIN), headers=shown | {"Origin": origin})

    assert [first.status, then.status] == [200, 200]
    allowed = first.headers["Access-Control-Allow-Headers"].lower().split(", ")
    assert set(named.split(",")) <= set(allowed)
    for answer in (first, then):
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"


async def test_why_a_caller_is_refused_is_said(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do: the Web UI itself shows only that it could not connect."""
    await asked.post("/decode", json=body(PLAIN), headers={"Authorization": "Bearer other"})
    other = capsys.readouterr().err
    await asked.post("/decode", json=body(PLAIN))
    none = capsys.readouterr().err

    assert "another token" in other
    assert "include cross-origin credentials" in none
    assert "localhost is not 127.0.0.1" in none


@pytest.mark.parametrize(
    "origin", [WEB_UI, "http://elsewhere.example", "http://localhost:8234", "null"]
)
async def test_only_the_web_ui_may_read(asked: Asked, origin: str) -> None:
    """A browser refuses each other page what is answered; errors are read too."""
    wants = {"Access-Control-Request-Method": "POST", "Origin": origin}
    first = await asked.options("/decode", headers=wants)
    then = await asked.post("/decode", json=body(PLAIN), headers={**KNOWN, "Origin": origin})
    refused = await asked.post("/decode", json={}, headers={"Origin": origin})

    assert [first.status, then.status, refused.status] == [200, 200, 401]
    allowed = WEB_UI if origin == WEB_UI else None
    for answer in (first, then, refused):
        assert answer.headers.get("Access-Control-Allow-Origin") == allowed
        assert answer.headers["Vary"] == "Origin"
    credentials = first.headers.get("Access-Control-Allow-Credentials")
    assert credentials == ("true" if allowed else None)
    assert ("Access-Control-Allow-Headers" in first.headers) == (allowed is not None)


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        (b"{", 400, "Expected JSON of payloads"),
        (b"[" * 100_000, 400, "Expected JSON of payloads"),
        (b'{"payloads": [{"data": 1}]}', 400, "Expected JSON of payloads"),
        (b"\xff", 400, "Expected JSON of payloads"),
        (b" " * (BODY_BYTES + 1), 413, ""),
    ],
)
async def test_what_is_no_request_is_refused(
    asked: Asked, sent: bytes, status: int, said: str
) -> None:
    """Whatever its shape or its size."""
    answer = await asked.post("/decode", data=BytesIO(sent), headers=KNOWN)

    assert answer.status == status
    assert said in await answer.text()


async def test_what_can_t_be_decoded_is_refused(asked: Asked) -> None:
    """A key that is missing is named by its id; a small request can hold much, decompressed."""
    [sealed] = await codec_of("main-2").encode([PLAIN])
    much = compressed(Payload(metadata=PLAIN.metadata, data=bytes(EXPANDED_BYTES - 100)))
    answer = await asked.post("/decode", json=body(sealed), headers=KNOWN)
    endless = await asked.post("/decode", json=body(*[much] * 5), headers=KNOWN)

    assert [answer.status, endless.status] == [400, 400]
    assert "encrypted with the key 'main-2', which is not among the keys" in await answer.text()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "set MULL_CODEC_TOKEN to at least 16 characters"),
        ({"MULL_CODEC_TOKEN": "short"}, "set MULL_CODEC_TOKEN to at least 16 characters"),
        ({"MULL_CODEC_TOKEN": TOKEN, "MULL_ENCRYPTION_KEYS": "x"}, "key 1 of 1 is malformed"),
    ],
)
def test_without_a_token_or_with_broken_keys_it_does_not_start(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """One line, and exit code 2."""
    monkeypatch.delenv("MULL_CODEC_TOKEN", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(typer.Exit) as ended:
        codec()

    assert ended.value.exit_code == 2
    assert said in capsys.readouterr().err
