"""Layers around a model: a span and metrics for each call, and when calls are made.

Spans and metrics follow OpenTelemetry's GenAI conventions. There is one pace for each model in each
worker process, and one for all calls together: additive increase, multiplicative decrease. A worker
begins slowly, so that few calls are in flight, and faster with each reply. The first 429 sets a
rate below what the server took in the last second, and each later one lowers it. About 50 replies
win back what a 429 took.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from temporalio import activity

from activities.language_model.errors import LONGEST_WAIT_SECONDS
from activities.language_model.port import (
    SENT,
    LanguageModel,
    ModelCall,
    ModelError,
    ModelReply,
    NotYetError,
    SampleError,
    TransientModelError,
    UnreachableError,
)
from mull import telemetry
from mull.request import BATCH_PRIORITY
from mull.run import Spending
from mull.telemetry import activity_meter, captures_content
from mull.text import tally_words

# Made once: OpenTelemetry's API keeps every meter that is asked for before there is a provider.
_METER = metrics.get_meter(telemetry.TRACER)
_USED = _METER.create_histogram("gen_ai.client.token.usage", unit="{token}")
_DURATION = _METER.create_histogram("gen_ai.client.operation.duration", unit="s")


def record_spending(span: Span, model: str, spending: Spending) -> None:
    """Record a call's tokens and cost, as far as they are known."""
    if spending.cost_usd is not None:
        span.set_attribute("mull.cost.usd", spending.cost_usd)
        telemetry.COSTS.record(activity_meter(), spending.cost_usd, model=model)
    for side, tokens in (("input", spending.input_tokens), ("output", spending.output_tokens)):
        if tokens is not None:
            span.set_attribute(f"gen_ai.usage.{side}_tokens", tokens)
            _USED.record(tokens, {**_labels(model), "gen_ai.token.type": side})
            telemetry.USED_TOKENS.record(activity_meter(), tokens, model=model, direction=side)


class ObservedModel:
    """A language model whose every call makes a `chat {model}` span and counts in two metrics.

    Prompts and replies are in the span only if content is switched on.
    """

    def __init__(self, model: LanguageModel, default_model: str | None) -> None:
        self._model = model
        self._default_model = default_model

    async def complete(self, call: ModelCall) -> ModelReply:
        """Make the call inside its span. Raises what the model raises."""
        name = call.model or self._default_model or "unknown"
        labels, started = _labels(name), time.perf_counter()
        with trace.get_tracer(telemetry.TRACER).start_as_current_span(
            telemetry.SPAN_CHAT.format(model=name),
            kind=SpanKind.CLIENT,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            telemetry.CALLS.get([]).append(span)
            span.set_attributes(labels)
            _describe_call(span, call)
            try:
                reply = await self._model.complete(call)
            except (ModelError, asyncio.CancelledError) as error:
                kind = "cancelled"
                if isinstance(error, ModelError):
                    kind = error.kind
                    record_spending(span, name, error.spending)
                labels["error.type"] = kind
                span.set_attribute("error.type", kind)
                span.set_status(Status(StatusCode.ERROR, str(error)))
                raise
            finally:
                _DURATION.record(time.perf_counter() - started, labels)
            _describe_reply(span, call, reply)
            record_spending(span, name, reply.spending)
        return reply


def _labels(model: str) -> dict[str, str]:
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}


def _describe_call(span: Span, call: ModelCall) -> None:
    if call.max_output_tokens is not None:
        span.set_attribute("gen_ai.request.max_tokens", call.max_output_tokens)
    span.set_attributes({telemetry.KIND: "LLM", **call.labels})
    if captures_content():
        shown = call.messages or ({"role": "user", "content": call.prompt},)
        span.set_attribute(telemetry.CONTENT[0], json.dumps(list(map(_described, shown))))


def _describe_reply(span: Span, call: ModelCall, reply: ModelReply) -> None:
    known: dict[str, str | float | None] = {
        "gen_ai.provider.name": reply.provider,
        "gen_ai.response.model": reply.model,
        "gen_ai.response.id": reply.response_id,
        "gen_ai.request.temperature": call.temperature,
        "gen_ai.request.seed": call.seed,
        "gen_ai.request.max_tokens": reply.max_output_tokens,
    }
    for name, value in known.items():
        if value is not None and name.rpartition(".")[2] not in reply.left_out:
            span.set_attribute(name, value)
    span.set_attribute("gen_ai.response.finish_reasons", [reply.finish_reason])
    if captures_content():
        calls = [
            {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.calls
        ]
        said = {"role": "assistant", "content": reply.text, "tool_calls": calls}
        span.set_attribute(telemetry.CONTENT[1], json.dumps([_described(said)]))


def _described(message: dict[str, Any]) -> dict[str, Any]:
    """Write a message in OpenAI's form in the form of the conventions."""
    role, text = message["role"], message["content"]
    if role == "tool":
        part = {"type": "tool_call_response", "id": message["tool_call_id"], "response": text}
        return {"role": role, "parts": [part]}
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    calls = message.get("tool_calls") or ()
    parts += [{"type": "tool_call", "id": call["id"], **call["function"]} for call in calls]
    return {"role": role, "parts": parts}


FIRST_RATE = 5.0
LOWEST_RATE = 1 / 60
# Each reply multiplies the rate by this while no limit is known, or the rate is below it.
GROWTH = 1.15
LOWERED = 0.75
# Replies that win back what a 429 took; from then on the rate grows faster and faster.
RECOVERY = 50
WINDOW_SECONDS = 1.0
# Shorter than the margin of an attempt over its client's time-out: see `workflows.calls`.
PATIENCE_SECONDS = 8.0


class Pace:
    """When the next call may begin: at `rate` calls a second, and then at the pace of `within`."""

    def __init__(self, rate: float = FIRST_RATE, within: "Pace | None" = None) -> None:
        self.rate = rate
        self._within = within
        # The highest rate that the server is known to bear.
        self._sound = float("inf")
        self._step = 0.0
        self._next = self._lowered = self._replied = 0.0
        self._begun: deque[float] = deque(maxlen=1_000)
        self._waiting = 0
        self._line = asyncio.Lock()
        self._batches = asyncio.Lock()

    async def turn(self, *, yields: bool = False, patience: float = PATIENCE_SECONDS) -> float:
        """Wait for the turn of a call, first come, first served; return its time.

        Only one of the calls that yield stands in line at a time, and the others wait behind it, so
        any other call waits for one of them at most. Raises TimeoutError if that takes too long.
        """
        if self._next - _now() > patience:
            raise TimeoutError
        self._waiting += 1
        try:
            before = self._batches if yields else nullcontext()
            async with asyncio.timeout(patience), before, self._line:
                # The time may be put off while this waits for it.
                while (left := self._next - _now()) > 0:  # noqa: ASYNC110 - a time, not a flag
                    await asyncio.sleep(left)
                whole = self._within
                now = _now() if whole is None else await whole.turn(yields=yields)
                self._next = max(self._next, now + 1 / self.rate)
        finally:
            self._waiting -= 1
        self._begun.append(now)
        return now

    def seconds_left(self) -> float:
        """Estimate the seconds until a call that comes now would begin."""
        left = max(1.0, self._next - _now()) + self._waiting / self.rate
        return min(left, LONGEST_WAIT_SECONDS)

    def replied(self) -> None:
        """Note a reply: the rate may grow if calls wait, since the server then bears all of it."""
        self._replied = _now()
        if not self._waiting:
            return
        if self.rate < self._sound:
            self.rate = min(self.rate * GROWTH, self._sound)
        else:
            self.rate += self._step
            self._step *= 1 + 1 / RECOVERY

    def refused(self, began: float, seconds: float | None) -> None:
        """Note that the server told a call to come later: in these seconds, if it says so."""
        if began in self._begun:
            self._begun.remove(began)
        # Calls that were in flight when the rate was lowered say nothing about the new one.
        if began >= self._lowered:
            rate, now = self.rate, _now()
            if self._sound == float("inf"):
                rate = min(rate, max(1, sum(now - at <= WINDOW_SECONDS for at in self._begun)))
            borne = self._replied > self._lowered
            self.rate = max(LOWEST_RATE, rate * LOWERED if borne else rate / 2)
            self._sound = self.rate if borne else self._sound
            self._step = (rate - self.rate) / RECOVERY
            self._lowered = now
        self.wait(1 / self.rate if seconds is None else seconds)

    def wait(self, seconds: float) -> None:
        """Hold back all calls for these seconds."""
        self._next = max(self._next, _now() + seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_of_a_batch() -> bool:
    """Tell whether the call under way has the lower priority of a batch."""
    key = activity.info().priority.priority_key if activity.in_activity() else None
    return key is not None and key >= BATCH_PRIORITY


def _caller() -> object:
    """Identify the activity that makes a call, over all its attempts."""
    if not activity.in_activity():
        return object()
    return activity.info().workflow_run_id, activity.info().activity_id


# The wait after the first refused connection, which doubles, up to the longest one.
FIRST_KNOCK_SECONDS, LONGEST_KNOCK_SECONDS = 1.0, 8.0
# A connection that is not refused within this time counts as made: its reply may take minutes. If
# one is refused later than that, the next has twice as long.
LET_IN_SECONDS = 5.0
# The very first call shows almost at once whether anything listens: others wait this long for it.
FIRST_SECONDS = 1.0


class Door:
    """An address. While it refuses connections, one call at a time knocks, and the others wait.

    A refusal counts for every call that waits, and so do those just before the call came. Any
    answer opens the door for all.
    """

    def __init__(self) -> None:
        self.refusal: UnreachableError | None = None
        self._open = False
        # The times of refused connections since the door was open; a call has at most 100 attempts.
        self._refused: deque[float] = deque(maxlen=200)
        # When each call first came: it may leave in the meantime, and come again.
        self._came: dict[object, float] = {}
        # When the next call may knock; while one does, when the others may go on without news.
        self._next = float("-inf")
        self._held: float | None = None
        self._knocker: object = None
        self._let_in = LET_IN_SECONDS
        self._news = asyncio.Event()

    @asynccontextmanager
    async def passed(
        self, caller: object, came: float, most: int, patience: float
    ) -> AsyncIterator[bool]:
        """Wait until a call may be sent, which is made in the block; yield whether it knocks.

        Raises UnreachableError after `most` refused connections, and TimeoutError after `patience`.
        """
        async with asyncio.timeout(patience):
            while not (knocks := self._knocks(caller, came, most)) and self._wait() > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), self._wait())
        me = object()
        if knocks:
            self._knocker = me
        try:
            yield knocks
        finally:
            # Another call may knock by now.
            if self._knocker is me:
                self._held = None
                self._tell()

    @property
    def closed(self) -> bool:
        """True while only the call that knocks may be sent."""
        return self.refusal is not None and (self._held is None or self._wait() > 0)

    def _wait(self) -> float:
        """Return the seconds until the next call may be sent if there is no news."""
        return (self._next if self._held is None else self._held) - _now()

    def _knocks(self, caller: object, came: float, most: int) -> bool:
        """Tell whether this call is the one that knocks now. Raises UnreachableError."""
        if self.refusal is not None:
            came = self._came.setdefault(caller, came)
            just_before = any(came - LONGEST_KNOCK_SECONDS <= at < came for at in self._refused)
            refused = just_before + sum(at >= came for at in self._refused)
            if refused >= most:
                del self._came[caller]
                line = f"{tally_words(refused, 'connection')} failed: {self.refusal}"
                raise UnreachableError(line, self.refusal.address, last=True)
        if self._open or self._held is not None or self._wait() > 0:
            return False
        # Allow more time until it is sent: LiteLLM's first call takes a while to send.
        self._hold(LET_IN_SECONDS)
        return True

    def _hold(self, more: float = 0.0) -> None:
        """Make the others wait for the call that knocks."""
        self._held = _now() + more + (self._let_in if self.refusal else FIRST_SECONDS)

    def sent(self) -> None:
        """Note that the call that knocks is on its way."""
        if self._held is not None:
            self._hold()
            self._tell()

    def refused(self, error: UnreachableError, began: float) -> None:
        """Note a refused connection, unless it began before the last refusal."""
        if self._refused and began <= self._refused[-1]:
            return
        now, wait = _now(), FIRST_KNOCK_SECONDS * 2.0 ** len(self._refused)
        self.refusal, self._open = error, False
        self._next = now + min(wait, LONGEST_KNOCK_SECONDS)
        self._let_in = max(self._let_in, 2 * (now - began))
        self._refused.append(now)
        if self._held is not None:
            self._hold()
        self._tell()

    def answered(self, began: float) -> None:
        """Note an answer: the door is open, unless a later call was refused."""
        if not self._refused or began > self._refused[-1]:
            self.refusal, self._open = None, True
            self._next, self._held = float("-inf"), None
            self._refused.clear()
            self._came.clear()
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class PacedModel:
    """A language model that calls each model's name at the pace that it bears, while it is there.

    All models together get at most `calls_per_second`, evenly.
    """

    def __init__(
        self,
        model: LanguageModel,
        default_model: str | None = None,
        calls_per_second: float | None = None,
    ) -> None:
        self._model = model
        self._default_model = default_model
        self._paces: dict[str | None, Pace] = {}
        # A refusal tells a name's address; from then on all names of that address share its door.
        self._doors: dict[str | None, Door] = {}
        self._addresses: dict[str, Door] = {}
        self._all = Pace(calls_per_second) if calls_per_second else None

    async def complete(self, call: ModelCall) -> ModelReply:
        """Make the call when its turn comes. Raises what the model raises, and NotYetError."""
        name, caller = call.model or self._default_model, _caller()
        pace = self._paces.setdefault(name, Pace(within=self._all))
        came = _now()
        until = came + PATIENCE_SECONDS
        while True:
            door = self._doors.setdefault(name, Door())
            try:
                async with door.passed(caller, came, call.max_attempts, until - _now()) as knocks:
                    # Knocking is hardly a call, and must not wait behind real calls.
                    began = _now()
                    if not knocks or door.refusal is None:
                        began = await pace.turn(yields=_is_of_a_batch(), patience=until - began)
                    # The door may have closed while the call stood in line.
                    SENT.set(door.sent if knocks else lambda: None)
                    if knocks or not self._doors[name].closed:
                        return await self._send(call, name, pace, began)
            except TimeoutError:
                wait = pace.seconds_left() if door.refusal is None else FIRST_KNOCK_SECONDS
                raise NotYetError(wait, door.refusal) from None
            except UnreachableError as error:
                if error.last:
                    raise

    async def _send(
        self, call: ModelCall, name: str | None, pace: Pace, began: float
    ) -> ModelReply:
        """Make the call, and note its outcome for those that wait."""
        try:
            reply = await self._model.complete(call)
        except UnreachableError as error:
            before = self._doors[name]
            new = Door() if before in self._addresses.values() else before
            door = self._doors[name] = self._addresses.setdefault(error.address, new)
            if door is not before:
                # Calls that wait at the old door go on to this one.
                before.answered(began)
            door.refused(error, began)
            raise
        except ModelError as error:
            if error.answered:
                self._doors[name].answered(began)
            if isinstance(error, SampleError):
                pace.replied()
            elif isinstance(error, TransientModelError) and error.status == 429:
                pace.refused(began, error.retry_after)
            elif error.retry_after is not None:
                pace.wait(error.retry_after)
            raise
        self._doors[name].answered(began)
        pace.replied()
        return reply
