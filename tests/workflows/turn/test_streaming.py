"""The answer of a turn while it is written: what is shown of it, and what it leaves in history."""

import asyncio
import base64
import math
import os
import pty
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.contrib.workflow_streams import (
    PollInput,
    PollResult,
    PublishInput,
    WorkflowStreamClient,
)

from activities.language_model.port import ModelCall, TransientModelError
from activities.turn import PUBLISH_SECONDS, SLOWER
from commands.embedded import Place
from mull.connection import STREAM_POLL, connect
from mull.news import LiveAnswer
from mull.replies import words_so_far
from mull.turn.conversation import StreamedText
from tests.conftest import until
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel
from tests.workflows.turn.running import ANSWER, ended, keyed, served, start

PUBLISH = "__temporal_workflow_stream_publish"
OLD, NEW = "The old tide was high. ", "The new tide is low. "


def writing(text: str, seen: Callable[[str], bool], last: Any = None) -> Callable[[ModelCall], Any]:
    """Write a text in three parts, each when the one before was seen; end with `last`, or it."""

    async def write(call: ModelCall) -> Any:
        assert call.on_text is not None
        for part in (text[: len(text) // 2], text[:-5], text):
            call.on_text(part)
            await until(lambda: seen(words_so_far(part)))
        return text if last is None else last

    return write


async def watched(client: Client, *steps: tuple[str, Any]) -> tuple[list[str], Any]:
    """Follow a streaming turn to its end: return each text that was shown, and the handle.

    A step is a text and what it ends with, if not with that. The stream keeps no text in the end.
    """
    shown = [""]
    lines = [writing(text, lambda words: shown[-1] == words, last) for text, last in steps]
    async with served(client, ScriptedModel(step=lines)):
        handle = await start(client, stream=True)
        answer, ending = LiveAnswer(handle), asyncio.create_task(ended(handle))
        while not ending.done():
            text = await answer.read()
            shown += [text] if text != shown[-1] else []
            await asyncio.sleep(0.05)
        await ending
        shown.append(await answer.read())
        left = await handle.query(STREAM_POLL, PollInput(), result_type=PollResult)
        assert [item.offset for item in left.items] == [left.next_offset - 1]
        return shown, handle


async def signals(handle: Any) -> int:
    signaled = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    return sum([event.event_type == signaled async for event in handle.fetch_history_events()])


@pytest.mark.parametrize("encrypted", [False, True])
async def test_the_answer_is_shown_while_it_is_written(
    client: Client, monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    if encrypted:
        keyed(monkeypatch)
        client = await connect()
    shown, handle = await watched(client, (NEW, None))

    assert list(filter(None, shown)) == [NEW[: len(NEW) // 2], NEW[:-5], NEW]
    assert shown[-1] == ""
    assert (await handle.result())["answer"] == NEW.strip()


async def test_no_text_stands_twice_when_an_attempt_fails(client: Client) -> None:
    lost = TransientModelError("lost", retry_after=0.01)

    shown, _ = await watched(client, (OLD, lost), (NEW, None))

    assert {OLD, NEW} < set(shown)
    assert all(OLD.startswith(text) or NEW.startswith(text) for text in shown)


async def test_what_was_said_before_a_call_goes_when_the_step_ends(client: Client) -> None:
    """The text of the next step begins anew."""
    shown, _ = await watched(client, (OLD, [("look", {"place": "sea"})]), (NEW, None))

    assert {OLD, NEW} < set(shown)
    assert all(OLD.startswith(text) or NEW.startswith(text) for text in shown)


async def test_thinking_is_not_shown(client: Client) -> None:
    """It stands before the answer."""
    shown, _ = await watched(client, (f"<think>{OLD * 3}</think>{NEW}", None))

    assert NEW in shown
    assert all(NEW.startswith(text) for text in shown)


@pytest.mark.parametrize("native", [True, False])
async def test_nothing_is_published_where_nothing_is_shown(client: Client, native: bool) -> None:
    """Where nobody asked for it, and where the model writes an object."""
    heard: list[object] = []

    def said(call: ModelCall) -> str:
        heard.append(call.on_text)
        return ANSWER

    async with served(client, ScriptedModel(step=[said]), native=native):
        handle = await start(client, stream=not native)
        await ended(handle)

    assert heard == [None]
    assert await signals(handle) == 0


async def test_a_third_broken_stream_is_the_last(client: Client) -> None:
    """Then the reply is asked for as a whole."""
    heard: list[bool] = []

    def said(call: ModelCall) -> Any:
        heard.append(call.on_text is not None)
        return TransientModelError("broke off", retry_after=0.01) if len(heard) < 4 else ANSWER

    async with served(client, ScriptedModel(step=[said] * 4)):
        await ended(await start(client, stream=True))

    assert heard == [True, True, True, False]


async def test_others_may_follow_it_by_the_sdk(client: Client) -> None:
    """Whoever subscribes in the usual way gets the same pieces."""
    texts = [""]
    line = writing(NEW, lambda words: texts[-1] == words)
    async with served(client, ScriptedModel(step=[line])):
        handle = await start(client, stream=True)
        stream = WorkflowStreamClient.create(client, handle.id).topic("answer", type=StreamedText)
        async with asyncio.timeout(PATIENCE):
            async for item in stream.subscribe():
                texts.append(texts[-1][: item.data.at] + item.data.text)
                if texts[-1] == NEW:
                    break
        await ended(handle)


def published(data: str) -> dict[str, Any]:
    return {"items": [{"topic": "answer", "data": data}], "publisher_id": "x", "sequence": 1}


def packed(raw: bytes) -> str:
    payload = Payload(metadata={"encoding": b"json/plain"}, data=raw)
    return base64.b64encode(payload.SerializeToString()).decode()


POLLS: list[list[Any]] = [[], [None], ["x"], [{"from_offset": "x"}], [PollInput(), PollInput()]]
SIGNALS: list[list[Any]] = [
    [],
    [None],
    [5],
    [PublishInput(), PublishInput()],
    [published("no base64!")],
    [published("AAAA")],
    [published(packed(b'{"step": "x"}'))],
    [published(packed(b"{broken"))],
]


async def test_malformed_messages_do_not_stop_a_turn(client: Client) -> None:
    """A poll is refused, a signal is dropped, and what is no piece of an answer is not shown."""
    sent = asyncio.Event()
    async with served(client, ScriptedModel(step=[writing(NEW, lambda _: sent.is_set())])):
        handle = await start(client, stream=True)
        answer = LiveAnswer(handle)
        for given in SIGNALS:
            await handle.signal(PUBLISH, args=given)
        for given in POLLS:
            with pytest.raises(WorkflowUpdateFailedError):
                await asyncio.wait_for(handle.execute_update(STREAM_POLL, args=given), PATIENCE)
        shown = await answer.read()
        sent.set()
        result = await ended(handle)

    assert NEW.startswith(shown)
    assert result.answer == NEW.strip()


async def history_of(client: Client, seconds: float, *, stream: bool) -> tuple[int, int, float]:
    """Count the events and bytes of a turn of 2,000 tokens, with a reader, and its seconds.

    They are a few more than those given. At 50 tokens a second, in 40 seconds, streaming adds 215
    events and 46 kB.
    """
    words = "".join(f"{number % 1000:03} " for number in range(2_000))

    async def write(call: ModelCall) -> str:
        for part in range(1, 2_001):
            if call.on_text:
                call.on_text(words[: 4 * part])
            if part % 20 == 0:
                await asyncio.sleep(seconds / 100)
        return words

    async with served(client, ScriptedModel(step=[write])):
        handle, began = await start(client, stream=stream), time.monotonic()
        answer, ending = LiveAnswer(handle), asyncio.create_task(handle.result())
        while not ending.done():
            await answer.read()
            await asyncio.sleep(0.4)
        await ending
        took = time.monotonic() - began
    sizes = [event.ByteSize() async for event in handle.fetch_history_events()]
    return len(sizes), sum(sizes), took


async def test_streaming_adds_little_to_history(client: Client) -> None:
    """Four events for each of some 11 batches, however often they are read, and under 60 kB.

    Where it takes longer there are more.
    """
    without, with_it = [await history_of(client, 4, stream=one) for one in (False, True)]

    events, size = with_it[0] - without[0], with_it[1] - without[1]
    slow = batches(with_it[2]) / batches(4)
    assert 4 * 6 < events < 4 * 20 * slow
    assert size < 60_000 * slow


def batches(seconds: float) -> float:
    return math.log(1 + seconds * (SLOWER - 1) / PUBLISH_SECONDS) / math.log(SLOWER)


def test_batches_come_ever_slower() -> None:
    """So many in a minute, and not many more in an hour."""
    assert [round(batches(seconds)) for seconds in (4, 60, 3_600)] == [11, 66, 199]


async def command(place: Place, screen: bytearray, *arguments: str) -> tuple[str, int]:
    """Run a command whose standard error is a terminal; return its output and its exit code."""
    ours, theirs = pty.openpty()
    known = {"TEMPORAL_ADDRESS": place.address, "TERM": "xterm", "COLUMNS": "60", "LINES": "20"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "starter.py",
        *arguments,
        env={**os.environ, **known},
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    with suppress(OSError):  # a terminal that nobody writes to any more
        while read := await asyncio.to_thread(os.read, ours, 65_536):
            screen += read
    os.close(ours)
    printed, _ = await process.communicate()
    return printed.decode(), process.returncode or 0


async def test_a_terminal_shows_the_answer_while_it_is_written(
    client: Client, place: Place
) -> None:
    """And `watch` shows it too; on standard output it stands once."""
    run, screens = f"turn-{uuid.uuid4().hex}", [bytearray(), bytearray()]

    def seen(words: str) -> bool:
        return all(words.strip().encode() in screen for screen in screens)

    async with served(client, ScriptedModel(step=[writing(NEW, seen)])):
        turn = command(place, screens[0], "turn", "Tide?", "--tools", "", "--id", run)
        following = asyncio.create_task(turn)
        await until(lambda: b"The new" in screens[0])
        ended = await asyncio.gather(command(place, screens[1], "watch", run), following)

    assert list(ended) == [(f"{NEW.strip()}\n", 0)] * 2


async def test_a_terminal_shows_the_answers_of_a_session(client: Client, place: Place) -> None:
    """Each turn of it hosts its own stream; whether it is shown is said with each message."""
    session, screen = f"session-{uuid.uuid4().hex}", bytearray()
    send = ("turn", "Tide?", "--tools", "", "--session", session)
    line = writing(NEW, lambda words: words.strip().encode() in screen)
    async with served(client, ScriptedModel(step=[lambda call: str(call.on_text), line])):
        known = {**os.environ, "TEMPORAL_ADDRESS": place.address}
        piped = partial(subprocess.run, (sys.executable, "starter.py", *send), env=known)
        first = await asyncio.to_thread(piped, capture_output=True, text=True)
        then = await command(place, screen, *send)
        await client.get_workflow_handle(session).terminate()

    assert (first.stdout, then) == ("None\n", (f"{NEW.strip()}\n", 0))
    assert b"no effect" not in screen


async def test_elsewhere_nothing_is_streamed(client: Client, place: Place) -> None:
    """A run that nobody watches publishes nothing, unless it is told to; its id means the same."""
    run, screen = f"turn-{uuid.uuid4().hex}", bytearray()
    known = {**os.environ, "TEMPORAL_ADDRESS": place.address}
    arguments = (sys.executable, "starter.py", "turn", "Tide?", "--tools", "", "--id", run)
    async with served(client, ScriptedModel(step=[lambda call: str(call.on_text)])):
        piped = partial(subprocess.run, arguments, env=known, capture_output=True, text=True)
        first = await asyncio.to_thread(piped)
        again, code = await command(place, screen, *arguments[2:])

    assert first.stdout == again == "None\n"
    assert b"nothing is paid again" in screen
    assert code == 0
