"""News of a run: they come with its history, at a pace, and cost no query while nothing happens."""

import asyncio
import time
from contextlib import aclosing
from typing import Any

from temporalio.client import Client

import mull
from mull.handle import Run
from mull.news import Change, News
from tests.conftest import polling, served, until
from tests.patience import Stopwatch
from tests.scripted import ScriptedModel


class Counted(Run[Any]):
    """A run that notes when its record is queried."""

    looks: list[float]

    async def glance(self, *given: Any) -> Any:
        self.looks.append(time.monotonic())
        return await super().glance(*given)


async def begun(client: Client, **fields: Any) -> Counted:
    run = await mull.Client(client).start("ask", question="How much?", **fields)
    counted = Counted(client, run.loop, run.handle)
    counted.looks = []
    return counted


async def seen_of(news: News) -> list[Change]:
    async with aclosing(aiter(news)) as coming:
        return [change async for change in coming]


async def test_the_first_news_come_with_their_event(client: Client) -> None:
    """The record has an answer well within the second for which other followers wait."""
    held = asyncio.Event()
    model = ScriptedModel(sample=["7", "7", "7"], delays=[0, 2, 2], held=held)
    late = list[float]()
    async with polling(client, model):
        run = await begun(client, max_responses=3, max_concurrency=1)
        await until(lambda: model.calls)
        async with aclosing(aiter(News(run, apart=0.5, at_once=True))) as news:
            async for change in news:
                if change.ended:
                    break
                if not held.is_set():
                    held.set()
                    watch = Stopwatch()
                elif change.record and len(change.record.responses) == 1:
                    late.append(watch.seconds)

    assert late
    assert late[0] < 0.5
    assert change.record.final_answer == "7"


async def test_looks_are_apart_and_follow_events_alone(client: Client) -> None:
    """A burst of events is one look and one after the pace; silence is none."""
    model = ScriptedModel(sample=["7", "7", "8", "8", "9"], delays=[0, 0.1, 0.2, 0.3, 5])
    async with polling(client, model):
        run = await begun(client, max_responses=5, max_concurrency=5, min_responses=5)
        seen = await seen_of(News(run, apart=0.5, at_once=True))

    apart = [after - before for before, after in zip(run.looks, run.looks[1:], strict=False)]
    assert min(apart) >= 0.5
    assert len(run.looks) <= 4
    assert [change.record is not None for change in seen] == [True] * len(seen)
    assert seen[-1].ended


async def test_what_follows_soon_takes_no_second_look(client: Client) -> None:
    """Unless it is asked for at once: answers that come within a second are seen by one query."""
    model = ScriptedModel(sample=["7", "7", "8", "8", "9"], delays=[2.5, 2.7, 2.9, 3.1, 9])
    async with polling(client, model):
        run = await begun(client, max_responses=5, max_concurrency=5, min_responses=5)
        seen = await seen_of(News(run))

    assert len(run.looks) == 2
    assert [change.record.in_flight for change in seen] == [5, 1, 0]


async def test_without_anything_new_there_are_beats_alone(client: Client) -> None:
    """They are empty, and take no query."""
    held = asyncio.Event()
    async with polling(client, ScriptedModel(sample=["7"] * 5, held=held)):
        run = await begun(client)
        changes = list[Change]()
        async for change in News(run, at_once=True, beat=0.2):
            changes.append(change)
            if len(changes) == 5:
                held.set()

    assert changes[1:5] == [Change()] * 4
    assert len(run.looks) <= 2


async def test_a_worker_that_is_away_is_told_of_and_so_is_the_next_one(client: Client) -> None:
    """A look without a record, and a record again once a worker is there."""
    model = ScriptedModel(sample=["7"] * 5)
    run = await begun(client)
    silent = asyncio.Event()

    async def follow() -> list[Change]:
        changes = list[Change]()
        async for change in News(run, apart=0.5, at_once=True):
            changes.append(change)
            if change.looked and change.record is None:
                silent.set()
        return changes

    following = asyncio.create_task(follow())
    await until(silent.is_set)
    async with served(client, model):
        changes = await following

    assert changes[0] == Change(looked=True)
    assert changes[-1].ended
    assert changes[-1].record.final_answer == "7"
