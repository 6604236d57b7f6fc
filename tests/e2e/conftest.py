"""A worker process of its own with a scripted endpoint, and the command line as users run it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from temporalio.client import Client

from commands.embedded import Place
from mull.connection import connect
from tests import forks
from tests.e2e.model import replied
from tests.patience import PATIENCE, patiently
from tests.scripted_endpoint import Replies, ScriptedEndpoint

ROOT = Path(__file__).parents[2]
Stream = int | BinaryIO | None
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@contextmanager
def worker(environment: dict[str, str], log: Path, *options: str) -> Iterator[ForkServerProcess]:
    process = forks.start(["worker.py", *options], environment, log, log)
    try:
        yield process
    finally:
        process.terminate()
        process.join(PATIENCE)


def started(
    *arguments: str, environment: dict[str, str], stdout: Stream = None, stderr: Stream = None
) -> "subprocess.Popen[str]":
    """Start a program of Python that a test stops."""
    command = [sys.executable, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=stdout, stderr=stderr
    )


@contextmanager
def sink(exported: list[bytes]) -> Iterator[str]:
    """Take what is exported by OTLP over HTTP; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            exported.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def commands_beside(place: Place, namespace: str) -> dict[str, str]:
    """Return the environment of commands that use this namespace, in a terminal of 80 columns."""
    server = {"TEMPORAL_ADDRESS": place.address, "TEMPORAL_NAMESPACE": namespace}
    shown = {"MULL_WEB_UI": place.web_ui, "NO_COLOR": "1", "COLUMNS": "80"}
    return {**os.environ, "MULL_SETTINGS": os.devnull, **server, **shown}


@contextmanager
def serving(
    place: Place,
    namespace: str,
    folder: Path,
    model: Replies = replied,
    options: Sequence[str] = (),
    /,
    **own: str,
) -> Iterator[tuple[dict[str, str], ScriptedEndpoint]]:
    """Serve a namespace with this model; yield the environment of commands beside it."""
    known = commands_beside(place, namespace)
    with ScriptedEndpoint(model) as endpoint:
        own |= {"MULL_MODEL": "openai/scripted", "OPENAI_API_BASE": endpoint.url}
        own |= {"OPENAI_API_KEY": "sk-secret"}
        with worker({**known, **own}, folder / "log", *options):
            yield known, endpoint


def served(cli: Cli, *command: str) -> Cli:
    for _ in patiently():
        done = cli(*command)
        if done.returncode == 0:
            return cli
    pytest.fail(f"the worker did not start: {done.stderr}")


@pytest.fixture(scope="session")
def environment(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    nowhere = {"HOSTED_VLLM_API_BASE": "http://127.0.0.1:9/v1"}
    with serving(place, "commands", tmp_path_factory.mktemp("worker"), **nowhere) as (known, _):
        yield {**known, **nowhere}


@pytest.fixture
async def client(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Client:
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"):
        monkeypatch.setenv(name, environment[name])
    return await connect()


@pytest.fixture(scope="module")
def cli(environment: dict[str, str]) -> Cli:
    def run(*arguments: str, stdin: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        known = {**environment, **more}
        return forks.run("starter.py", *arguments, environment=known, stdin=stdin)

    return served(run, "ask", "ready?", "--seed", "0", "--max-responses", "1")


def listed(cli: Cli, run: str) -> dict[str, Any]:
    """Return a run's row of the list once it has ended."""
    for _ in patiently():
        for row in json.loads(cli("list", "--json").stdout)["runs"]:
            if row["id"] == run and row["status"] == "completed":
                return dict(row)
    pytest.fail(f"{run} is not listed as completed")


def until_waiting(cli: Cli, run: str) -> "subprocess.CompletedProcess[str]":
    """Wait until a run can be reviewed, and return what `review` shows of it."""
    for _ in patiently():
        shown = cli("review", run)
        if shown.returncode == 0:
            return shown
    pytest.fail("the run is not waiting for a review")
