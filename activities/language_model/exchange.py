"""The one HTTP exchange of a call, bounded and never redirected, and reading its reply."""

import asyncio
import json
import re
import ssl
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx
from aiohttp import ClientConnectorError, ClientOSError

from activities.language_model.errors import causes
from activities.language_model.port import SENT, ModelCall, ModelReply, OnText, SampleError
from mull import replies
from mull.run import Spending
from mull.text import well_formed
from mull.turn.tools import MOST_CALLS, AskedCall

MOST_ERROR_BYTES = 16 * 2**10
# A token may come in an event of 500 bytes.
MOST_EVENTS_BYTES = 16 * replies.MOST_REPLY_BYTES
# How an error says that replies are not streamed.
_NOT_STREAMED = re.compile(rb"\bstream", re.IGNORECASE)
MOST_NAME = 1_000
# Python can't read integers of over 4,300 digits.
MOST_DIGITS = 100
MOST_TOKENS = 10**9
SHOWN_BYTES = 120
CODINGS = ("gzip", "deflate")
ENCODED = {"content-encoding", "content-length", "transfer-encoding"}


@dataclass
class Exchange:
    """What one call sent and got so far; `failed` says in words why its reply is not usable.

    With `on_text` the call asks for events, and passes on the text so far as it grows.
    `unreachable` is the error by which the connection failed. `stray` names what would lead a
    request to another provider, and `refused` is its answer for a request that was not sent.
    A `lost` reply was too large to be read; `calls_left_out` counts the calls left out of another.
    """

    on_text: OnText | None = None
    stray: Callable[[httpx.Request], str] = lambda _: ""
    refused: str = ""
    address: str = ""
    status: int = 0
    body: bytes = b""
    failed: str = ""
    lost: bool = False
    calls_left_out: int = 0
    unreachable: Exception | None = None

    def begin(self, request: httpx.Request) -> None:
        """Raise an error unless the request may be sent: some LiteLLM clients retry at once."""
        self.refused = self.stray(request)
        if self.unreachable or self.refused:
            raise self.unreachable or ValueError(self.refused)

    def tell(self, line: str) -> str:
        """Describe the answer, with the provider's own words for an error status."""
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
    if (exchange := EXCHANGE.get()) is None:  # not a model's: others may read it in pieces
        return await send(request)
    exchange.begin(request)
    exchange.address = str(request.url.copy_with(username=None, password=None, query=None))
    request.headers["Accept-Encoding"] = ", ".join(CODINGS)
    SENT.get()()
    asked = streamed(request) if exchange.on_text else None
    try:
        response = await _answer(exchange, await send(asked or request))
        refused = 400 <= exchange.status < 500 or exchange.status == 501
        if asked and refused and _NOT_STREAMED.search(exchange.body):
            response = await _answer(exchange, await send(request))
    except Exception as error:
        broken = "broke off its reply" if exchange.status else "can't be reached"
        exchange.failed = str(error) if type(error) is ValueError else f"{broken}: {_why(error)}"
        exchange.unreachable = error if not exchange.status and _is_unreachable(error) else None
        raise
    kept = [pair for pair in response.headers.multi_items() if pair[0].lower() not in ENCODED]
    return httpx.Response(exchange.status, headers=kept, content=exchange.body, request=request)


async def _answer(exchange: Exchange, response: httpx.Response) -> httpx.Response:
    """Read an answer; gather a reply in events into one body. Raises ValueError for a redirect."""
    exchange.status, kind = response.status_code, response.headers.get("Content-Type", "")
    most = replies.MOST_REPLY_BYTES if exchange.status < 400 else MOST_ERROR_BYTES
    has_events = exchange.status < 300 and kind.startswith("text/event-stream")
    on_text = exchange.on_text if has_events else None
    try:
        if 300 <= exchange.status < 400:
            to = re.match(r"\w+://(?:[^/@]*@)?([\w.-]+)", response.headers.get("Location", ""))
            answered = f"answered {exchange.status}, a redirect{f' to {to[1]}' if to else ''}"
            raise ValueError(f"{answered}, and redirects are not followed: set the final address")
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - of an async client
        read = pieces(response.stream, response.headers, MOST_EVENTS_BYTES if on_text else most)
        if on_text:
            body = await gather(read, on_text)
            response.headers["Content-Type"] = "application/json"
        else:
            body = b"".join([piece async for piece in read])
        exchange.body = _usable(body, exchange) if exchange.status < 400 else body[:most]
    finally:
        await response.aclose()
    return response


def streamed(request: httpx.Request) -> httpx.Request | None:
    """Build the request for the same reply in events; None if it is not in OpenAI's form."""
    if not request.url.path.endswith("/chat/completions"):
        return None
    try:
        body = json.loads(request.content) | {"stream": True}
    except (ValueError, TypeError, httpx.RequestNotRead):
        return None
    headers = request.headers.copy()
    del headers["Content-Length"]
    # Compressed events may arrive only after all are written.
    headers["Accept-Encoding"] = "identity"
    return httpx.Request(
        request.method,
        request.url,
        headers=headers,
        content=json.dumps(body | {"stream_options": {"include_usage": True}}).encode(),
        extensions=request.extensions,
    )


async def gather(pieces: AsyncIterator[bytes], on_text: OnText) -> bytes:
    """Read events into one body, and pass on the text so far each time that it grows.

    Return an error among the events, or one that is too large to be read, as the body. Raises
    httpx.RemoteProtocolError for a reply without an end: a part of an answer is not usable.
    """
    reply, line = _Reply(), b""
    async for piece in pieces:
        *lines, line = (line + piece).split(b"\n")
        before = len(reply.parts)
        for data in (one[5:].strip() for one in lines if one.startswith(b"data:")):
            if data == b"[DONE]":
                return reply.body()
            if replies.is_heavy(data) or reply.take(data):
                return data
        if len(reply.parts) > before:
            on_text(reply.text)
        if replies.is_heavy(line):
            return line
    return reply.body()


class _Reply:
    """The first choice of a completion, as far as it has come."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[Any] = []
        self._begun: dict[int | None, dict[str, Any]] = {}
        self._finish: object = None
        self._whole: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The text so far."""
        self.parts = ["".join(self.parts)]
        return self.parts[0]

    def take(self, data: bytes) -> bool:
        """Add an event to the reply; return True if it is an error instead."""
        event: Any = None
        with suppress(ValueError, RecursionError):
            event = json.loads(replies.shallow(data))
        if not isinstance(event, dict):
            raise httpx.RemoteProtocolError("an event can't be read")
        if event.get("error") or event.get("object") == "error":
            return True
        choices = event.pop("choices", None)
        self._whole |= {name: value for name, value in event.items() if value is not None}
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and not choice.get("index"):
                self._finish = choice.get("finish_reason") or self._finish
                said = choice.get("delta") or choice.get("message")
                self._add(said if isinstance(said, dict) else {})
        return False

    def _add(self, said: dict[str, Any]) -> None:
        content, refusal, calls = said.get("content"), said.get("refusal"), said.get("tool_calls")
        for part in content if isinstance(content, list) else [{"text": content}]:
            text = part.get("text") if isinstance(part, dict) else None
            self.parts += [text] if isinstance(text, str) and text else []
        self._refusal += [refusal] if isinstance(refusal, str) else []
        for call in calls if isinstance(calls, list) else [calls] if calls else []:
            self._add_call(call)

    def _add_call(self, call: Any) -> None:
        """Add a part to its call: by its index or, without one, to the last call."""
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            self._calls.append(call)
            return
        index, own, name = call.get("index"), call.get("id"), function.get("name")
        index = index if isinstance(index, int) else None
        begun = self._begun.get(index)
        # Some servers give several calls the index 0, or no index.
        other = name and (index is None or (own and begun and own != begun.get("id")))
        if begun is None or other:
            self._begun[index] = call
            self._calls.append(call)
            return
        begun["id"], kept = begun.get("id") or own, begun["function"]
        kept["name"] = kept.get("name") or name
        if isinstance(more := function.get("arguments"), str):
            kept["arguments"] = f"{kept.get('arguments') or ''}{more}"

    def body(self) -> bytes:
        """Write the reply as one completion."""
        if self._finish is None:
            raise httpx.RemoteProtocolError("the events end before the reply does")
        refusal = "".join(self._refusal)
        # The others are only counted: together they might be too large.
        calls = [*self._calls[:MOST_CALLS], *({"function": 0} for _ in self._calls[MOST_CALLS:])]
        said = {"content": self.text, "refusal": refusal, "tool_calls": calls}
        message = {"role": "assistant"} | {name: part or None for name, part in said.items()}
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        whole = self._whole | {"object": "chat.completion", "choices": [choice]}
        return json.dumps(whole).encode()


def _is_unreachable(error: Exception) -> bool:
    """Tell whether connecting failed: it was refused, or the host is unknown or unreachable."""
    broken = (ssl.SSLError, ConnectionResetError)
    # LiteLLM's adapter of aiohttp reports any broken connection as one that could not be made.
    return isinstance(error, httpx.ConnectError) and not any(
        isinstance(cause, broken)
        or (isinstance(cause, ClientOSError) and not isinstance(cause, ClientConnectorError))
        for cause in causes(error)
    )


def _why(error: Exception) -> str:
    """Describe what broke: the system's errors in its own words, a parser's in ours."""
    if isinstance(error, UnicodeError):
        return "its headers can't be read"
    if isinstance(error, zlib.error):
        return "it can't be unpacked"
    if any(isinstance(cause, OSError) for cause in causes(error)):
        return str(error) or type(error).__name__
    return "the reply is incomplete, or is not HTTP"


async def pieces(
    body: AsyncIterable[bytes], headers: Mapping[str, str], most: int, until: float | None = None
) -> AsyncIterator[bytes]:
    """Yield the unpacked pieces of a body, of at most `most` + 1 bytes together.

    Raises ValueError for a coding that was not asked for, zlib.error, and TimeoutError after
    `until`, by the clock of the event loop.
    """
    room, coding = most + 1, headers.get("Content-Encoding", "").lower()
    if coding not in (*CODINGS, "identity", ""):
        raise ValueError(f"answered in the coding {coding[:20]!r}, which was not asked for")
    # 32 more than the largest window: accept a header of gzip or of zlib.
    decoder = None if coding not in CODINGS else zlib.decompressobj(zlib.MAX_WBITS + 32)
    chunks = aiter(body)
    while room and not (decoder and decoder.eof):
        async with asyncio.timeout_at(until):
            if (chunk := await anext(chunks, None)) is None:
                return
        piece = decoder.decompress(chunk, room) if decoder else chunk[:room]
        room -= len(piece)
        yield piece


def _usable(body: bytes, exchange: Exchange) -> bytes:
    """Refuse a reply that is too large, and mend the parts of a paid one that LiteLLM can't read.

    LiteLLM would refuse all of it for a wrong usage, a text in parts or a tool call in another
    shape, and search its list for a long name for seconds.
    """
    exchange.lost = replies.is_heavy(body)
    read, whole = b"" if exchange.lost else replies.shallow(body), None
    with suppress(ValueError, RecursionError):
        whole = json.loads(read, parse_int=_integer)
    if replies.has_too_many_values(whole):
        exchange.calls_left_out = replies.leave_out_calls(whole, MOST_CALLS)
        exchange.lost = replies.has_too_many_values(whole)
    if exchange.lost:
        raise ValueError(f"answered {exchange.status} with a reply that is too large")
    if not isinstance(whole, dict):
        return body
    names = {name: whole[name] for name in ("id", "model") if isinstance(whole.get(name), str)}
    mended = {name: cut for name, given in names.items() if (cut := given[:MOST_NAME]) != given}
    if not _has_whole_counts(whole.get("usage")):
        mended["usage"] = None
    changed = _mend_messages(whole.get("choices")) or exchange.calls_left_out
    return json.dumps(whole | mended).encode() if mended or changed else read


def _mend_messages(choices: object) -> bool:
    """Join texts in parts, and give each tool call its shape; tell whether anything was changed."""
    changed = False
    for choice in choices if isinstance(choices, list) else ():
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            continue
        if isinstance(parts := message.get("content"), list):
            texts = [part.get("text") for part in parts if isinstance(part, dict)]
            message["content"] = "".join(text for text in texts if isinstance(text, str))
            changed = True
        if calls := message.get("tool_calls"):
            listed = calls if isinstance(calls, list) else [calls]
            message["tool_calls"] = list(map(_shaped_call, listed))
            changed |= message["tool_calls"] != calls
    return changed


def _shaped_call(call: object) -> dict[str, object]:
    """Give a tool call the shape that it should have, and keep its arguments as text."""
    known = call if isinstance(call, dict) else {"function": {"arguments": call}}
    function = known.get("function")
    function = function if isinstance(function, dict) else {"arguments": function}
    given, name, own = function.get("arguments"), function.get("name"), known.get("id")
    written = given if isinstance(given, str) else "" if given is None else json.dumps(given)
    # LiteLLM parses the arguments too.
    read = replies.shallow(written.encode(errors="surrogatepass")).decode(errors="surrogatepass")
    shaped = {"name": name if isinstance(name, str) else "", "arguments": read}
    identity = {"id": own if isinstance(own, str) else None, "type": "function"}
    return {**known, **identity, "function": {**function, **shaped}}


def _integer(digits: str) -> int | float:
    """Read a whole number of any length."""
    return int(digits) if len(digits) <= MOST_DIGITS else float(digits)


def _has_whole_counts(usage: object) -> bool:
    """Tell whether every count of tokens is a whole number, or is missing."""
    if not isinstance(usage, dict):
        return usage is None
    counts = [value for name, value in usage.items() if name.endswith("_tokens")]
    return all(count is None or type(count) is int for count in counts)


def read_reply(response: Any, call: ModelCall, cost: float | None, **known: Any) -> ModelReply:
    """Read a chat completion in OpenAI's form; `known` are further fields of the reply.

    Raises SampleError if it has no choices, or if the first was filtered, refused, empty, a tool
    call without tools being offered, or cut off (unless `keep_cut`).
    """
    spending = read_spending(response, cost)
    if not response.choices:
        line = "the provider replied without any choice"
        raise SampleError(line, "EmptyReply", spending=spending)
    choice = response.choices[0]
    if lost := _lost(choice, call, spending):
        error = SampleError(*lost, spending=spending, finish_reason=choice.finish_reason)
        error.refusal = _refusal(choice.message)
        raise error
    exchange = EXCHANGE.get() or Exchange()
    return ModelReply(
        text=choice.message.content or "",
        finish_reason=choice.finish_reason,
        spending=spending,
        response_id=response.id or None,
        calls=tuple(map(_asked, choice.message.tool_calls or ())) if call.tools else (),
        calls_left_out=exchange.calls_left_out if call.tools else 0,
        **known,
    )


def _asked(call: Any) -> AskedCall:
    """Read a tool call as the model wrote it, even with parts missing."""
    return AskedCall(
        id=call.id and well_formed(call.id),
        name=well_formed(call.function.name or ""),
        arguments=well_formed(call.function.arguments or ""),
    )


def _lost(choice: Any, call: ModelCall, spending: Spending) -> tuple[str, str] | None:
    """Return why a reply is lost, and of which kind that is; None for a usable reply."""
    message = choice.message
    calls = getattr(message, "tool_calls", None)
    written = (message.content or "").strip()
    thought = not written or (written.startswith("<think>") and "</think>" not in written)
    empty = not written and not (calls and call.tools)
    if choice.finish_reason == "content_filter":
        return "the provider's content filter took the reply", "ContentPolicyViolationError"
    if _refusal(message):
        return "the model refused to answer", "Refusal"
    if choice.finish_reason == "length" and not (calls and call.tools and call.keep_cut):
        after = f"the reply was cut off after {spending.output_tokens or 'its'} tokens"
        if thought:
            return f"{after}, while the model was thinking: raise {call.usual.field}", "CutOff"
        if not call.keep_cut:
            return f"{after}: raise {call.usual.field}", "CutOff"
    if empty and calls:
        return "the reply calls a tool, but no tools were offered", "BrokenToolCall"
    return ("the reply is empty", "EmptyReply") if empty else None


def _refusal(message: Any) -> str:
    """Return the words in which a model refused; empty if it did not."""
    fields = getattr(message, "provider_specific_fields", None) or {}
    said = getattr(message, "refusal", None) or fields.get("refusal")
    return said if isinstance(said, str) else "it gave no reason" if said else ""


def read_spending(response: Any, cost: float | None) -> Spending:
    """Read the tokens of one call. LiteLLM's 0 and 0 means that the provider did not count."""
    usage = getattr(response, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    sent, received = _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")
    if not sent and not received:
        return Spending(calls=1)
    return Spending(
        calls=1,
        input_tokens=sent,
        output_tokens=received,
        cached_tokens=_tokens(details, "cached_tokens"),
        cost_usd=None if sent is None or received is None else cost,
    )


def _tokens(counted: object, name: str) -> int | None:
    """Return a count of tokens; None (unknown) for a count that a call can't reach."""
    count = getattr(counted, name, None)
    return count if isinstance(count, int) and 0 <= count <= MOST_TOKENS else None
