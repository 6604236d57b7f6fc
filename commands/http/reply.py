"""The reply to a chat request: one document at the end of its run, or a stream of events."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Literal, NamedTuple

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from temporalio.service import RPCError, RPCStatusCode

from commands.http.chat import Chat, RefusedError
from commands.http.completions import Chunks, comment, completion, content, facts, failed
from mull import (
    ConfigurationError,
    MullError,
    NoServerError,
    NoWorkerError,
    RequestError,
    Run,
    RunCancelledError,
    RunFailedError,
)
from mull.loops import TURN
from mull.news import LOOK_SECONDS, News
from mull.quota import AGAIN_SECONDS
from mull.text import sentence

# Proxies close a connection on which nothing comes for a minute, some sooner.
BEAT_SECONDS = 10.0
STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
# nginx would hold back what is small.
STREAM["X-Accel-Buffering"] = "no"
REVIEWED = ("review_when", "review_below", "review_open")
OWN_ERROR = "This server made an error, which is in its log."
logger = logging.getLogger("mull.serve")
WAITING: Literal["waiting_for_review"] = "waiting_for_review"


class Seen(NamedTuple):
    """What is new of a run: text that was written, a silence, its end, or that it waits."""

    kind: Literal["text", "silence", "completed", "waiting_for_review"]
    words: str = ""
    record: Any = None


class GoneError(Exception):
    """The client has gone away."""


def explained(error: Exception, *, again: bool) -> RefusedError:
    """Say in OpenAI's form what went wrong; `again`: to ask again pays nothing twice."""
    soon = AGAIN_SECONDS if again else None
    if isinstance(error, RunFailedError):
        said = f"The run failed. {error.kind}: {error.message}"
        return RefusedError(502, said, code=error.kind, mull={"id": error.id})
    if isinstance(error, RunCancelledError):
        said, known = "The run was cancelled.", {"id": error.id}
        return RefusedError(502, said, code="run_cancelled", mull=known)
    if isinstance(error, NoServerError | NoWorkerError):
        said = f"{sentence(error.fact)} {error.advice}".strip()
        return RefusedError(503, said, code="unavailable", again_seconds=soon)
    if isinstance(error, RequestError):
        return RefusedError(400, f"{error}", param=error.field)
    if isinstance(error, RPCError) and error.status is RPCStatusCode.RESOURCE_EXHAUSTED:
        return RefusedError(429, "Too many requests at once.", again_seconds=soon)
    status = 503
    said = "The Temporal server did not answer as expected: this server's log says more."
    if isinstance(error, ConfigurationError):
        status, said, soon = 500, "This server's configuration is wrong, as its log says.", None
    logger.warning("%s %s", said, error)
    return RefusedError(status, said, again_seconds=soon)


def answer_error(error: RefusedError, run: str | None = None) -> Response:
    """Build the response of an error, in OpenAI's form."""
    # OpenAI's clients repeat some requests by themselves, unless they are told not to.
    headers = {"x-should-retry": str(error.again_seconds is not None).lower()}
    if error.again_seconds is not None:
        headers["Retry-After"] = str(max(1, round(error.again_seconds)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    headers |= run_headers(run) if run else {}
    # In ASCII: what a client sent may have halves of characters, which UTF-8 has no bytes for.
    said = json.dumps(error.document)
    return Response(said, error.status, headers, "application/json")


def run_headers(run: str) -> dict[str, str]:
    """Name a run in the headers of its reply; OpenAI's clients show the second one."""
    return {"Mull-Run-Id": run, "x-request-id": run}


class Reply(Response):
    """Replies once its run has ended, or while it goes on; a client that goes away ends no run.

    `again` says that its client can ask for the same run again.
    """

    def __init__(self, chat: Chat, run: Run[Any], *, again: bool) -> None:
        self._chat, self._run, self._again = chat, run, again
        self._created = int(time.time())
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reply. What goes wrong in a stream is its last event."""
        self._gone = asyncio.create_task(_until_gone(receive))
        try:
            if self._chat.stream:
                await self._stream(send)
            else:
                response = await self._whole()
                await response(scope, receive, send)
        except GoneError:
            if self._chat.cancel_on_disconnect:
                with suppress(MullError):
                    await self._run.cancel()
        finally:
            self._gone.cancel()

    async def _whole(self) -> Response:
        run, created = self._run.id, self._created
        try:
            async with aclosing(self._news()) as news:
                end = [new async for new in news][-1]
        except RefusedError as error:
            return answer_error(error, run)
        document = completion(self._chat, run, created, end.record, end.kind)
        return JSONResponse(document, 202 if end.kind == WAITING else 200, run_headers(run))

    async def _stream(self, send: Send) -> None:
        headers = {**STREAM, **run_headers(self._run.id)}
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

        async def emit(event: bytes, *, more: bool = True) -> None:
            if event or not more:
                await send({"type": "http.response.body", "body": event, "more_body": more})

        chunks = Chunks(self._chat, self._run.id, self._created)
        await emit(chunks.first())
        try:
            async with aclosing(self._news()) as news:
                async for new in news:
                    if new.kind == "text":
                        await emit(chunks.text(new.words))
                    elif new.kind == "silence":
                        await emit(comment(new.words))
                    else:
                        await emit(chunks.last(new.record, new.kind))
        except GoneError:
            raise
        except RefusedError as error:
            await emit(failed(error.document))
        except Exception:
            logger.exception("the reply of %s broke off", self._run.id)
            await emit(failed(RefusedError(500, OWN_ERROR).document))
        await emit(b"", more=False)

    async def _news(self) -> AsyncGenerator[Seen, None]:
        """Yield what is new of the run, at last its end. Raises RefusedError and GoneError."""
        chat, spoke = self._chat, time.monotonic()
        streams = chat.stream and getattr(chat.request, "stream", False)
        looks = _may_wait(chat)
        following = News(self._run, streams=streams, looks=looks, beat=LOOK_SECONDS)
        try:
            async with aclosing(aiter(following)) as news:
                async for new in news:
                    if self._gone.done():
                        raise GoneError
                    if new.ended:
                        yield self._taken(Seen("completed", record=new.record))
                    elif new.record and chat.loop.sheet(new.record, chat.request).waiting:
                        yield self._taken(Seen(WAITING, record=new.record))
                        return
                    elif new.text is not None:
                        yield Seen("text", new.text)
                    elif time.monotonic() - spoke >= BEAT_SECONDS:
                        spoke = time.monotonic()
                        yield Seen("silence", chat.loop.doing)
        except MullError as error:
            raise explained(error, again=self._again) from error

    def _taken(self, end: Seen) -> Seen:
        """Return an end that the client takes. Raises RefusedError for another one."""
        chat, run = self._chat, self._run.id
        known = facts(chat, run, end.record, end.kind)
        if end.kind == WAITING and not chat.accept_waiting:
            later = "ask again with the same Idempotency-Key" if self._again else f"mull show {run}"
            said = f"The run waits for a person: mull review {run}. For its result then {later}."
            raise RefusedError(409, said, code=WAITING, mull=known)
        if end.kind != WAITING and not content(chat, end.record):
            said = f"The run has no answer: {end.record.stop_explanation}."
            raise RefusedError(422, said, code="no_answer", mull=known)
        if end.kind != WAITING and chat.require and known["doubt"]:
            said = f"Not to be built on: {known['doubt']}."
            raise RefusedError(422, said, code="not_to_be_built_on", mull=known)
        return end


def _may_wait(chat: Chat) -> bool:
    """Tell whether a person may be asked: only then is a run looked at while it goes on."""
    given = [getattr(chat.request, name, None) for name in REVIEWED]
    return chat.loop is TURN or any(one is not None and one is not False for one in given)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
