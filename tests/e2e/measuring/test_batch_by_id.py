"""A batch by its id: seen, listed, followed and ended like any run."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from tests.e2e.conftest import Cli
from tests.e2e.measuring.model import ALONE, EXAMPLES, JUDGE, written
from tests.patience import PATIENCE

SLOW = {**EXAMPLES[2], "draft": "slow, worth 0.6"}


async def detached(cli: Cli, client: Client, file: Path, run: str) -> str:
    """Begin a batch of two quick runs and a slow one, and wait until the slow one is left."""
    lines = written(file, *EXAMPLES[:2], SLOW)
    begun = cli("calibrate", lines, "--judge", JUDGE, "--id", run, "--detach", *ALONE)
    assert begun.stdout == f"{run}\n", begun.stderr
    async with asyncio.timeout(PATIENCE):
        while await progress(client, run) != (2, 1):
            await asyncio.sleep(0.2)
    return run


async def progress(client: Client, run: str) -> tuple[int, int]:
    try:
        seen = await client.get_workflow_handle(run).query("progress")
    except (RPCError, WorkflowQueryFailedError):
        return 0, 0
    return seen["done"], seen["running"]


def listed(cli: Cli, *where: str, until: Callable[[list[dict[str, Any]]], bool]) -> list[str]:
    """List ids once what is listed is so; the server's index is a moment behind."""
    for _ in range(20):
        rows = json.loads(cli("list", "--json", "--limit", "100", *where).stdout)["runs"]
        if until(rows):
            break
    return [each["id"] for each in rows]


async def test_a_batch_is_shown_and_finished(cli: Cli, client: Client, tmp_path: Path) -> None:
    """Who asks learns where it stands; finished, what it has counts, and findings are found."""
    run = await detached(cli, client, tmp_path / "labelled.jsonl", "by-id")

    standing = cli("show", run)
    document = json.loads(cli("show", run, "--json").stdout)
    finished = cli("finish", run, "--author", "ann")
    watched = cli("watch", run, "--json")
    shown = cli("show", run)

    findings = f"repeat the calibrate or compare command with --id {run}."
    assert "2 of 3 runs ended" in standing.stdout
    assert "1 running, 0 failed, 0 cancelled, 0 not started" in standing.stdout
    assert (document["done"], document["total"]) == (2, 3)
    assert finished.returncode == 0
    result = json.loads(watched.stdout)
    assert (result["stop_reason"], result["completed"]) == ("finished_by_person", 2)
    assert (watched.returncode, shown.returncode) == (0, 0)
    assert 'finished by "ann" (unverified) (finished_by_person)' in " ".join(shown.stdout.split())
    assert all(findings in " ".join(each.stderr.split()) for each in (standing, shown))


async def test_a_list_shows_batches_and_not_their_runs(
    cli: Cli, client: Client, tmp_path: Path
) -> None:
    """A batch that goes on stands with how far it is, and its runs only where they are wanted."""
    run = await detached(cli, client, tmp_path / "labelled.jsonl", "by-id-listed")

    every = listed(cli, until=lambda rows: any(each["id"] == run for each in rows))
    table = cli("list", "--limit", "100").stdout
    wanted = ("--where", f"ParentWorkflowId = '{run}'")
    children = listed(cli, *wanted, until=lambda rows: len(rows) == 3)
    scored = listed(cli, "--where", "MullScore >= 0 OR MullScore < 0", until=lambda _: True)
    cli("cancel", run)

    assert run in every
    assert not any("/" in each for each in every + scored)
    assert next(line.split()[1:3] for line in table.splitlines() if run in line) == ["2/3", "done"]
    assert sorted(children) == [f"{run}/{place}-judge-1-0" for place in range(3)]


async def test_what_a_batch_does_not_take_is_refused(
    cli: Cli, client: Client, tmp_path: Path
) -> None:
    """One line says why, and what there is instead."""
    run = await detached(cli, client, tmp_path / "labelled.jsonl", "refusing")
    again = f"the same calibrate command with --id {run} and --html page.html"
    refusals = {
        ("add", run, "7"): "only runs of `ask` take answers.",
        ("review", run): f"{run} is a batch of runs; it can't be reviewed.",
        ("review", run, "--accept"): f"{run} is a batch of runs; it can't be reviewed.",
        ("report", run, "--html", "page.html"): (
            f"{run} is a batch of runs. To write its findings, run {again}."
        ),
    }

    found = {command: cli(*command) for command in refusals}
    cli("cancel", run)

    assert {command: (done.returncode, done.stdout) for command, done in found.items()} == (
        dict.fromkeys(refusals, (2, ""))
    )
    assert {command: done.stderr for command, done in found.items()} == {
        command: f"Error: {said}\n" for command, said in refusals.items()
    }
