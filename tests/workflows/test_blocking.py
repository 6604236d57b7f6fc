"""The client without async, in threads, a running event loop and a script; and the import."""

import asyncio
import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

import mull
from mull.blocking import _Background
from tests.conftest import polling, until_asked
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel
from tests.workflows import own_import

SCRIPT = """\
import mull

try:
    print(mull.ask("How much?", id="NAME").final_answer)
except KeyboardInterrupt:
    print("detached")
"""


# Names that are rooms and modules of Mull's own, and of many a project.
TAKEN = ("workflows", "activities", "commands", "adapters", "bench", "tests")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of somebody's project, whose packages and modules are none of Mull's."""
    for name in TAKEN:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(__name__)")
    for name in ("worker", "telemetry", "service", "spans", "starter"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(__name__)")
    return tmp_path


def script(name: str, project: Path, source: str = SCRIPT) -> "subprocess.Popen[str]":
    """Start a script in a project of its own, whose process knows nothing of this one's loop."""
    return subprocess.Popen(
        [sys.executable, "-c", source.replace("NAME", name)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(Path(mull.__file__).parents[1])},
    )


async def test_threads_ask_at_once(client: Client) -> None:
    """They share one client, whose event loop is none of theirs."""
    model = ScriptedModel(sample=["129"] * 5)
    async with polling(client, model):
        asked = [asyncio.to_thread(mull.ask, f"How much is {number}?") for number in range(16)]
        answers = await asyncio.gather(*asked)

    assert [run.final_answer for run in answers] == ["129"] * 16
    assert len({run.id for run in answers}) == 16


async def test_an_error_reaches_its_caller(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """And another server is another client."""
    async with polling(client, ScriptedModel(sample=["129"] * 5)):
        with pytest.raises(mull.RequestError, match="max_responses"):
            await asyncio.to_thread(mull.ask, "How much?", max_responses=0)
        monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
        with pytest.raises(mull.NoServerError):
            await asyncio.to_thread(mull.ask, "How much?")
        monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
        again = await asyncio.to_thread(mull.ask, "How much?")

    assert again.final_answer == "129"


async def test_a_script_asks_and_ends(client: Client, project: Path) -> None:
    """Ctrl-C ends the wait and no more: the run goes on, and is found again by its id."""
    model = ScriptedModel(sample=["129"] * 5, delay=1)
    async with polling(client, model):
        interrupted = script("script-interrupted", project)
        await until_asked(model, 1)
        interrupted.send_signal(signal.SIGINT)
        detached = await asyncio.to_thread(interrupted.communicate, timeout=PATIENCE)
        done = script("script-interrupted", project)
        printed = await asyncio.to_thread(done.communicate, timeout=PATIENCE)

    assert (interrupted.returncode, *detached) == (0, "detached\n", "")
    assert (done.returncode, *printed) == (0, "129\n", "")
    assert len(model.calls) == 5


FORKED = """\
import os
import mull

print(mull.ask("How much?").final_answer, flush=True)
if child := os.fork():
    os.waitpid(child, 0)
else:
    print(mull.ask("How much?").final_answer, flush=True)
    os._exit(0)
"""


async def test_the_end_of_a_process_ends_its_calls_and_their_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else threads of the SDK's and the interpreter, which is taken down, wait for each other."""
    began, ended = threading.Event(), threading.Event()

    async def connect(**_: object) -> Client:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    monkeypatch.setattr("mull.connection.connect", connect)
    background = _Background()
    asking = threading.Thread(target=_give_up, args=[background])
    asking.start()
    await asyncio.to_thread(began.wait, PATIENCE)

    await asyncio.to_thread(background.end)
    await asyncio.to_thread(asking.join, PATIENCE)
    assert ended.is_set()
    assert not background._thread.is_alive()
    assert not asking.is_alive()


def _give_up(background: _Background) -> None:
    async def ask(client: mull.Client) -> None:
        await client.get("x")

    with suppress(concurrent.futures.CancelledError):
        background.run(ask)


async def test_a_process_that_is_forked_asks_by_a_client_of_its_own(
    client: Client, project: Path
) -> None:
    """As of a pool of processes, whose parent has asked before."""
    async with polling(client, ScriptedModel(sample=["129"] * 10)):
        asked = script("", project, FORKED)
        printed = await asyncio.to_thread(asked.communicate, timeout=PATIENCE)

    assert (asked.returncode, *printed) == (0, "129\n129\n", "")


WITHIN = """\
import asyncio
import mull
from mull.turn.result import ToolTurnResult

async def cell():
    return mull.ask("How much?"), mull.turn

async def mistaken():
    return await mull.ask("How much?", id="NAME")

run, turn = asyncio.run(cell())
print(run.final_answer, turn is mull.turn, callable(mull.batch), turn.__name__)
print(asyncio.run(mistaken()).final_answer)
"""


async def test_a_call_within_a_running_loop_blocks_it_and_works(
    client: Client, project: Path
) -> None:
    """As a cell of a notebook does, awaited or not; a room whose name is a function's is both."""
    async with polling(client, ScriptedModel(sample=["129"] * 10)):
        within = script("awaited", project, WITHIN)
        printed = await asyncio.to_thread(within.communicate, timeout=PATIENCE)

    assert printed == ("129 True True mull.turn\n129\n", "")


WHOLE = """\
import importlib, pkgutil, sys, time
import pydantic, temporalio.client

began = time.perf_counter()
import mull
lasted, began = time.perf_counter() - began, time.perf_counter()
missing = [name for name in mull.__all__ if getattr(mull, name, None) is None]
print(lasted, missing, {"litellm", "scipy", "numpy", "rich", "typer"} & set(sys.modules))
print(len(mull.__all__), dir(mull) == mull.__all__, mull.__version__)
for found in pkgutil.walk_packages(mull.__path__, "mull."):
    importlib.import_module(found.name)
"""


async def test_the_package_is_imported_in_no_time_and_needs_no_other_room(project: Path) -> None:
    """At most 0.1 s after the SDK's client and pydantic; what it lacks it gets when it is used."""
    whole = script("", project, WHOLE)
    printed, said = await asyncio.to_thread(whole.communicate, timeout=PATIENCE)

    lasted, _, rest = printed.partition(" ")
    assert (whole.returncode, said, rest) == (0, "", f"[] set()\n33 True {version('mull')}\n")
    assert float(lasted) <= 0.1


PREPARED = """\
import asyncio, os, sys
from temporalio.client import Client
from temporalio.worker import Worker
from flows import Plain

async def start():
    before = "mull.workflow" in sys.modules
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    Worker(client, task_queue="own", workflows=[Plain])
    print(before, "mull.workflow" in sys.modules)

asyncio.run(start())
"""


@pytest.mark.usefixtures("client")
async def test_a_worker_that_starts_loads_what_its_workflows_call(project: Path) -> None:
    """So no task of a workflow waits for it, whose worker would be taken for hung."""
    flow = Path(own_import.__file__)
    (project / "flows.py").write_text(flow.read_text())
    prepared = script("", project, PREPARED)

    assert await asyncio.to_thread(prepared.communicate, timeout=PATIENCE) == ("False True\n", "")


def test_a_wrong_keyword_is_found_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(mull.RequestError, match="Did you mean max_responses"):
        mull.ask("How much?", max_response=5)  # type: ignore[call-arg]
    with pytest.raises(mull.RequestError, match="max_steps"):
        mull.turn(message="Hello", max_steps=0)
    variant = {"name": "ask", "workflow": "SelfConsistencyWorkflow"}
    with pytest.raises(mull.RequestError, match="Did you mean answers"):
        mull.batch([{"question": "How much?", "answer": "number"}], variants=[variant])
    with pytest.raises(mull.NoServerError):
        mull.ask("How much?", check=True)


def test_a_client_that_is_not_connected_says_how() -> None:
    connecting: Any = mull.connect()
    with pytest.raises(AttributeError, match=r"m = await mull\.connect\(\)"):
        connecting.ask("How much?")


def test_what_the_package_lacks_it_says() -> None:
    """What a client alone has, since it has to be awaited, is told by its name."""
    with pytest.raises(AttributeError, match=r"'start': await it of a client, m = await"):
        mull.start  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"'aks'$"):
        mull.aks  # type: ignore[attr-defined]  # noqa: B018
