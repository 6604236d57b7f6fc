"""What `doctor` finds in an environment and in a sandbox's self-test, and what it says to do."""

import json
import os
import shlex
import socket
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from activities.sandbox.selftest import Examined, ProbeOutcome
from commands.doctor.command import Check, State, exit_code, print_checks, print_document
from commands.doctor.installation import (
    document_checks,
    limits_checks,
    model_checks,
    package_checks,
    sandbox_checks,
    sandbox_failures,
    sandbox_passes,
    telemetry_checks,
)
from commands.doctor.server import attributes_check, temporal_command
from telemetry import SEARCH_ATTRIBUTES

SECRET = "sk-secret-7f3a"


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([("server", "ok"), ("models", "warning")], 0),
        ([("server", "ok"), ("documents", "wrong")], 1),
        ([("workers", "wrong"), ("documents", "wrong")], 3),
        ([("server", "wrong")], 3),
        ([("server", "warning"), ("workers", "warning")], 0),
    ],
)
def test_the_exit_code_is_that_of_the_worst(states: list[tuple[str, State]], code: int) -> None:
    """No server or worker is 3, anything else that is wrong 1, and a warning is none."""
    assert exit_code([Check(area, "x", state, "") for area, state in states]) == code


@pytest.mark.parametrize(
    ("environment", "state", "found"),
    [
        ({"OPENAI_API_KEY": SECRET}, "ok", "set here: OPENAI_API_KEY"),
        ({"GOOGLE_API_KEY": "x", "XAI_API_KEY": "x"}, "ok", "set here: GOOGLE_API_KEY, XAI"),
        ({"OPENAI_API_KEY": ""}, "warning", "No key of a known provider"),
        ({"OPENAI_API_KEY": f"{SECRET}\n"}, "warning", "OPENAI_API_KEY: white space"),
        ({"MULL_MODEL": "anthropic/claude-x"}, "warning", "No provider key for anthropic/claude-x"),
        ({"MULL_MODEL": "claude-x"}, "warning", "No provider key for claude-x"),
        ({"MULL_MODEL": "embedded/smollm2-135m"}, "ok", "an embedded model needs no key"),
    ],
)
def test_keys_are_named_and_never_shown(
    environment: dict[str, str], state: State, found: str
) -> None:
    """Which keys there are is told by their variables, and which one a model lacks."""
    checks = [check for check in model_checks(environment) if check.name == "keys"]

    assert any(check.state == state and check.said.startswith(found) for check in checks)
    assert SECRET not in str(checks)


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("openai/gpt-x", ["ok", "ok"]),
        ("gpt-x", ["ok", "ok"]),
        ("foo/bar", ["warning", "warning"]),
        ("bar", ["warning", "warning"]),
        ("embedded/toy", ["warning", "ok"]),
        ("", ["warning", "warning"]),
    ],
)
def test_a_model_and_a_judge_are_looked_at(name: str, states: list[State]) -> None:
    """A provider that is not known may be one of LiteLLM's others, and may be mistyped."""
    checks = model_checks({"MULL_MODEL": name, "MULL_JUDGE_MODEL": name})

    assert [check.state for check in checks[:2]] == states


def test_no_value_of_a_secret_is_in_any_check() -> None:
    """Whatever stands in the environment, neither keys nor passwords are shown."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "OPENAI_API_KEY": SECRET,
        "TEMPORAL_API_KEY": SECRET,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={SECRET}",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:{SECRET}@127.0.0.1:{port}/{SECRET}",
    }

    checks = [*model_checks(environment), *telemetry_checks(environment)]

    assert SECRET not in str(checks)
    assert f"Nothing listens at http://127.0.0.1:{port}" in str(checks)


def test_folders_of_documents_are_looked_at(tmp_path: Path) -> None:
    """One that can be read is right, one that is not there wrong, the whole machine a warning."""
    (tmp_path / "file").write_text("")
    given = [str(tmp_path), str(tmp_path / "nowhere"), str(tmp_path / "file"), "/", "tests"]

    known = {"MULL_DOCUMENTS": os.pathsep.join(given)}
    *folders, index = document_checks(known | {"MULL_CACHE": str(tmp_path / "new")})
    *_, no_index = document_checks(known | {"MULL_CACHE": str(tmp_path / "file")})
    [none] = document_checks({})

    assert [check.state for check in folders] == ["ok", "wrong", "wrong", "warning", "warning"]
    assert (index.name, index.state, no_index.state) == ("index", "ok", "wrong")
    assert (none.state, "`agent --docs` is refused" in none.said) == ("warning", True)


def test_search_attributes_come_with_their_commands() -> None:
    """One command for each type, at the server and namespace; one of another type has none."""
    two = {k: v for k, v in SEARCH_ATTRIBUTES.items() if k not in ("MullNeedsReview", "MullScore")}

    fine = attributes_check(SEARCH_ATTRIBUTES, "localhost:7233", "default")
    missing = attributes_check(two, "temporal:7233", "prod")
    other = attributes_check(SEARCH_ATTRIBUTES | {"MullScore": "Text"}, "localhost:7233", "default")

    assert (fine.state, fine.commands) == ("ok", ())
    assert missing.said == (
        "2 of 12 search attributes are not registered (MullScore, MullNeedsReview). Runs still "
        "work, but can't be filtered by them."
    )
    create = (
        f"{temporal_command()} operator search-attribute create --address temporal:7233 "
        "--namespace prod"
    )
    assert missing.commands == (
        f"{create} --type Double --name MullScore",
        f"{create} --type Bool --name MullNeedsReview",
    )
    assert other.said == "MullScore is registered as Text; expected Double."
    assert (other.state, other.commands) == ("warning", ())


def test_temporals_command_is_one_that_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name alone where the shell finds it, else its place beside Python."""
    (tmp_path / "temporal").touch(0o755)

    monkeypatch.setenv("PATH", "")
    hidden = temporal_command()
    monkeypatch.setenv("PATH", str(tmp_path))

    assert hidden == shlex.quote(str(Path(sys.executable).with_name("temporal")))
    assert temporal_command() == "temporal"


def test_the_packages_of_this_environment_are_all_there() -> None:
    """What runs these tests is what doctor finds."""
    assert [(check.name, check.state) for check in package_checks()] == [
        ("python", "ok"),
        ("packages", "ok"),
        ("demo", "ok"),
    ]


def test_what_telemetry_sends_is_told() -> None:
    """An endpoint is an address where somebody listens, and prompts in spans are no surprise."""
    given = ["", "127.0.0.1:4318", "http://[", "ftp://host"]
    found = [telemetry_checks({"OTEL_EXPORTER_OTLP_ENDPOINT": text})[0].state for text in given]
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        [sent, _] = telemetry_checks({"OTEL_EXPORTER_OTLP_ENDPOINT": address})
    [_, content] = telemetry_checks({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"})

    assert found == ["ok", "wrong", "wrong", "wrong"]
    assert sent == Check("telemetry", "endpoint", "ok", f"spans and metrics go to {address}")
    assert content.state == "warning"


def test_a_sandbox_is_shown_with_what_it_was_tried_with() -> None:
    """A row for each check of the chosen one; what another failed is no more than a warning."""
    network = ProbeOutcome("network", True, "neither TCP nor a local socket can be reached")
    files = ProbeOutcome("files", False, "it ended with ok reached")
    found = Examined("landlock", "ABI 7", None, (network, files))

    assert sandbox_passes(Examined("landlock", "ABI 7", None, (network,))) == [
        Check("sandbox", "landlock", "ok", "ABI 7 passes its self-test"),
        Check("sandbox", "network", "ok", "neither TCP nor a local socket can be reached"),
    ]
    assert sandbox_failures([found], "warning") == [
        Check("sandbox", "landlock", "warning", "files: it ended with ok reached")
    ]


async def test_a_sandbox_that_is_not_there_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that the variable can't have is said with those that it can."""
    monkeypatch.setenv("MULL_SANDBOX", "jail")

    [only] = await sandbox_checks()

    assert (only.state, "bubblewrap or landlock" in only.said) == ("wrong", True)


@pytest.mark.parametrize(
    ("given", "state", "said"),
    [
        ('{"wal_seconds": 3}', "wrong", "MULL_SANDBOX_LIMITS: wal_seconds: no such field"),
        ('{"disk_mb": 0}', "wrong", "MULL_SANDBOX_LIMITS: disk_mb: "),
        ("3 s", "wrong", "MULL_SANDBOX_LIMITS: "),
        ('{"wall_seconds": 3}', "ok", "at most wall_seconds 3, cpu_seconds 10, memory_mb 512"),
    ],
)
def test_limits_are_looked_at_as_a_worker_reads_them(given: str, state: str, said: str) -> None:
    """What a worker refuses at its start is wrong here; without any the worker's own hold."""
    [only] = limits_checks({"MULL_SANDBOX_LIMITS": given})

    assert (only.name, only.state) == ("limits", state)
    assert only.said.startswith(said)
    assert limits_checks({}) == []


def test_a_command_is_never_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table keeps to the width, and what is to be copied stands below it as it is."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    command = "temporal operator search-attribute create --type Keyword" + " --name A" * 9
    check = Check("server", "search attributes", "warning", "missing " * 30, ("add",), (command,))

    print_checks([check, Check("server", "server", "ok", "answers")])

    lines = capsys.readouterr().out.splitlines()
    assert f"    {command}" in lines
    assert all(cell_len(line) <= 80 for line in lines if command not in line)
    assert lines[-1] == "1 ok, 1 warning, 0 wrong."


def test_the_document_has_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine reads one JSON document, with the exit code and how many are what."""
    check = Check("server", "server", "wrong", "no", ("start one",))

    print_document([check], 3)

    counts = {"exit_code": 3, "ok": 0, "warning": 0, "wrong": 1}
    listed = {**check._asdict(), "do": ["start one"], "commands": []}
    assert json.loads(capsys.readouterr().out) == {**counts, "checks": [listed]}
