"""An OpenAI-compatible server on loopback that replies, and fails, by a script."""

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.patience import PATIENCE

Body = dict[str, Any]


@dataclass(frozen=True)
class Scripted:
    """One reply. `delay` and `drip` are seconds: before the reply, and between its bytes.

    It also waits `until` a function says so.
    `body` replaces the whole body and `choices` the list in it. `usage` None leaves it out. `cut`
    sends half of the body and closes; `reset` answers with a TCP reset.

    A request for a stream gets it in `events`: those given, or the reply in small parts; None: the
    server does not stream. They come at intervals of `drip`, and `cut` leaves out the second half.
    """

    text: str | None = "fine"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    choices: list[Body] | None = None
    finish_reason: str = "stop"
    refusal: str | None = None
    usage: Body | None = field(
        default_factory=lambda: {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    )
    until: Callable[[], bool] = lambda: True
    delay: float = 0.0
    drip: float = 0.0
    cut: bool = False
    reset: bool = False
    events: Sequence[Body | bytes] | None = ()

    def payload(self, model: str) -> bytes:
        """Build the body of a chat completion of `model`."""
        if self.body is not None:
            return self.body
        message = {"role": "assistant", "content": self.text, "refusal": self.refusal}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        whole: Body = {
            "id": "chatcmpl-scripted",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [choice] if self.choices is None else self.choices,
        }
        return json.dumps(whole | ({} if self.usage is None else {"usage": self.usage})).encode()

    def streamed(self, model: str) -> list[bytes]:
        """Build the events of the same completion, or those given, the last one included."""
        whole: Body = json.loads(self.payload(model)) if not self.events else {}
        choices, usage = whole.pop("choices", ()), whole.pop("usage", None)
        chunk = whole | {"object": "chat.completion.chunk", "usage": None}
        parts = [
            chunk | {"choices": [{"index": one["index"], "finish_reason": None} | part]}
            for one in choices
            for part in _parts(one)
        ]
        counted = [chunk | {"choices": [], "usage": usage}] if usage else []
        events = self.events or [*parts, *counted, b"[DONE]"]
        raw = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in events]
        return [b"data: " + one + b"\n\n" for one in raw]


def _parts(choice: Body) -> list[Body]:
    """Part a choice into deltas, as OpenAI does: the head of a call, and then its arguments."""
    message = dict(choice["message"])
    calls, text = message.pop("tool_calls", None) or (), message.pop("content", None) or ""
    deltas: list[Body] = [message | {"content": ""}]
    deltas += [{"content": text[at : at + 4]} for at in range(0, len(text), 4)]
    for index, call in enumerate(calls):
        written = call["function"]["arguments"]
        head = {"index": index, **call, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        for at in range(0, len(written), 4):
            more = {"index": index, "function": {"arguments": written[at : at + 4]}}
            deltas.append({"tool_calls": [more]})
    return [
        *({"delta": delta} for delta in deltas),
        {"delta": {}, "finish_reason": choice["finish_reason"]},
    ]


def failing(status: int, code: str | None = None, message: str = "no", **more: Any) -> Scripted:
    """Build an error as OpenAI words it; `more` are fields of Scripted."""
    error = {"message": message, "type": "scripted", "param": None, "code": code}
    return Scripted(status=status, body=json.dumps({"error": error}).encode(), **more)


Replies = Callable[[Body], "str | Scripted"]
Reply = str | Scripted | Replies


class ScriptedEndpoint:
    """A server that gives `replies` in order, or those of `by_seed` by the request's seed.

    A function gets the parsed request: one among the replies, or one in their place, which replies
    to every request. `by_seed` may be a function of the seed.
    A request beyond the script gets status 500, and leaving the context raises AssertionError.
    """

    def __init__(
        self,
        replies: Sequence[Reply] | Replies = (),
        by_seed: Mapping[int, Reply] | Callable[[int], Reply] | None = None,
    ) -> None:
        self.requests: list[Body] = []
        self.paths: list[str] = []
        self.authorizations: list[str] = []
        self.max_in_flight = 0
        self.hung_up = 0
        self.port = 0
        self._replies = replies if callable(replies) else list(replies)
        self._by_seed = by_seed
        self._in_flight = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._unscripted: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        """The base address, as `api_base` and OPENAI_API_BASE take it."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(PATIENCE):
            raise RuntimeError("the scripted endpoint did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        if kind is None and self._unscripted:
            raise AssertionError(f"{len(self._unscripted)} unscripted: {self._unscripted[0]}")

    def _serve(self) -> None:
        server = self._loop.run_until_complete(
            asyncio.start_server(self._converse, "127.0.0.1", 0, backlog=256)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(self._hang_up())
        self._loop.close()

    async def _hang_up(self) -> None:
        # A connection that was just taken has its writer some turns of the loop later.
        for _ in range(5):
            await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                request = await self._read(reader)
                await self._answer(request, writer, reader)
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Body:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = [line.partition(":") for line in head[1:] if line]
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        body: Body = json.loads(raw or b"{}")
        self.requests.append(body)
        self.paths.append(head[0].split(" ")[1])
        self.authorizations.append(headers.get("authorization", ""))
        return body

    async def _answer(
        self, request: Body, writer: asyncio.StreamWriter, reader: asyncio.StreamReader
    ) -> None:
        reply = self._choose(request)
        self._in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            await asyncio.sleep(reply.delay)
            while not reply.until():
                await asyncio.sleep(0.01)
            self.hung_up += reader.at_eof()
            await _send(reply, request, writer)
        finally:
            self._in_flight -= 1

    def _choose(self, request: Body) -> Scripted:
        try:
            reply = self._next(request)
            chosen = reply(request) if callable(reply) else reply
        except (LookupError, TypeError, ValueError) as error:
            text = f"no scripted reply to request {len(self.requests)}: {error!r}"
            self._unscripted.append(text)
            return failing(500, message=text)
        return Scripted(chosen) if isinstance(chosen, str) else chosen

    def _next(self, request: Body) -> Reply:
        if callable(self._replies):
            return self._replies
        if self._by_seed is None:
            return self._replies.pop(0)
        seed = request["seed"]
        return self._by_seed(seed) if callable(self._by_seed) else self._by_seed[seed]


async def _send(reply: Scripted, request: Body, writer: asyncio.StreamWriter) -> None:
    if reply.reset:
        _reset(writer)
    model = request.get("model", "")
    if request.get("stream") and reply.events is not None and reply.body is None:
        await _send_events(reply, model, writer)
        return
    body = reply.payload(model)
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in {**headers, **reply.headers}.items()]
    writer.write("\r\n".join([f"HTTP/1.1 {reply.status} Scripted", *lines, "", ""]).encode())
    if reply.cut:
        writer.write(body[: len(body) // 2])
        raise ConnectionError("cut as scripted")
    for piece in [body] if not reply.drip else [bytes([byte]) for byte in body]:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(reply.drip)


async def _send_events(reply: Scripted, model: str, writer: asyncio.StreamWriter) -> None:
    """Send events until the connection is closed, as a proxy does that knows of no length."""
    lines = [f"HTTP/1.1 {reply.status} Scripted", "Content-Type: text/event-stream"]
    writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
    events = reply.streamed(model)
    for event in events[: len(events) // 2 if reply.cut else None]:
        writer.write(event)
        await writer.drain()
        await asyncio.sleep(reply.drip)
    raise ConnectionError("closed as scripted")


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a TCP reset, which is what a linger of 0 seconds means."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    raise ConnectionError("reset as scripted")
