"""A reply that comes in server-sent events, put together into the body that comes without them.

So a streamed reply is bounded, mended and read as any other. The form is OpenAI's, which most
providers and servers share; a model behind another form is asked for its reply as a whole.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx

from activities.language_model.port import OnText

# 32 bytes for each token that a call may ask for: more is not read in a moment, and is no answer.
MOST_BYTES = 2**20
# Commas and opening brackets, in texts too: while JSON is read, at 1 µs each, nothing else runs.
MOST_MARKS = 100_000
# A token may come in an event of 500 bytes.
MOST_EVENTS_BYTES = 16 * MOST_BYTES
_REFUSED = re.compile(rb"\bstream", re.IGNORECASE)


def is_heavy(body: bytes) -> bool:
    """Tell whether JSON takes too long to read."""
    return len(body) > MOST_BYTES or sum(map(body.count, (b",", b"[", b"{"))) > MOST_MARKS


def streamed(request: httpx.Request) -> httpx.Request | None:
    """Ask for the same reply in events; None where the request is not in OpenAI's form."""
    if not request.url.path.endswith("/chat/completions"):
        return None
    try:
        body = json.loads(request.content) | {"stream": True}
    except (ValueError, TypeError, httpx.RequestNotRead):
        return None
    headers = request.headers.copy()
    del headers["Content-Length"]
    # Events that are packed come together, or not at all while they are written.
    headers["Accept-Encoding"] = "identity"
    return httpx.Request(
        request.method,
        request.url,
        headers=headers,
        content=json.dumps(body | {"stream_options": {"include_usage": True}}).encode(),
        extensions=request.extensions,
    )


def refuses_events(status: int, body: bytes) -> bool:
    """Tell whether an error says that replies are not streamed."""
    return (400 <= status < 500 or status == 501) and _REFUSED.search(body) is not None


async def gather(pieces: AsyncIterator[bytes], on_text: OnText) -> bytes:
    """Read events into one body, and hand over the text so far each time that it grew.

    An error among the events is the body, as where it comes alone. Raises httpx.RemoteProtocolError
    for a reply without an end: a part of an answer is none.
    """
    reply, line = _Reply(), b""
    async for piece in pieces:
        *lines, line = (line + piece).split(b"\n")
        before = len(reply.parts)
        for data in (one[5:].strip() for one in lines if one.startswith(b"data:")):
            if data == b"[DONE]":
                return reply.body()
            if reply.take(data):
                return data
        if len(reply.parts) > before:
            on_text(reply.text)
        if is_heavy(line):
            break
    return reply.body()


class _Reply:
    """What came so far of a completion's first choice."""

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
        """Add what an event says; True if it is an error and no part of a reply."""
        event: Any = None
        with suppress(ValueError, RecursionError):
            event = None if is_heavy(data) else json.loads(data)
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
        """Add to the call that a part belongs to, by its index or, without one, to the last."""
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            self._calls.append(call)
            return
        index, own, name = call.get("index"), call.get("id"), function.get("name")
        index = index if isinstance(index, int) else None
        begun = self._begun.get(index)
        # Some servers give each of several calls the index 0, or none.
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
        """Write what came as one completion."""
        if self._finish is None:
            raise httpx.RemoteProtocolError("the events end before the reply does")
        refusal = "".join(self._refusal)
        said = {"content": self.text, "refusal": refusal, "tool_calls": self._calls}
        message = {"role": "assistant"} | {name: part or None for name, part in said.items()}
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        whole = self._whole | {"object": "chat.completion", "choices": [choice]}
        return json.dumps(whole).encode()
