"""Alerts fire when they must, go on firing, and else do not: by Prometheus' own rules."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from temporalio.client import Client

from activities import doctor
from activities.doctor import versions_in_use
from commands.embedded import free_port
from mull.connection import connect, pollers
from mull.queues import REQUIRED
from tests import forks
from tests.conftest import begin
from tests.deploy.conftest import ALERTS, RULES, documents
from tests.e2e.test_service import get
from tests.patience import PATIENCE
from tests.workflows.test_versions import Held, make_current, serving, until_begun

TESTS = Path(__file__).with_name("alerts.yaml")
TWO_HOURS = 120  # in minutes


def promtool(*arguments: str) -> None:
    """Run Prometheus' own tool; .ci/run has it installed, and ends without it."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed, which comes with Prometheus")
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_alert_fires_when_it_must() -> None:
    """Also two hours later, while its cause is there; and not before, nor without a cause."""
    promtool("test", "rules", str(TESTS))


@pytest.mark.parametrize("name", [rule["alert"] for rule in RULES])
def test_each_alert_has_its_tests(name: str) -> None:
    """One where it fires, one two hours later, and one where it does not."""
    firing: list[int] = []
    quiet: list[int] = []
    for test in documents(TESTS)[0]["tests"]:
        for case in test["alert_rule_test"]:
            if case["alertname"] == name:
                minutes = int(case["eval_time"].removesuffix("m"))
                (firing if case["exp_alerts"] else quiet).append(minutes)

    assert quiet
    assert len(firing) > 1
    assert max(firing) >= TWO_HOURS


@pytest.fixture
async def rollout(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client of a namespace in which nobody else has versions."""
    del client  # it has set the server's address
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "rollout")
    return await connect()


def diagnose() -> tuple[int, dict[str, Any]]:
    """Ask `doctor`; return its exit code and each check that is not ok, by name."""
    settings = {**os.environ, "PATH": os.defpath}
    done = forks.run("starter.py", "doctor", "--offline", "--json", environment=settings)
    checks = json.loads(done.stdout)["checks"]
    return done.returncode, {each["name"]: each["said"] for each in checks if each["state"] != "ok"}


async def unserved(client: Client) -> dict[str, list[str]]:
    """Return the queues that each version in use lacks."""
    return {each.build_id: each.unserved for each in await versions_in_use(client, REQUIRED)}


async def test_a_version_without_a_worker_is_named(
    rollout: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a worker of the old one polls the queue: `doctor` says so, and the alert fires.

    Once the new one's has come, neither does, and when that has died, both again.
    """
    address, log = f"127.0.0.1:{free_port()}", tmp_path / "log"
    command = ["worker.py", "--queues", "mull", "--build-id", "0.2.0", "--metrics", address]
    said = "Version 0.2.0 (current) has no worker on mull-llm: its runs wait."
    dead = ("mull-llm", "0.2.0")

    async def survivors(client: Client, queue: str) -> set[tuple[str, str]]:
        return {each for each in await pollers(client, queue) if (queue, each[1]) != dead}

    async with serving(rollout, "0.1.0", Held()):
        await make_current(rollout, "0.1.0")
        run = await begin(rollout, {"question": "How much?"})
        await until_begun(run)
        async with serving(rollout, "0.2.0", Held(), ["mull"]):
            await make_current(rollout, "0.2.0")
            process = forks.start(command, dict(os.environ), log, log)
            try:
                samples = await waiting(address)
                code, wrong = await asyncio.to_thread(diagnose)
            finally:
                process.terminate()
                process.join(PATIENCE)
            async with serving(rollout, None, Held(), ["llm"]):
                assert (await unserved(rollout))["0.2.0"] == []
            async with serving(rollout, "0.2.0", Held(), ["llm"]):
                await until_served(rollout)
                with monkeypatch.context() as patched:
                    patched.setattr(doctor, "pollers", survivors)
                    assert await unserved(rollout) == {"0.1.0": [], "0.2.0": ["mull-llm"]}
        await run.terminate()

    assert (code, wrong["version 0.2.0"]) == (3, said)
    assert "of the current version is polling" in wrong["mull-llm"]
    assert "version 0.1.0" not in wrong
    fired(samples, tmp_path)


async def waiting(address: str) -> list[str]:
    """Scrape a worker until it says that a version waits."""
    async with asyncio.timeout(PATIENCE):
        while True:
            _, text = await asyncio.to_thread(get, f"http://{address}/metrics")
            found = [line for line in text.splitlines() if line.startswith("mull_version_unserved")]
            if any(line.endswith(" 1") for line in found):
                return found
            await asyncio.sleep(0.1)


async def until_served(client: Client) -> None:
    """Wait until the server knows of the new version's worker."""
    async with asyncio.timeout(PATIENCE):
        while (await unserved(client))["0.2.0"]:
            await asyncio.sleep(0.1)


def fired(samples: list[str], folder: Path) -> None:
    """Have the alert fire for what was scraped, and for nothing else."""
    series = [
        {"series": name, "values": f"{value}x10"}
        for name, _, value in (line.rpartition(" ") for line in samples)
    ]
    version = {"build_id": "0.2.0", "task_queue": "mull-llm"}
    [rule] = [rule for rule in RULES if rule["alert"] == "MullVersionNotServed"]
    told = {
        "summary": "Version 0.2.0 has no worker on mull-llm: its runs wait.",
        "runbook_url": rule["annotations"]["runbook_url"],
    }
    alert = {"exp_labels": {**version, **rule["labels"]}, "exp_annotations": told}
    case = {"alertname": rule["alert"], "eval_time": "5m", "exp_alerts": [alert]}
    test = {"interval": "1m", "input_series": series, "alert_rule_test": [case]}
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [test]}))
    promtool("test", "rules", str(path))
