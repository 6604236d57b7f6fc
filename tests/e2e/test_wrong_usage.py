"""Mistakes at the command line: one clear line, the right exit code, no traceback."""

import pytest
from temporalio.client import Client

from mull.connection import connect
from tests.e2e.conftest import Cli

# No worker serves this namespace.
IDLE = {"TEMPORAL_NAMESPACE": "idle"}
SUM = "What is the sum of the first 10 prime numbers?"


# A command, its variables, and the one line that is said.
WRONG: list[tuple[tuple[str, ...], dict[str, str], str]] = [
    (("show", "no-such-run"), {}, "no run has the id"),
    (("finish", "no-such-run"), {}, "no run has the id"),
    (("report", "no-such-run", "--html", "x.html"), {}, "no run has the id"),
    (("traces", "no-such-run"), {}, "no run has the id"),
    (("traces", "any", "--send"), {}, "--send: set OTEL_EXPORTER_OTLP_ENDPOINT"),
    (("ask", SUM), {"TEMPORAL_NAMESPACE": "nope"}, "Error: Namespace nope is not found"),
    (("ask", SUM), {"TEMPORAL_ADDRESS": "http://127.0.0.1:1"}, "Error: TEMPORAL_ADDRESS: "),
    (("ask", SUM), {"TEMPORAL_CONFIG_FILE": "LICENSE"},
     "Error: Temporal's configuration: a broken file.\n"),
    (("ask", SUM), {"TEMPORAL_PROFILE": "nope"}, "Error: Temporal's configuration: "),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "variables", "said"), WRONG)
def test_wrong_usage_is_one_line_and_exit_code_2(
    cli: Cli, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    done = cli(*arguments, **variables)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_no_server_is_two_lines_and_exit_code_3(cli: Cli) -> None:
    done = cli("ask", SUM, TEMPORAL_ADDRESS="127.0.0.1:9")

    assert done.returncode == 3
    assert done.stderr == (
        "Error: no Temporal server answers at 127.0.0.1:9.\n"
        "Start one with `mull dev`, or set TEMPORAL_ADDRESS.\n"
    )


def test_no_worker_is_two_lines_and_exit_code_3(cli: Cli) -> None:
    """A queue that nobody polls is the commonest hang: it is said before a run is started."""
    cli("show", "warm-up", **IDLE)

    done = cli("ask", SUM, **IDLE)
    waits = cli("ask", SUM, "--detach", "--id", "waiting", **IDLE)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        'Error: no worker is polling task queues "mull" and "mull-llm".\n'
        "Start one with `mull-worker`, or an embedded one with `mull dev`.\n"
    )
    assert (waits.returncode, waits.stdout) == (0, "waiting\n")
    assert "the run waits for a worker" in waits.stderr


@pytest.mark.parametrize("command", [["show"], ["review"]])
async def test_a_run_of_another_type_is_refused(
    cli: Cli, client: Client, command: list[str]
) -> None:
    run = f"order-{command[0]}"
    handle = await client.start_workflow("OrderWorkflow", id=run, task_queue="orders")

    done = cli(*command, run)
    await handle.terminate()

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: the workflow {run} was not started by Mull.\n"


async def test_drafts_that_nobody_can_be_asked_for_are_said_to_be(
    cli: Cli, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a run was terminated and no worker answers, the user is told why there is no draft."""
    assert client.namespace == "commands"
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "idle")
    cli("reflect", SUM, "--id", "terminated", "--detach", **IDLE)
    await (await connect()).get_workflow_handle("terminated").terminate()

    done = cli("show", "terminated", **IDLE)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: the run was terminated. No worker answers, so its drafts can't be read now.\n"
    )


def test_a_worker_for_code_is_missed_where_code_is_wanted(cli: Cli) -> None:
    wanted = cli("agent", "Write add(a, b).", "--mode", "code", **IDLE)
    unknown = cli("agent", "Write add(a, b).", "--detach", **IDLE)

    assert (wanted.returncode, wanted.stdout) == (3, "")
    assert 'no worker is polling task queues "mull" and "mull-llm" and "mull-code"' in wanted.stderr
    assert unknown.returncode == 0
    assert (
        'polling task queue "mull-code"; a run that needs it waits for a worker' in unknown.stderr
    )


@pytest.mark.parametrize("given", ["nonsense =", "Foo = 1", "MullConfidence < high"])
def test_a_filter_that_can_t_be_read_comes_with_an_example(cli: Cli, given: str) -> None:
    done = cli("list", "--where", given)

    assert (done.returncode, done.stdout) == (2, "")
    assert "the server can't read this filter. It compares MullStopReason, " in done.stderr
    assert "SQL" not in done.stderr


def test_a_filter_without_a_match_is_not_an_empty_list(cli: Cli) -> None:
    done = cli("list", "--where", "MullModel = 'none'")

    assert (done.returncode, done.stderr) == (0, "No run matches this filter.\n")
