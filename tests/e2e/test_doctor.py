"""`doctor` as people and scripts use it, against a real server and worker process."""

import json
import re
import socket
from typing import Any

import pytest
from temporalio.client import Client

from activities.doctor import DoctorRequest
from commands import doctor
from commands.doctor import temporal_command
from tests.e2e.conftest import Cli
from tests.patience import Stopwatch

# Wide enough for each check to be on one line.
WIDE = {"COLUMNS": "300"}


def checks(document: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(document)["checks"]}


def test_an_installation_that_works_is_all_right(cli: Cli, environment: dict[str, str]) -> None:
    """The server, the attributes, a worker on each queue, its model and sandbox: exit code 0.

    What stands in the environment of `doctor` itself is not asked for.
    """
    done = cli("doctor", MULL_MODEL="foo/bar", MULL_DOCUMENTS="/nowhere", **WIDE)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert f"answers at {environment['TEMPORAL_ADDRESS']}, Temporal 1." in done.stdout
    assert "all 12 are registered" in done.stdout
    assert done.stdout.count("a worker is polling it") == 4
    assert "set: OPENAI_API_KEY, HOSTED_VLLM_API_BASE" in done.stdout
    assert re.search(r"openai/scripted answers in \d+\.\d s", done.stdout)
    assert "passes its self-test" in done.stdout
    assert "no rules for calls" in done.stdout
    assert "sk-secret" not in done.stdout
    assert "foo/bar" not in done.stdout
    assert "/nowhere" not in done.stdout
    assert "\x1b" not in done.stdout
    assert ", 0 wrong." in done.stdout


def test_offline_calls_no_model(cli: Cli) -> None:
    """One JSON document has each check, with what to do about it; the call is left out."""
    done = cli("doctor", "--offline", "--json")

    found = checks(done.stdout)
    assert (found["server"]["state"], found["model"]["said"]) == ("ok", "openai/scripted")
    assert (found["judge"]["state"], len(found["judge"]["do"])) == ("warning", 1)
    assert "call" not in found
    assert json.loads(done.stdout)["exit_code"] == done.returncode == 0


def test_queues_that_nobody_polls_are_exit_code_3(cli: Cli) -> None:
    """Each is named, with the command that serves it."""
    done = cli("doctor", "--json", TEMPORAL_NAMESPACE="idle")

    found = checks(done.stdout)
    assert done.returncode == 3
    states = [found[each]["state"] for each in ("mull", "mull-llm", "mull-code", "mull-tools")]
    assert states == ["wrong"] * 4
    assert "mull-worker --queues code" in found["mull-code"]["do"][0]


def test_a_namespace_that_is_not_there_comes_with_its_command(cli: Cli) -> None:
    """Nothing is looked for in it, and one can make it."""
    done = cli("doctor", TEMPORAL_NAMESPACE="nope", **WIDE)

    assert done.returncode == 3
    assert "There is no namespace nope." in done.stdout
    assert f"    {temporal_command()} operator namespace create --namespace nope\n" in done.stdout
    assert "mull-llm" not in done.stdout


@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
def test_without_a_server_it_answers_in_a_few_seconds(cli: Cli, silent: bool) -> None:
    """Where nobody answers, or nobody but a socket, all else is looked at nevertheless."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if silent:
            server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        watch = Stopwatch()
        done = cli("doctor", TEMPORAL_ADDRESS=address, **WIDE)

    assert done.returncode == 3
    assert watch.seconds < 20
    assert "Start one with `mull dev`" in done.stdout
    assert "packages" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_broken_configuration_is_a_check_like_any_other(cli: Cli) -> None:
    """It is said in one line, and the rest is looked at."""
    done = cli("doctor", TEMPORAL_ADDRESS="http://127.0.0.1:1", **WIDE)

    assert done.returncode == 3
    assert "without a scheme" in done.stdout
    assert "Traceback" not in done.stderr


async def test_workers_that_do_not_go_on_are_found_in_seconds(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where no version is current, or the keys differ: what may be the cause is said."""
    monkeypatch.setattr("commands.doctor.TAKEN_SECONDS", 0.0)
    monkeypatch.setattr("commands.doctor.TAKEN_EVENTS", 1_000)

    [check] = await doctor.examine(client, DoctorRequest(offline=True, queues=("mull-nobody",)))

    assert (check.name, check.state) == ("examined", "wrong")
    assert "version" in check.do[0]
    assert "MULL_ENCRYPTION_KEYS" in check.do[1]
