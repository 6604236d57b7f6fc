"""What a worker's log leaves out, and what importing a module brings in, indirectly too."""

import asyncio
import json
import logging
import re
import subprocess
import sys
import warnings
from collections import deque
from pathlib import Path
from threading import Thread

import pytest
from temporalio.api.common.v1 import Payload

import service
from adapters import WorkerOptions, parse
from mull.keys import UnreadableError
from service import is_news, is_worth_reading, silence_ordinary

ROOT = Path(__file__).parents[2]


def printed(code: str, env: dict[str, str] | None = None) -> str:
    """Return what a process of its own prints."""
    command = [sys.executable, "-c", code]
    return subprocess.check_output(command, cwd=ROOT, text=True, env=env)


def test_nothing_but_its_adapter_imports_litellm() -> None:
    """LiteLLM costs seconds and much memory: only a worker that serves models pays them."""
    ours = "starter, mull.connection, mull.telemetry, worker, commands.start"
    ours += ", workflows.self_consistency"
    code = f"import sys, {ours}; print({{'litellm', 'xllamacpp', 'openai'}} & set(sys.modules))"

    assert printed(code) == "set()\n"


def test_what_training_needs_is_installed_for_it_alone() -> None:
    """It is in a lock of its own, without the gigabytes of CUDA's wheels; CI tests with both."""
    locks = ((ROOT / f"requirements{name}.lock").read_text() for name in ("", "-train"))
    usual, trains = ({*re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)} for lock in locks)
    heavy = {"torch", "transformers", "trl", "peft", "datasets"}

    assert (usual & heavy, trains & heavy) == (set(), heavy)
    assert not [name for name in trains if name.startswith(("nvidia", "triton"))]
    assert re.search(r"^make .*\btest-train$", (ROOT / ".ci/run").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--queues x", "'--queues': expected one or more of mull, llm, code, tools, train, comma-"),
        ("--metrics 9464", "'--metrics': expected HOST:PORT, such as 0.0.0.0:9464 or [::]:9464."),
        ("--calls-per-second 0", "'--calls-per-second': expected a number above 0."),
        ("--log xml", "'--log': 'xml' is not one of 'text', 'json'."),
        ("--mcp", "Option '--mcp' requires an argument: --mcp FILE."),
        ("--build-id=", "--build-id is empty."),
        ("--queues llm --mcp x", "for a worker of the queue tools."),
        ("--queues llm --nexus", "--nexus: only for a worker of the queue mull."),
        ("--queues llm --base x", "for a worker of the queue train."),
    ],
)
def test_wrong_options_are_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], given: str, said: str
) -> None:
    """Each names what was expected; a worker without options serves all queues."""
    with pytest.raises(SystemExit) as ended:
        parse(given.split())

    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (2, 1)
    assert told.startswith("Error: ")
    assert said in told
    assert parse([]) == WorkerOptions()


@pytest.mark.parametrize("queue", ["mull", "code"])
def test_a_worker_without_models_imports_little(queue: str) -> None:
    """It is ready in two seconds on a quiet machine: this bound is on its own CPU time."""
    heavy = "litellm openai mcp scipy numpy pypdf rich jinja2 httpx aiohttp cryptography"
    code = (
        f"import asyncio, sys, time, worker; asyncio.run(worker.confined(['{queue}']))\n"
        f"print({set(heavy.split())} & sys.modules.keys(), time.process_time())"
    )

    found, seconds = printed(code).rsplit(maxsplit=1)

    assert found == "set()"
    assert float(seconds) < 2.5


def test_telemetry_goes_nowhere_by_default() -> None:
    """Without an endpoint or a file no span is recorded, and no metric."""
    code = (
        "from mull import telemetry; from opentelemetry import trace\n"
        "telemetry.set_up(None)\n"
        "print(trace.get_tracer('t').start_span('s').is_recording(), telemetry.measure())"
    )

    assert printed(code, env={}) == "False None\n"


@pytest.mark.parametrize(
    ("message", "error", "left_out"),
    [
        ("Completing activity as failed", asyncio.CancelledError("Activity cancelled"), True),
        ("Completing activity as failed", ValueError("x"), False),
        ("Completing activity as failed", None, False),
        ("Exception handling failed", asyncio.CancelledError(), False),
    ],
)
def test_a_cancelled_call_is_no_trouble(
    message: str, error: BaseException | None, left_out: bool
) -> None:
    """Calls in flight end so whenever a run ends before them; all else is logged."""
    known = (type(error), error, None) if error else None
    record = logging.LogRecord("temporalio.activity", 30, "x.py", 1, message, (), known)

    assert is_worth_reading(record) is not left_out


RAISED = """\
from service import set_up_log
from temporalio import activity
from temporalio.exceptions import ApplicationError

set_up_log("STYLE")
for error in (ApplicationError("no model\\nx", type="NotFoundError"), ValueError("a bug")):
    try:
        raise error
    except Exception:
        activity.logger.warning("Completing activity as failed", exc_info=True)
"""


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_error_that_says_what_is_wrong_is_one_line(style: str) -> None:
    """A bug has its traceback, and so has every error in what machines read."""
    code = f"import sys; sys.stderr = sys.stdout\n{RAISED.replace('STYLE', style)}"
    first, *rest = printed(code).splitlines()

    if style == "json":
        assert "Traceback" in json.loads(first)["exception"]
        return
    assert first.endswith("Completing activity as failed: NotFoundError: no model x")
    assert rest[0].endswith("Completing activity as failed")
    assert (rest[1], rest[-1]) == ("Traceback (most recent call last):", "ValueError: a bug")


def test_runs_that_can_t_be_read_are_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has a line for each dropped signal; the SDK's core logs in a thread of its own."""
    monkeypatch.setattr(service, "_UNREADABLE", deque(maxlen=10_000))
    error = UnreadableError(Payload())

    def told(said: str, name: str = "temporalio.worker._workflow", *, core: bool = False) -> bool:
        known = None if core else (type(error), error, None)
        return is_news(logging.LogRecord(name, 30, "x.py", 1, said, (), known))

    def flood() -> None:
        for number in range(20_000):
            told(f"Failed activation on workflow with run ID {number}")

    flooding = Thread(target=flood)
    flooding.start()
    while flooding.is_alive():
        told("Failing workflow task run_id=none", core=True)

    assert told("Failed activation on workflow with run ID mine")
    dropped = "Failed deserializing signal input, run ID mine, dropping the signal"
    assert [told(dropped), told(dropped)] == [True, True]
    assert not told("Failed activation on workflow with run ID mine")
    assert not told("Failing workflow task run_id=mine", core=True)


def test_a_late_cancel_is_no_trouble() -> None:
    """The SDK's warning of one is left out, and no other warning."""
    activities = logging.getLogger("temporalio.activity")
    before = list(activities.filters)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        silence_ordinary()
        warnings.warn("Cannot find activity to cancel for token b'x'", stacklevel=1)
        warnings.warn("another", stacklevel=1)
    activities.filters[:] = before

    assert [str(warning.message) for warning in seen] == ["another"]
