"""Backup and restore as docs/deploy.md has it: the database and the keys, and all else is lost.

The development server's database is SQLite's. What dumps PostgreSQL's was tried by hand.
"""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from commands.embedded import Place, free_port, server_command
from tests import forks
from tests.conftest import _wait_for
from tests.e2e.conftest import Cli, commands_beside, until_waiting
from tests.e2e.model import SLOW, STAYS_LOW, replied
from tests.e2e.test_review import LOW, QUERY
from tests.patience import patiently
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint
from tests.workflows.test_encryption import key


@contextmanager
def installed(folder: Path, model: str) -> Iterator[Cli]:
    """Run a server on the folder's database and a worker with its keys; kill both in the end."""
    place = Place(free_port(), free_port(), folder / "temporal.db")
    log = folder / "log"
    environment = {
        **commands_beside(place, "default"),
        "MULL_ENCRYPTION_KEYS": f"@{folder}/keys",
        "MULL_MODEL": "openai/scripted",
        "OPENAI_API_BASE": model,
        "OPENAI_API_KEY": "sk-secret",
    }

    def cli(*arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return forks.run("starter.py", *arguments, environment={**environment, **more})

    with log.open("wb") as output:
        server = subprocess.Popen(server_command(place), stdout=output, stderr=output)
    worker = None
    try:
        _wait_for(place, server, log)
        worker = forks.start(["worker.py", "--queues", "mull,llm"], environment, log, log)
        yield cli
    finally:
        if worker is not None:
            worker.kill()
        server.kill()
        server.wait()


def test_runs_go_on_from_a_backup(tmp_path: Path) -> None:
    first, backup, second = (tmp_path / name for name in ("first", "backup", "second"))
    first.mkdir()
    backup.mkdir()
    (first / "keys").write_text(key("main-1"))
    (first / "keys").chmod(0o600)
    lost = False

    def quick_once_lost(request: Body) -> Scripted:
        seed = request["seed"]
        return replied({**request, "seed": seed - SLOW * (lost and SLOW <= seed < STAYS_LOW)})

    with ScriptedEndpoint(quick_once_lost) as endpoint:
        with installed(first, endpoint.url) as cli:
            waiting = cli("reflect", QUERY, *LOW, "--detach").stdout.strip()
            asked = ("--seed", str(SLOW), "--max-responses", "1", "--detach")
            calling = cli("ask", "How much?", *asked).stdout.strip()
            until_waiting(cli, waiting)
            for _ in patiently():
                if any(each.get("seed") == SLOW for each in endpoint.requests):
                    break
            else:
                pytest.fail("the model was not called")
            database = first / "temporal.db"
            with closing(sqlite3.connect(database)) as live, closing(
                sqlite3.connect(backup / "temporal.db")
            ) as copy:  # fmt: skip
                live.backup(copy)
            shutil.copy2(first / "keys", backup)
        shutil.rmtree(first)
        lost = True

        shutil.copytree(backup, second)
        with installed(second, endpoint.url) as cli:
            until_waiting(cli, waiting)
            accepted = cli("review", waiting, "--accept", "--author", "ann")
            reviewed = json.loads(cli("watch", waiting, "--json").stdout)
            answered = json.loads(cli("watch", calling, "--json").stdout)
            (second / "keys").write_text(key("main-2"))
            without = cli("show", waiting)

    assert accepted.returncode == 0, accepted.stderr
    assert (reviewed["stop_reason"], reviewed["draft"]) == (
        "accepted_by_person",
        "Draft 2, worth 0.45.",
    )
    assert answered["final_answer"] == "129"
    assert without.returncode == 2
    assert "encrypted with the key 'main-1'" in without.stderr
