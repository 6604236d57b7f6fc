"""Writes records as OpenAI's chat completions and as the chunks of a stream; pure."""

import json
from typing import Any

from commands.http.chat import Chat
from mull.drafts import RunRecord

# What `mull` shows of a loop's record besides what all have.
SHOWN: dict[str, tuple[str, ...]] = {
    "ask": ("consensus_confidence", "normalized_entropy", "probability_right", "valid_responses"),
    "reflect": ("score", "revisions"),
    "agent": ("mode", "revisions"),
    "turn": ("forced",),
}
DONE = b"data: [DONE]\n\n"


def content(chat: Chat, record: RunRecord) -> str:
    """Return the answer as it stands alone on standard output; empty if there is none."""
    answer = chat.loop.sheet(record, chat.request).answer
    return answer.content if answer else ""


def facts(chat: Chat, run: str, record: RunRecord, status: str = "completed") -> dict[str, Any]:
    """Say of a run what OpenAI's fields have no place for, by the names of its record."""
    shown = ("stop_reason", "stop_explanation", "warnings", *SHOWN[chat.loop.command])
    known = {name: getattr(record, name) for name in shown if hasattr(record, name)}
    more = {"doubt": record.doubt or None} if status == "completed" else {}
    cost = record.usage.cost_usd
    return (
        {"id": run, "command": chat.loop.command, "status": status, "cost_usd": cost} | known | more
    )


def spent(record: RunRecord) -> dict[str, Any] | None:
    """Add up the tokens of every call of a run; None if a call did not say."""
    usage = record.usage
    if usage.tokens is None:
        return None
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
    }


def finish_reason(chat: Chat, record: RunRecord) -> str:
    """Return `length` where the provider cut the answer off, else `stop`."""
    best = chat.loop.best(record) if chat.loop.best else None
    cut = getattr(record, "answer_cut", False) or getattr(best, "finish_reason", None) == "length"
    return "length" if cut else "stop"


def completion(
    chat: Chat, run: str, created: int, record: RunRecord, status: str = "completed"
) -> dict[str, Any]:
    """Build a chat completion of a result, or without content of a run that waits for a person."""
    done = status == "completed"
    message = {
        "role": "assistant", "content": content(chat, record) if done else "", "refusal": None,
    }  # fmt: skip
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": finish_reason(chat, record),
    }
    return {
        "id": run,
        "object": "chat.completion",
        "created": created,
        "model": chat.model,
        "choices": [choice],
        "usage": spent(record),
        "mull": facts(chat, run, record, status),
    }


class Chunks:
    """The events of one stream. What was sent can't be taken back, so an answer is only added to.

    A model may write something before it calls a tool, or begin anew: then an empty line parts
    that from what follows, and the last chunk has the answer alone, as `answer` of `mull`.
    """

    def __init__(self, chat: Chat, run: str, created: int) -> None:
        self._chat, self._run = chat, run
        self._base = {"id": run, "object": "chat.completion.chunk", "created": created}
        self._base["model"] = chat.model
        self._part, self._sent = "", ""

    def first(self) -> bytes:
        """Build the event that begins the message."""
        return self._event({"role": "assistant", "content": ""})

    def text(self, written: str) -> bytes:
        """Build the event of what was written since the last one; empty if that is nothing."""
        if not written or written == self._part:
            return b""
        goes_on = written.startswith(self._part)
        new = written[len(self._part) :] if goes_on else f"\n\n{written}"
        self._part, self._sent = written, self._sent + new
        return self._event({"content": new})

    def last(self, record: RunRecord, status: str = "completed") -> bytes:
        """Build the events that end a message, with the whole of its answer."""
        answer = content(self._chat, record) if status == "completed" else ""
        # What a model stated of its confidence is no part of the answer any more.
        written = b"" if answer and self._part.startswith(answer) else self.text(answer)
        mull = facts(self._chat, self._run, record, status)
        mull |= {"answer": answer} if self._sent != answer else {}
        reason = finish_reason(self._chat, record)
        if not self._chat.include_usage:
            return written + self._event({}, reason, mull=mull) + DONE
        counted = {**self._base, "choices": [], "usage": spent(record), "mull": mull}
        return written + self._event({}, reason) + _encoded(counted) + DONE

    def _event(self, delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _encoded({**self._base, "choices": [choice], **more})


def comment(words: str) -> bytes:
    """Build a comment, which no client reads and which keeps a connection."""
    return f": {' '.join(words.split())}\n\n".encode()


def failed(document: dict[str, Any]) -> bytes:
    """Build the event of an error that comes after the beginning of a stream."""
    return _encoded(document) + DONE


def _encoded(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"
