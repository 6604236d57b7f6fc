"""`codec`: a server that decrypts payloads for Temporal's Web UI and command line."""

import hmac
import os
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from aiohttp import web
from google.protobuf import json_format
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import PayloadCodec

from commands.command import fail, tell
from mull.connection import EXPANDED_BYTES, chosen_codec, expanded
from mull.errors import ConfigurationError
from mull.keys import ENCRYPTED, UnreadableError

VARIABLE = "MULL_CODEC_TOKEN"
SHORTEST = 16
COOKIE = "mull_codec"
# A page of events holds a few payloads of 2 MiB at the most, in base64.
BODY_BYTES = 16 * 2**20
# What one answer may hold, decompressed.
ANSWER_BYTES = 4 * EXPANDED_BYTES
NOT_SHOWN = """no token. For the Web UI enter it on the page here, include cross-origin credentials,
and reach both by the same name: localhost is not 127.0.0.1"""
NAMES = ("localhost", "127.0.0.1")
ASKED = "Authorization, Authorization-Extras, Content-Type, X-Namespace"
CORS = {"Access-Control-Allow-Credentials": "true", "Access-Control-Allow-Headers": ASKED}
PAGE = """<!doctype html><title>mull codec</title><form method="post" action="/session">
<label>Token <input name="token" type="password"></label> <button>Let the Web UI read</button>"""


def codec(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port to listen at.")] = 8088,
    origin: Annotated[
        str, typer.Option(metavar="URL", envvar="MULL_WEB_UI", help="Where the Web UI is.")
    ] = "http://localhost:8233",
) -> None:
    r"""Decrypt payloads for Temporal's Web UI and command line.

    It needs the workers' keys, and MULL_CODEC_TOKEN: whoever has this token can read
    everything. For a browser, enter it on the server's own page; only the Web UI at --origin
    can read then.

    For example:

        mull codec --origin http://localhost:8233
        temporal workflow show -w ID --codec-auth "Bearer TOKEN" \
            --codec-endpoint http://localhost:8088

    It stops at Ctrl-C. Exit codes: 0 stopped, 2 wrong usage.
    """
    token = os.environ.get(VARIABLE, "")
    if len(token) < SHORTEST:
        fail(f"set {VARIABLE} to at least {SHORTEST} characters.")
    try:
        server = CodecServer(chosen_codec(), token, origin.rstrip("/")).application()
        # To a browser, these two names are two sites.
        name = "localhost" if host == "127.0.0.1" and "//localhost:" in origin else host
        tell(f"codec server at http://{name}:{port} for the Web UI at {origin}; Ctrl-C stops it")
        web.run_app(server, host=host, port=port, print=None, access_log=None)
    except (ConfigurationError, OSError) as error:
        fail(f"{error}.")


class CodecServer:
    """POST /decode and /encode, as Temporal calls them, for callers with the token or its cookie.

    The page at / sets the cookie. In a browser only pages of `origin` may read what is answered,
    by either name of this machine.
    """

    def __init__(self, codec: PayloadCodec | None, token: str, origin: str) -> None:
        self._codec, self._token, self._secure = codec, token, origin.startswith("https:")
        self._origins = {origin.replace("//localhost:", f"//{name}:") for name in NAMES}
        self._origins |= {origin.replace("//127.0.0.1:", f"//{name}:") for name in NAMES}

    def application(self) -> web.Application:
        """Build the server."""
        served = web.Application(client_max_size=BODY_BYTES)
        served.router.add_get("/", self._page)
        served.router.add_post("/session", self._log_in)
        served.router.add_post("/{way:encode|decode}", self._convert)
        served.router.add_options("/{way:encode|decode}", self._page)
        served.on_response_prepare.append(self._allow)
        return served

    async def _page(self, _: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    async def _log_in(self, request: web.Request) -> web.Response:
        given = str((await request.post()).get("token", ""))
        self._check(given)
        done = web.Response(text="The Web UI in this browser may read payloads now.")
        done.set_cookie(COOKIE, given, httponly=True, samesite="Strict", secure=self._secure)
        return done

    async def _convert(self, request: web.Request) -> web.Response:
        _, _, bearer = request.headers.get("Authorization", "").partition("Bearer ")
        # A Web UI with logins may show a bearer of its own beside the cookie.
        self._check(bearer, request.cookies.get(COOKIE, ""))
        encode = request.match_info["way"] == "encode"
        try:
            payloads = list(json_format.Parse(await request.text(), Payloads()).payloads)
            if self._codec is not None:
                payloads = await (self._codec.encode if encode else self._codec.decode)(payloads)
            payloads = payloads if encode else list(_opened(payloads))
        except UnreadableError as error:
            raise web.HTTPBadRequest(text=f"{error}.") from None
        except (json_format.Error, ValueError, RecursionError):
            raise web.HTTPBadRequest(text="Expected JSON of payloads that can be read.") from None
        return web.json_response(json_format.MessageToDict(Payloads(payloads=payloads)))

    def _check(self, *shown: str) -> None:
        right = self._token.encode()
        if not any(hmac.compare_digest(each.encode("utf-8", "replace"), right) for each in shown):
            tell(f"refused a caller: {'another token' if any(shown) else NOT_SHOWN}")
            raise web.HTTPUnauthorized(text=f"Show the token of {VARIABLE}, as a bearer.")

    async def _allow(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Vary"] = "Origin"
        if (origin := request.headers.get("Origin")) in self._origins:
            response.headers.update({"Access-Control-Allow-Origin": origin, **CORS})


def _opened(payloads: Sequence[Payload]) -> Iterator[Payload]:
    """Decompress decrypted payloads. Raises UnreadableError, or ValueError if too large."""
    left = ANSWER_BYTES
    for payload in payloads:
        if payload.metadata.get("encoding") == ENCRYPTED:
            raise UnreadableError(payload)
        yield (plain := expanded(payload))
        left -= plain.ByteSize()
        if left < 0:
            raise ValueError("more than an answer holds")
