"""The options of `agent`: each a field of the request, each mistake one line."""

import os
from pathlib import Path

import pytest
import typer
from temporalio.client import Client

from commands.session import say_unserved
from connection import connect
from reflection.multipath.request import MultiPathRequest
from tests.e2e.conftest import ROOT, Cli

PROMPT = "Write add(a, b)."
OPTIONS = {
    "docs": "docs/adr",
    "mode": "code",
    "model": "openai/scripted",
    "judge": "openai/judge",
    "embedding-model": "openai/embedding",
    "passages": "5",
    "max-revisions": "4",
    "language": "python",
    "entry": "add",
    "packages": "pandas, scipy",
    "wall-seconds": "3",
    "cpu-seconds": "2.5",
    "memory-mb": "128",
    "disk-mb": "16",
    "temperature": "0.1",
    "seed": "7",
    "max-output-tokens": "300",
    "budget-tokens": "9000",
    "budget-usd": "0.5",
    "budget-seconds": "60",
    "call-timeout": "20",
    "max-attempts": "2",
    "review-timeout": "90",
}

# Where no worker polls, a run waits, so that what it was asked for can be read at leisure.
IDLE = {"TEMPORAL_NAMESPACE": "idle"}


@pytest.fixture
async def idle(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client of the namespace that no worker serves."""
    assert client.namespace == "default"
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "idle")
    return await connect()


async def asked_for(client: Client, run: str) -> MultiPathRequest:
    history = await client.get_workflow_handle(run).fetch_history()
    given = history.events[0].workflow_execution_started_event_attributes.input.payloads
    [request] = await client.data_converter.decode(list(given), [MultiPathRequest])
    assert isinstance(request, MultiPathRequest)
    return request


async def test_each_option_is_a_field_of_the_request(
    cli: Cli, idle: Client, tmp_path: Path
) -> None:
    """What is typed arrives in the workflow's one input, a relative folder as an absolute one."""
    tests = tmp_path / "test_add.py"
    tests.write_text("from solution import add\n")
    switches = ["--no-creative", "--review-open", "--tests", str(tests)]
    options = [part for name, value in OPTIONS.items() for part in (f"--{name}", value)]

    done = cli("agent", PROMPT, *options, *switches, "--id", "agent-options", "--detach", **IDLE)

    assert (done.returncode, done.stdout) == (0, "agent-options\n"), done.stderr
    assert (await asked_for(idle, "agent-options")).model_dump() == {
        "prompt": PROMPT,
        "docs": str(ROOT / "docs/adr"),
        "mode": "code",
        "model": "openai/scripted",
        "judge": "openai/judge",
        "embedding_model": "openai/embedding",
        "passages": 5,
        "max_revisions": 4,
        "creative": False,
        "language": "python",
        "entry": "add",
        "tests": {"name": "test_add.py", "text": "from solution import add\n"},
        "packages": ("pandas", "scipy"),
        "limits": {
            "wall_seconds": 3.0,
            "cpu_seconds": 2.5,
            "memory_mb": 128,
            "disk_mb": 16,
            "processes": 64,
            "output_bytes": 1_000_000,
        },
        "temperature": 0.1,
        "seed": 7,
        "max_output_tokens": 300,
        "budget_tokens": 9000,
        "budget_usd": 0.5,
        "budget_seconds": 60.0,
        "call_timeout_seconds": 20.0,
        "max_attempts": 2,
        "review_open": True,
        "review_timeout_seconds": 90.0,
    }


async def test_a_request_without_options_has_the_defaults(cli: Cli, idle: Client) -> None:
    """What is not typed is not sent as something else."""
    cli("agent", PROMPT, "--id", "agent-plain", "--detach", **IDLE)

    assert await asked_for(idle, "agent-plain") == MultiPathRequest(prompt=PROMPT)


async def test_models_can_come_from_the_environment(cli: Cli, idle: Client) -> None:
    """MULL_JUDGE_MODEL stands for --judge, and MULL_MODEL for --model."""
    known = {"MULL_JUDGE_MODEL": "openai/judge", "MULL_MODEL": "openai/scripted", **IDLE}

    cli("agent", PROMPT, "--id", "agent-environment", "--detach", **known)

    asked = await asked_for(idle, "agent-environment")
    assert (asked.judge, asked.model) == ("openai/judge", "openai/scripted")


def test_a_worker_for_code_is_missed_where_code_is_wanted(cli: Cli) -> None:
    """Without one, `--mode code` is refused, and a run that may need none is not."""
    wanted = cli("agent", PROMPT, "--mode", "code", **IDLE)
    unknown = cli("agent", PROMPT, "--detach", **IDLE)

    assert (wanted.returncode, wanted.stdout) == (3, "")
    assert 'no worker is polling task queues "mull" and "mull-llm" and "mull-code"' in wanted.stderr
    assert unknown.returncode == 0
    assert 'polling task queue "mull-code"; a run that needs it waits for one' in unknown.stderr


def test_where_only_code_is_not_served_that_worker_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command to type starts the worker that is missing, and no more."""
    with pytest.raises(typer.Exit) as ended:
        say_unserved(["mull-code"], "run", waits=False)

    said = capsys.readouterr().err
    assert ended.value.exit_code == 3
    assert "Start one with `mull-worker --queues code`, or an embedded one" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([""], "prompt: "),
        ([], "Missing argument 'prompt'. `mull agent --help` says more."),
        ([PROMPT, "--nothing"], "No such option: --nothing"),
        ([PROMPT, "--seed", "x"], "Invalid value for '--seed'"),
        ([PROMPT, "--docs"], "Option '--docs' requires an argument"),
        ([PROMPT, "--mode", "guess"], "--mode: should be 'research' or 'code'"),
        ([PROMPT, "--language", "rust"], "--language: "),
        ([PROMPT, "--docs", " "], "--docs: name a folder"),
        ([PROMPT, "--tests", "/nowhere"], "--tests: /nowhere can't be read: "),
        ([PROMPT, "--tests", os.devnull], "--tests: text: "),
        ([PROMPT, "--entry", "a b"], "--entry: "),
        ([PROMPT, "--packages", "a;b"], "--packages: "),
        ([PROMPT, "--passages", "21"], "--passages: "),
        ([PROMPT, "--max-revisions", "0"], "--max-revisions: "),
        ([PROMPT, "--memory-mb", "1"], "--memory-mb: "),
        ([PROMPT, "--budget-usd", "nan"], "--budget-usd: "),
        ([PROMPT, "--entry", "add", "--mode", "research"], "--entry is for code, and --mode"),
        ([PROMPT, "--out", "/nowhere/x.py"], "--out: there is no folder /nowhere"),
        ([PROMPT, "--out", "."], "--out: . is a folder"),
        ([PROMPT, "--out", "x.py", "--detach"], "--out needs the run to be followed"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(cli: Cli, arguments: list[str], said: str) -> None:
    """Each mistake is named on standard error, without a traceback, and no run is started."""
    done = cli("agent", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
