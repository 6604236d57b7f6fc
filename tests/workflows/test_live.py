"""Runs while people look at them: one watcher for each, which tells all of them the newest."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from temporalio.client import Client

import mull
from activities.language_model.port import PermanentModelError
from commands.follow import NOBODY
from commands.web import live
from commands.web.live import END, View, Watcher, Watchers
from tests.conftest import polling, served, until
from tests.patience import Stopwatch
from tests.scripted import ScriptedModel


def told(_request: Any, view: View) -> str:
    """Draw a view as JSON."""
    record = view.record
    return json.dumps(
        {
            "answers": len(record.responses) if record else None,
            "text": view.text,
            "note": view.note,
            "error": str(view.error or ""),
            "ended": view.ended,
        }
    )


async def asked(client: Client, **fields: Any) -> mull.Run[Any]:
    return await mull.Client(client).start("ask", question="How much?", **fields)


def view_of(event: bytes) -> dict[str, Any]:
    """Read what an event brings."""
    lines = [line for line in event.decode().splitlines() if line.startswith("data: ")]
    found: dict[str, Any] = json.loads("\n".join(line.removeprefix("data: ") for line in lines))
    return found


async def seen_by(watcher: Watcher, known: str = "") -> list[dict[str, Any]]:
    """Look until the run ends."""
    async with aclosing(watcher.events(known)) as events:
        found = [event async for event in events if event.startswith(b"id:") or event == END]
    assert found[-1] == END
    return [view_of(event) for event in found[:-1]]


@pytest.fixture
async def watchers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watchers]:
    """Watchers that end soon after the last one has left, and have ended after the test."""
    monkeypatch.setattr(live, "LINGER_SECONDS", 0.1)
    found = Watchers()
    yield found
    await until(lambda: not len(found))


async def test_two_hundred_who_look_at_twenty_runs_are_twenty_watchers(
    client: Client, watchers: Watchers
) -> None:
    """Each change is drawn once, and all who look at a run see the same last one."""
    drawn, held = Counter[str](), asyncio.Event()
    model = ScriptedModel(sample=["7"] * 5, held=held)
    async with polling(client, model):
        runs = [await asked(client) for _ in range(20)]

        async def look(run: mull.Run[Any]) -> list[dict[str, Any]]:
            def draw(request: Any, view: View) -> str:
                drawn[run.id] += 1
                return told(request, view)

            async with watchers.watching(run.id, run, draw) as watcher:
                return await seen_by(watcher)

        looking = [asyncio.create_task(look(run)) for run in runs for _ in range(10)]
        await until(lambda: len(drawn) == len(runs))
        assert len(watchers) == len(runs)
        held.set()
        seen = await asyncio.gather(*looking)

    assert {views[-1]["ended"] for views in seen} == {True}
    most = [max(len(views) for views in seen[at : at + 10]) for at in range(0, 200, 10)]
    assert all(drawn[run.id] <= count + 1 for run, count in zip(runs, most, strict=True)), drawn


async def test_who_is_slow_gets_the_newest_alone(client: Client, watchers: Watchers) -> None:
    """Between two reads the run has changed more than once."""
    model = ScriptedModel(sample=["7", "8", "9", "7", "7"], delays=[0, 1, 1, 1, 1])
    async with polling(client, model):
        run = await asked(client, max_concurrency=1, min_responses=5, max_responses=5)
        async with (
            watchers.watching(run.id, run, told) as watcher,
            aclosing(watcher.events()) as events,
        ):
            first = view_of(await anext(events))
            await run.result()
            await until(watcher.newest, lambda now: now.ended)
            rest = [event async for event in events]

    assert not first["ended"]
    assert [view_of(event)["ended"] for event in rest[:-1]] == [True]
    assert rest[-1] == END


async def test_who_knows_the_newest_is_sent_nothing_until_it_changes(
    client: Client, watchers: Watchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beat keeps the connection, so that a proxy does not close it."""
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.3)
    held = asyncio.Event()
    async with polling(client, ScriptedModel(sample=["7"] * 5, held=held)):
        run = await asked(client)
        async with watchers.watching(run.id, run, told) as watcher:
            await until(watcher.newest, lambda now: '"answers": 0' in now.html)
            known = (await watcher.newest()).name
            async with aclosing(watcher.events(known)) as events:
                assert await anext(events) == live.BEAT
            held.set()
            [*_, last] = await seen_by(watcher, known)

    assert last["ended"]


async def test_a_change_is_told_at_once(client: Client, watchers: Watchers) -> None:
    """The answers of a run are on their way well before the second of other followers is over."""
    held, late = asyncio.Event(), 0.0
    model = ScriptedModel(sample=["7"] * 3, delays=[0, 3, 3], held=held)
    async with polling(client, model):
        run = await asked(client, max_concurrency=1, max_responses=3)
        async with watchers.watching(run.id, run, told) as watcher:
            await until(lambda: model.calls)
            known = (await watcher.newest()).name
            await asyncio.sleep(live.APART_SECONDS)
            held.set()
            watch = Stopwatch()
            now = await until(lambda: watcher.newest(known), lambda now: '"answers": 1' in now.html)
            late = watch.seconds

    assert late < 0.5
    assert now.name != known


async def test_a_worker_that_is_away_is_told_of(client: Client, watchers: Watchers) -> None:
    """So is its return: nobody has to load the page again."""
    run = await asked(client)
    async with watchers.watching(run.id, run, told) as watcher:
        await until(watcher.newest, lambda now: NOBODY in now.html)
        async with served(client, ScriptedModel(sample=["7"] * 5)):
            views = await seen_by(watcher)

    assert views[-1]["answers"] > 2
    assert (views[-1]["note"], views[-1]["error"], views[-1]["ended"]) == ("", "", True)


async def test_a_run_that_fails_shows_what_it_had(client: Client, watchers: Watchers) -> None:
    """Its error ends the watch."""
    refused = PermanentModelError("no such key", "AuthenticationError")
    async with polling(client, ScriptedModel(sample=[refused] * 3)):
        run = await asked(client, max_responses=3)
        async with watchers.watching(run.id, run, told) as watcher:
            views = await seen_by(watcher)

    assert views[-1]["ended"]
    assert "AuthenticationError: no such key" in views[-1]["error"]


async def test_the_last_one_who_leaves_ends_the_watch(client: Client, watchers: Watchers) -> None:
    """No task of it is left; somebody who comes back soon finds it as it was."""
    before = asyncio.all_tasks()
    async with polling(client, ScriptedModel(sample=["7"] * 5, delay=5)):
        run = await asked(client)
        async with watchers.watching(run.id, run, told) as watcher:
            await watcher.newest()
        async with watchers.watching(run.id, run, told) as again:
            assert again is watcher
        await until(lambda: not len(watchers))
    await until(lambda: asyncio.all_tasks() <= before)
