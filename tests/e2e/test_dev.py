"""`dev`, the command that stays, and `make demo`: embedded servers that leave nothing behind."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from temporalio.testing import WorkflowEnvironment

from activities.language_model import toy, toy_file
from commands import embedded
from commands.embedded import Place, free_port, is_free
from mull.connection import GRACE_SECONDS
from tests.conftest import until
from tests.e2e.conftest import ROOT, started
from tests.patience import PATIENCE, patiently
from worker import GRACE

# What `dev` sets where nobody else did.
SET = {"MULL_MODEL", "MULL_DOCUMENTS", "MULL_TASKS"}


def children(parent: int) -> dict[str, int]:
    found = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            known = re.search(r"^PPid:\s+(\d+)$", status.read_text(), re.MULTILINE)
            arguments = (status.parent / "cmdline").read_text()
        except OSError:
            continue
        if known and int(known[1]) == parent:
            name = re.search(r"worker(?=\.py)|page(?=\0)", arguments)
            found[name[0] if name else "server"] = int(status.parent.name)
    return found


def until_said(condition: str, log: Path) -> str:
    for _ in patiently():
        text = log.read_text()
        if re.search(condition, text):
            return text
    raise AssertionError(f"no {condition!r} in {log.read_text()!r}")


def run(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "starter.py", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_dev_replaces_a_killed_worker_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """The toy model answers after its worker was killed, and all of it ends at last.

    The worker has the environments that were given, reads tasks in the current folder, and serves
    Nexus where that was said. The page says where it is.
    """
    port, ui_port, said = free_port(), free_port(), tmp_path / "said"
    known = {name: value for name, value in os.environ.items() if name not in SET}
    known["TEMPORAL_ADDRESS"] = f"127.0.0.1:{port}"
    page_port = free_port()
    own = ["--environments", "examples/own_environment.py", "--nexus", f"--page-port={page_port}"]
    command = ["starter.py", "dev", "--port", str(port), "--ui-port", str(ui_port), *own]
    with said.open("wb") as output:
        database = ("--db", str(tmp_path / "dev.db"))
        dev = started(*command, *database, environment=known, stderr=output)
    try:
        hint = until_said("Try: ", said)
        until_said(rf"The page, .*: http://127\.0\.0\.1:{page_port}/\?token=", said)
        os.kill(children(dev.pid)["worker"], signal.SIGKILL)
        until_said(r"the worker ended with exit code -9 and is restarted", said)
        asked = run(known, "ask", "What is 2 + 3?", "--max-responses", "1")
        checked = run(known, "doctor", "--offline", "--json").stdout
        left = children(dev.pid)
        served = Path(f"/proc/{left['worker']}/cmdline").read_text().split("\0")
        others = ("--port", str(free_port()), "--ui-port", str(free_port()))
        second = run(known, "dev", *others, "--db", str(tmp_path / "dev.db"))
    finally:
        dev.send_signal(signal.SIGINT)
        code = dev.wait(PATIENCE)

    assert f"TEMPORAL_ADDRESS=127.0.0.1:{port} " in hint
    assert f"Documents {ROOT} (MULL_DOCUMENTS)\n" in hint
    assert asked.stdout.startswith("Final Answer: "), asked.stderr
    assert f"number; tasks are read from {ROOT}" in checked
    assert set(left) == {"worker", "server", "page"}
    assert "--nexus" in served
    assert (second.returncode, second.stderr.count("\n")) == (2, 2)
    assert f"another server uses {tmp_path / 'dev.db'}" in second.stderr
    assert code == 0
    assert is_free(port)
    assert is_free(ui_port)
    assert is_free(page_port)


def test_a_free_port_is_given_to_nobody_else() -> None:
    """Between the choice and the server that listens there, the system passes it over."""
    chosen = {free_port() for _ in range(200)}

    others = set()
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(3_000):
            with socket.create_connection(server.getsockname()) as client:
                others.add(client.getsockname()[1])
                server.accept()[0].close()

    assert len(others) > 1_000
    assert chosen & others == set()
    assert all(is_free(port) for port in chosen)


async def test_a_second_interrupt_ends_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first lets calls in flight end, and says how long they may take: as long as a worker's.

    The worker here is one that takes its time.
    """
    lasting = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)"
    (tmp_path / "worker.py").write_text(f"{lasting}; time.sleep(60)")

    async def all_served(*_: object) -> list[str]:
        return []

    monkeypatch.setattr(embedded, "ROOT", tmp_path)
    monkeypatch.setattr(embedded, "unserved", all_served)
    for name in ("TEMPORAL_ADDRESS", "MULL_WEB_UI", *SET):
        monkeypatch.setenv(name, "set")
    place = Place(free_port(), free_port(), tmp_path / "dev.db")
    staying = asyncio.create_task(embedded._stay(place, (), free_port()))
    await until(lambda: "Try: " in capsys.readouterr().err)
    await asyncio.to_thread(until_said, "up", tmp_path / "dev.log")

    os.kill(os.getpid(), signal.SIGINT)
    told: list[str] = []

    def so_far() -> str:
        told.append(capsys.readouterr().err)
        return "".join(told)

    first = await until(so_far, lambda said: "Ctrl-C again" in said)
    waits = not staying.done()
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(staying, PATIENCE)

    assert f"calls in flight have up to {max(GRACE.values())} s to end; Ctrl-C again" in first
    assert waits
    assert GRACE_SECONDS < embedded.STOP_SECONDS
    assert is_free(place.port)


@pytest.mark.parametrize("agrees", [True, False])
def test_in_a_terminal_the_user_is_asked_for_the_toy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], agrees: bool
) -> None:
    """Once, with its size and the alternative; who declines is told how to get it later."""
    asked: list[str] = []
    fetched: list[object] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return agrees

    monkeypatch.delenv("MULL_MODEL", raising=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(toy_file, "weights", lambda: None)
    monkeypatch.setattr(toy, "fetch", fetched.append)
    monkeypatch.setattr(typer, "confirm", confirm)

    if agrees:
        embedded._prepare_model(toy_wanted=False)
    else:
        with pytest.raises(typer.Exit):
            embedded._prepare_model(toy_wanted=False)

    said = capsys.readouterr().err
    assert ["98 MB" in question and "MULL_MODEL" in question for question in asked] == [True]
    assert len(fetched) == agrees
    assert os.environ.get("MULL_MODEL") == ("embedded/smollm2-135m" if agrees else None)
    assert ("mull dev --toy" in said) is not agrees
    os.environ.pop("MULL_MODEL", None)


async def test_without_temporal_the_sdk_downloads_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Once; it then has the same options as any other."""
    found, tried = embedded.server_command(Place(1, 2, tmp_path / "db")), []
    true_which = shutil.which

    class Started:
        async def shutdown(self) -> None:
            tried.append("ended")

    async def start_local(*, download_dest_dir: str, **_: object) -> Started:
        name = f"temporal-sdk-python-{version('temporalio')}"
        Path(download_dest_dir, name).symlink_to(found[0])
        tried.append("started")
        return Started()

    def which(name: str, path: str | Path | None = None) -> str | None:
        return None if name == "temporal" else true_which(name, path=path)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", which)
    monkeypatch.setattr(WorkflowEnvironment, "start_local", start_local)
    for _ in range(2):
        place = Place(free_port(), free_port(), tmp_path / "dev.db")
        async with embedded.temporal(place, tmp_path / "log"):
            assert not is_free(place.ui_port)

    assert tried == ["started", "ended"]
    assert embedded.server_command(Place(1, 2, tmp_path / "db"))[1:] == found[1:]


def test_the_demo_answers_and_leaves_nothing_running(root: Path, tmp_path: Path) -> None:
    """It shows waves, the answer, why it stopped, and how to see the run's page afterwards."""
    known = {name: value for name, value in os.environ.items() if name != "MULL_MODEL"}

    done = subprocess.run(
        [sys.executable, "-m", "commands.embedded"],
        cwd=tmp_path,
        env={**known, "PYTHONPATH": str(root), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^Final Answer: .* \(Confidence: \d\.\d\d, Uncertainty: \w+\)$", done.stdout, re.MULTILINE
    )
    assert "stopped" in done.stdout
    assert "wave 1" in done.stderr
    assert "a toy" in done.stderr
    page = re.search(r"http://127\.0\.0\.1:(\d+)/namespaces/default/workflows/ask-", done.stderr)
    assert page
    assert done.stderr.index("mull dev") < page.start()
    assert is_free(int(page[1]))
    spans = (tmp_path / "build" / "demo-spans.jsonl").read_text()
    assert '"name": "invoke_workflow SelfConsistencyWorkflow"' in spans
