"""The one HTTP exchange of a call: bounded in size, never redirected, and told in words."""

import zlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass

import httpx

MOST_BYTES = 16 * 2**20
MOST_ERROR_BYTES = 64 * 2**10
# A reply has one choice, and embeddings come by the 64. LiteLLM takes 20 µs for each object.
MOST_OBJECTS = 50_000
SHOWN_BYTES = 120
CODINGS = ("gzip", "deflate")
ENCODED = {"content-encoding", "content-length", "transfer-encoding"}


@dataclass
class Exchange:
    """What one call sent and got so far; `failed` says in words why nothing usable came."""

    address: str = ""
    status: int = 0
    body: bytes = b""
    failed: str = ""

    def tell(self, line: str) -> str:
        """Say what came, with a provider's own words for an error status."""
        if self.failed or not self.status:
            return self.failed or line
        begins = self.body[:SHOWN_BYTES].decode(errors="replace").strip() or "an empty body"
        if self.status >= 400:
            return f"answered {self.status}: {line if self.body.strip() else begins}"
        return f"answered {self.status} with no usable reply: {begins}"


EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


async def bounded(
    request: httpx.Request, send: Callable[[httpx.Request], Awaitable[httpx.Response]]
) -> httpx.Response:
    """Send a request, and read the whole reply within its bounds; an error's body is cut.

    Raises ValueError for a redirect, a coding that was not asked for, and too large a reply.
    """
    exchange = EXCHANGE.get() or Exchange()
    exchange.address = str(request.url.copy_with(username=None, password=None, query=None))
    request.headers["Accept-Encoding"] = ", ".join(CODINGS)
    try:
        response = await send(request)
        exchange.status = response.status_code
        try:
            exchange.body = await _read(response)
        finally:
            await response.aclose()
    except Exception as error:
        broken = "broke off its reply" if exchange.status else "can't be reached"
        refused = type(error) is ValueError
        exchange.failed = str(error) if refused else f"{broken}: {error or type(error).__name__}"
        raise
    kept = [pair for pair in response.headers.multi_items() if pair[0].lower() not in ENCODED]
    return httpx.Response(exchange.status, headers=kept, content=exchange.body, request=request)


async def _read(response: httpx.Response) -> bytes:
    status, coding = response.status_code, response.headers.get("Content-Encoding", "identity")
    if 300 <= status < 400:
        host = httpx.URL(response.headers.get("Location", "")).host
        line = "and redirects are not followed: set the address that answers itself"
        raise ValueError(f"answered {status}, a redirect{f' to {host}' if host else ''}, {line}")
    if coding.lower() not in (*CODINGS, "identity"):
        raise ValueError(f"answered in the coding {coding[:20]!r}, which was not asked for")
    most, body = MOST_BYTES if status < 400 else MOST_ERROR_BYTES, bytearray()
    # 32 more than the largest window: a header of gzip or of zlib, whichever came.
    decoder = None if coding == "identity" else zlib.decompressobj(zlib.MAX_WBITS + 32)
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - of an async client
    async for chunk in response.stream:
        room = most + 1 - len(body)
        body += decoder.decompress(chunk, room) if decoder else chunk[:room]
        if len(body) > most:
            break
    if status < 400 and (len(body) > most or body.count(b"{") > MOST_OBJECTS):
        raise ValueError(f"answered {status} with more than a reply can be")
    return bytes(body[:most])
