"""A worker with a model that researches and codes as it is told in the prompt."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from commands.local.embedded import Place
from tests.e2e.agent.model import working
from tests.e2e.conftest import ROOT, Cli


@pytest.fixture(scope="module")
def environment(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with working(place, tmp_path_factory.mktemp("agent")) as found:
        yield found


@pytest.fixture(scope="module")
def cli(environment: dict[str, str]) -> Cli:
    """Run a command to its end, once every queue has a worker."""

    def run(*arguments: str, stdin: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "starter.py", *arguments],
            cwd=ROOT,
            env={**environment, **more},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    for _ in range(60):
        looked = run("doctor", "--json")
        if looked.returncode != 3:
            return run
        time.sleep(0.5)
    pytest.fail(f"the worker did not start: {looked.stdout}")
