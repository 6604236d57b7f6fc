"""How long a worker may be silent, and when its calls heartbeat."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from mull.connection import heartbeating, silence
from mull.errors import ConfigurationError
from tests.activities.test_pace import virtually
from workflows.calls import work_times


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Read the environment anew, and leave nothing of it to other tests."""
    silence.cache_clear()
    yield
    silence.cache_clear()


@pytest.mark.parametrize(
    ("address", "given", "seconds"),
    [
        ("localhost:7233", None, 5),
        ("mull.a1b2c.tmprl.cloud:7233", None, 30),
        ("eu-west-1.aws.api.temporal.io:7233", None, 30),
        ("MULL.A1B2C.TMPRL.CLOUD.:7233", None, 30),
        ("tmprl.cloud.example.org:7233", None, 5),
        ("mull.a1b2c.tmprl.cloud:7233", "5", 5),
        ("localhost:7233", "12.5", 12.5),
    ],
)
def test_heartbeats_are_fewer_where_they_are_billed(
    monkeypatch: pytest.MonkeyPatch, address: str, given: str | None, seconds: float
) -> None:
    """By default a worker may be silent for 5 s, and for 30 s on Temporal Cloud."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    monkeypatch.delenv("MULL_HEARTBEAT_SECONDS", raising=False)
    if given is not None:
        monkeypatch.setenv("MULL_HEARTBEAT_SECONDS", given)

    times = [work_times(120, attempts)["heartbeat_timeout"] for attempts in (5, 1)]

    assert [time.total_seconds() for time in times] == [seconds, 2 * seconds]


@pytest.mark.parametrize("given", ["fast", "0", "-5", "0.9", "301", "nan", "inf", "5 s", " "])
def test_a_silence_that_makes_no_sense_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """The message names the variable, and what it takes."""
    monkeypatch.setenv("MULL_HEARTBEAT_SECONDS", given)

    said = "MULL_HEARTBEAT_SECONDS: expected seconds from 1 to 300"
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        silence()


@pytest.mark.parametrize(("seconds", "beats"), [(0.2, 0), (0.8, 2)])
def test_a_short_call_costs_no_heartbeat(seconds: float, beats: int) -> None:
    """The first one comes after half of the silence that is allowed."""
    environment, seen = ActivityEnvironment(), list[Any]()
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=1))
    environment.on_heartbeat = lambda *details: seen.append(details)

    async def work() -> None:
        async with heartbeating() as tell:
            tell(1, 2)
            await asyncio.sleep(seconds)

    virtually(environment.run(work))

    assert seen == [(1, 2)] * beats
