"""Mistakes at the command line: one clear line, the right exit code, no traceback."""

import pytest

from tests.e2e.conftest import AGREE, Cli

SUM = "What is the sum of the first 10 prime numbers?"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", ""], "question: "),
        (["ask", SUM, "--min-responses", "6", "--max-responses", "5"], "min_responses (6)"),
        (["ask", SUM, "--confidence-threshold", "1.5"], "--confidence-threshold: "),
        (["ask", SUM, "--rule", "luck"], "--rule: "),
        (["ask", SUM, "--budget-usd", "nan"], "--budget-usd: "),
        (["ask", SUM, "--prompt-template", "/nowhere"], "can't be read"),
        (["show", "no-such-run"], "no run with this id"),
        (["watch", "no-such-run"], "no run with this id"),
        (["finish", "no-such-run"], "no run with this id"),
        (["cancel", "no-such-run"], "no run with this id"),
        (["add", "no-such-run", "7"], "no run with this id"),
        (["report", "no-such-run", "--html", "x.html"], "no run with this id"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(cli: Cli, arguments: list[str], said: str) -> None:
    """Each mistake is named on standard error, without a traceback."""
    done = cli(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_question_of_5_mb_is_refused(cli: Cli) -> None:
    """The size and the bound are said, and no run is started."""
    done = cli("ask", "-", stdin="a" * 5_000_000)

    assert done.returncode == 2
    assert done.stderr == "Error: question: 5,000,000 bytes, and at most 100,000 are taken.\n"


def test_no_server_is_two_lines_and_exit_code_3(cli: Cli) -> None:
    """A command that reaches nobody says where it looked and how to get a server."""
    done = cli("ask", SUM, TEMPORAL_ADDRESS="127.0.0.1:9")

    assert done.returncode == 3
    assert done.stderr == (
        "Error: no Temporal server answers at 127.0.0.1:9.\n"
        "Start one with `mull dev`, or set TEMPORAL_ADDRESS.\n"
    )


def test_no_worker_is_two_lines_and_exit_code_3(cli: Cli) -> None:
    """A queue that nobody polls is the commonest hang: it is said before a run is started."""
    cli("show", "warm-up", TEMPORAL_NAMESPACE="idle")

    done = cli("ask", SUM, TEMPORAL_NAMESPACE="idle")
    waits = cli("ask", SUM, "--detach", "--id", "waiting", TEMPORAL_NAMESPACE="idle")

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "Error: no worker is polling task queues \"mull\" and \"mull-llm\".\n"
        "Start one with `mull-worker`, or an embedded one with `mull dev`.\n"
    )
    assert (waits.returncode, waits.stdout) == (0, "waiting\n")
    assert "the run waits until one does" in waits.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"TEMPORAL_NAMESPACE": "nope"}, "Error: Namespace nope is not found"),
        ({"TEMPORAL_ADDRESS": "http://127.0.0.1:1"}, "Error: TEMPORAL_ADDRESS: "),
        ({"TEMPORAL_CONFIG_FILE": "LICENSE"}, "Error: Temporal's configuration: a broken file.\n"),
        ({"TEMPORAL_PROFILE": "nope"}, "Error: Temporal's configuration: "),
    ],
)
def test_wrong_configuration_is_one_line_and_exit_code_2(
    cli: Cli, variables: dict[str, str], said: str
) -> None:
    """A namespace, an address or a profile that is not there is named."""
    done = cli("ask", SUM, **variables)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nosuchmodel", "no provider for the model 'nosuchmodel'"),
        ("anthropic/claude-sonnet", "no key for anthropic/claude-sonnet: set ANTHROPIC_API_KEY"),
    ],
)
def test_a_model_that_can_t_be_asked_fails_the_run(cli: Cli, model: str, said: str) -> None:
    """An unknown model or a missing key is one line, and exit code 1."""
    done = cli("ask", SUM, "--model", model, "--seed", str(AGREE))

    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unreachable_endpoint_ends_with_the_reason(cli: Cli) -> None:
    """Where nobody answers for the model, no sample can be had, and the run says why."""
    done = cli("ask", SUM, "--model", "hosted_vllm/x", "--max-attempts", "1")

    assert done.returncode == 4
    assert "Cannot connect to host 127.0.0.1:9" in done.stdout
