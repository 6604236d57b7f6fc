"""What runs cost in Temporal Actions, by the server's own metric, followed as users follow them."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import forks
from tests.chaos.stage import Stage
from tests.conftest import until
from tests.scripted_endpoint import Scripted

ASK = ("ask", "How much?", "--seed", "0", "--max-responses", "3")
ANSWER = json.dumps({"reasoning": "counted", "answer": "7"})


@pytest.mark.parametrize(
    ("environment", "most"), [({}, 40), ({"MULL_HEARTBEAT_SECONDS": "30"}, 15)], ids=["5 s", "30 s"]
)
async def test_a_followed_ask_costs_few_actions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], most: int
) -> None:
    """Three samples of 30 s are three calls and a start; all else is within the bound."""
    # The stage names its server there.
    monkeypatch.setenv("TEMPORAL_ADDRESS", "")
    async with Stage(tmp_path) as stage:
        stage.reply = lambda _: Scripted(ANSWER, delay=30)
        await stage.serve(**environment)
        known: dict[str, Any] = {"environment": dict(os.environ)}
        ended = await asyncio.to_thread(forks.run, "starter.py", *ASK, "--json", **known)
        actions = stage.actions()

    assert ended.returncode == 0, ended.stderr
    assert len(json.loads(ended.stdout)["responses"]) == 3
    assert "wave 1" in ended.stderr.lower()
    assert actions["command_ScheduleActivityTask"] == 3
    assert actions.total() <= most, actions


async def test_a_lost_worker_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run's history has nothing new, yet the command says that nobody answers."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "")
    log, lost = tmp_path / "ask.log", asyncio.Event()
    async with Stage(tmp_path) as stage:
        stage.reply = lambda _: Scripted(ANSWER, delay=0 if lost.is_set() else 60)
        await stage.serve()
        asking = forks.start(["starter.py", *ASK], dict(os.environ), log, log)
        await until(lambda: stage.endpoint.requests)
        lost.set()
        stage.kill_workers()
        await until(lambda: "no worker answers; the run waits for one" in log.read_text())
        assert asking.is_alive()
        await stage.serve()
        await until(lambda: not asking.is_alive())
        [run] = [run async for run in stage.client.list_workflows("")]
        begun = await anext(stage.client.get_workflow_handle(run.id).fetch_history_events())

    assert asking.exitcode == 0, log.read_text()
    started = begun.workflow_execution_started_event_attributes
    assert started.workflow_task_timeout.seconds == 5
