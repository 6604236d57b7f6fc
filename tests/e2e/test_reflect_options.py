"""The options of `reflect`: each a field of the request, each mistake one line."""

from pathlib import Path

import pytest
from temporalio.client import Client

from connection import connect
from reflection.critique.request import ReflectOnResultRequest
from tests.e2e.conftest import NO_KEY, Cli

QUERY = "Compare Kafka and Pulsar for an audit log."
OPTIONS = {
    "model": "openai/scripted",
    "temperature": "0.1",
    "seed": str(NO_KEY),
    "max-output-tokens": "300",
    "judge-max-output-tokens": "5000",
    "panel": "median",
    "confidence-threshold": "0.8",
    "max-revisions": "2",
    "min-gain": "0.05",
    "format": "markdown",
    "complexity": "0.9",
    "min-complexity": "0.4",
    "budget-tokens": "9000",
    "budget-usd": "0.5",
    "budget-seconds": "60",
    "call-timeout-seconds": "20",
    "max-attempts": "2",
    "review-below": "0.3",
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


async def asked_for(client: Client, run: str) -> ReflectOnResultRequest:
    history = await client.get_workflow_handle(run).fetch_history()
    given = history.events[0].workflow_execution_started_event_attributes.input.payloads
    [request] = await client.data_converter.decode(list(given), [ReflectOnResultRequest])
    assert isinstance(request, ReflectOnResultRequest)
    return request


async def test_each_option_is_a_field_of_the_request(
    cli: Cli, idle: Client, tmp_path: Path
) -> None:
    """What is typed arrives in the workflow's one input."""
    (tmp_path / "draft").write_text("Mine.")
    (tmp_path / "source").write_text("Kafka is a log.")
    lists = [
        "--judge", "openai/a", "--judge", "openai/b", "--criterion", "tone*2=It is courteous.",
        "--guardrail", "refusal", "--source", str(tmp_path / "source"),
        "--draft", str(tmp_path / "draft"), "--no-reflect", "--synthesis-follows",
    ]  # fmt: skip
    options = [part for name, value in OPTIONS.items() for part in (f"--{name}", value)]

    done = cli("reflect", QUERY, *options, *lists, "--id", "every-option", "--detach", **IDLE)

    assert (done.returncode, done.stdout) == (0, "every-option\n"), done.stderr
    assert (await asked_for(idle, "every-option")).model_dump() == {
        "query": QUERY,
        "draft": "Mine.",
        "model": "openai/scripted",
        "judges": ("openai/a", "openai/b"),
        "panel": "median",
        "criteria": ({"name": "tone", "meaning": "It is courteous.", "weight": 2.0},),
        "score_threshold": 0.8,
        "max_revisions": 2,
        "min_gain": 0.05,
        "guardrails": ("default", "refusal"),
        "format": "markdown",
        "sources": ("Kafka is a log.",),
        "reflect": False,
        "synthesis_follows": True,
        "min_complexity": 0.4,
        "complexity": 0.9,
        "temperature": 0.1,
        "seed": NO_KEY,
        "max_output_tokens": 300,
        "judge_max_output_tokens": 5000,
        "budget_tokens": 9000,
        "budget_usd": 0.5,
        "budget_seconds": 60.0,
        "call_timeout_seconds": 20.0,
        "max_attempts": 2,
        "review_below": 0.3,
        "review_timeout_seconds": 90.0,
    }


async def test_a_request_without_options_has_the_defaults(cli: Cli, idle: Client) -> None:
    """What is not typed is not sent as something else."""
    cli("reflect", QUERY, "--id", "no-option", "--detach", **IDLE)

    asked = await asked_for(idle, "no-option")

    assert asked == ReflectOnResultRequest(query=QUERY)


async def test_guardrails_can_be_left_out(cli: Cli, idle: Client) -> None:
    """Without the default ones, those that are named remain."""
    cli(
        "reflect",
        QUERY,
        "--no-guardrails",
        "--guardrail",
        "refusal",
        "--id",
        "own",
        "--detach",
        **IDLE,
    )

    assert (await asked_for(idle, "own")).guardrails == ("refusal",)


async def test_a_judge_can_come_from_the_environment(cli: Cli, idle: Client) -> None:
    """MULL_JUDGE_MODEL stands for --judge, and MULL_MODEL for --model."""
    known = {"MULL_JUDGE_MODEL": "openai/judge", "MULL_MODEL": "openai/scripted", **IDLE}

    cli("reflect", QUERY, "--id", "from-environment", "--detach", **known)

    asked = await asked_for(idle, "from-environment")
    assert (asked.judges, asked.model) == (("openai/judge",), "openai/scripted")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([""], "query: "),
        ([QUERY, "--draft", "/nowhere"], "--draft: /nowhere can't be read: "),
        ([QUERY, "--draft", "/dev/null"], "draft: there is nothing in it"),
        ([QUERY, "--source", "/nowhere"], "--source: /nowhere can't be read: "),
        (["-", "--draft", "-"], "QUERY and --draft can't both be standard input"),
        ([QUERY, "--criteria", "luck"], "--criteria: one of general, "),
        ([QUERY, "--criterion", "tone"], "--criterion: write NAME[*WEIGHT]=MEANING"),
        ([QUERY, "--criterion", "a=b", "--criterion", "a=c"], "two criteria have the same name"),
        ([QUERY, "--judge", "a", "--judge", "a"], "two judges are the same model"),
        ([QUERY, "--panel", "best"], "panel: should be 'mean' or 'median'"),
        ([QUERY, "--format", "yaml"], "format: should be 'json', 'python' or 'markdown'"),
        (
            [QUERY, "--guardrail", "luck"],
            "--guardrail: there is no guardrail luck; there are ",
        ),
        ([QUERY, "--score-threshold", "1.5"], "score_threshold: "),
        ([QUERY, "--max-revisions", "11"], "max_revisions: "),
        ([QUERY, "--review-timeout", "0"], "review_timeout_seconds: "),
        ([QUERY, "--budget-usd", "nan"], "budget_usd: "),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(cli: Cli, arguments: list[str], said: str) -> None:
    """Each mistake is named on standard error, without a traceback, and no run is started."""
    done = cli("reflect", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["show"], ["watch"], ["review"], ["cancel"]])
async def test_a_run_of_another_type_is_refused(
    cli: Cli, client: Client, command: list[str]
) -> None:
    """An id of a workflow that Mull did not start is refused."""
    run = f"order-{command[0]}"
    handle = await client.start_workflow("OrderWorkflow", id=run, task_queue="orders")

    done = cli(*command, run)
    await handle.terminate()

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: This workflow was not started by Mull.\n"


async def test_drafts_that_nobody_can_be_asked_for_are_said_to_be(cli: Cli, idle: Client) -> None:
    """Where a run was terminated and no worker answers, the user is told why there is no draft."""
    cli("reflect", QUERY, "--id", "terminated", "--detach", **IDLE)
    await idle.get_workflow_handle("terminated").terminate()

    done = cli("show", "terminated", **IDLE)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: the run was terminated. No worker answers, so its drafts can't be read just now.\n"
    )
