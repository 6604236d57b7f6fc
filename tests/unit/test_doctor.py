"""What `doctor` finds in an environment, and what it says to do."""

import json
import os
import socket
from pathlib import Path

import pytest
from rich.cells import cell_len

from commands.doctor.installation import (
    document_checks,
    model_checks,
    package_checks,
    telemetry_checks,
)
from commands.doctor.server import attributes_check, temporal_command
from commands.doctor.table import Check, State, exit_code, print_checks, print_document
from telemetry import SEARCH_ATTRIBUTES

SECRET = "sk-secret-7f3a"


def said(checks: list[Check], name: str) -> list[tuple[State, str]]:
    return [(each.state, each.said) for each in checks if each.name == name]


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
        (
            {"GOOGLE_API_KEY": SECRET, "XAI_API_KEY": SECRET},
            "ok",
            "set here: GOOGLE_API_KEY, XAI_API_KEY",
        ),
        ({"OPENAI_API_KEY": ""}, "warning", "none of a known provider is set here"),
        (
            {"MULL_MODEL": "anthropic/claude-x"},
            "warning",
            "there is none here for anthropic/claude-x",
        ),
        ({"MULL_MODEL": "claude-x"}, "warning", "there is none here for claude-x"),
        (
            {"MULL_MODEL": "embedded/smollm2-135m"},
            "ok",
            "none is needed for an embedded model",
        ),
    ],
)
def test_keys_are_named_and_never_shown(
    environment: dict[str, str], state: State, found: str
) -> None:
    """Which keys there are is told by their variables, and which one a model lacks."""
    assert (state, found) in said(model_checks(environment), "keys")


def test_a_key_with_white_space_around_it_is_told() -> None:
    """A line end that was copied with a key is a common mistake, and hard to see."""
    checks = model_checks({"OPENAI_API_KEY": f"{SECRET}\n"})

    assert said(checks, "keys")[1][0] == "warning"
    assert SECRET not in str(checks)


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
    assert f"nobody listens at http://127.0.0.1:{port}" in str(checks)


def test_without_a_model_or_a_judge_it_says_who_takes_their_place() -> None:
    """Both are warnings, and each has one thing to do."""
    checks = model_checks({})

    assert [(each.name, each.state, len(each.do)) for each in checks] == [
        ("model", "warning", 1),
        ("judge", "warning", 1),
        ("keys", "warning", 1),
    ]


def test_each_folder_of_documents_is_looked_at(tmp_path: Path) -> None:
    """One that can be read is right, one that is not there wrong, the whole machine a warning."""
    (tmp_path / "file").write_text("")
    given = [str(tmp_path), str(tmp_path / "nowhere"), str(tmp_path / "file"), "/", "tests"]

    known = {"MULL_DOCUMENTS": os.pathsep.join(given), "MULL_CACHE": str(tmp_path / "new")}
    *folders, index = document_checks(known)

    assert [each.state for each in folders] == ["ok", "wrong", "wrong", "warning", "warning"]
    assert (index.name, index.state) == ("index", "ok")


def test_a_cache_that_is_a_file_is_wrong(tmp_path: Path) -> None:
    """Indexes of documents need a folder to be kept in."""
    (tmp_path / "file").write_text("")

    known = {"MULL_DOCUMENTS": str(tmp_path), "MULL_CACHE": str(tmp_path / "file")}

    assert document_checks(known)[1].state == "wrong"


def test_no_folder_is_a_warning() -> None:
    """Without documents everything but `--docs` works."""
    [only] = document_checks({})

    assert (only.state, "`agent --docs` is refused" in only.said) == ("warning", True)


def test_all_search_attributes_are_right() -> None:
    """Names and types are compared."""
    check = attributes_check(SEARCH_ATTRIBUTES, "localhost:7233", "default")

    assert (check.state, check.commands) == ("ok", ())


def test_missing_search_attributes_come_with_their_commands() -> None:
    """One command for each type, at the server and namespace that were looked at."""
    known = {name: kind for name, kind in SEARCH_ATTRIBUTES.items() if name != "MullNeedsReview"}
    two = {name: kind for name, kind in known.items() if name != "MullScore"}

    check = attributes_check(two, "temporal:7233", "prod")

    assert check.state == "warning"
    assert "2 of 12 are missing (MullScore, MullNeedsReview)" in check.said
    where = "--address temporal:7233 --namespace prod"
    create = f"{temporal_command()} operator search-attribute create {where}"
    assert check.commands == (
        f"{create} --type Double --name MullScore",
        f"{create} --type Bool --name MullNeedsReview",
    )


def test_a_search_attribute_of_another_type_is_told() -> None:
    """It can't be written, and no command adds it twice."""
    check = attributes_check(SEARCH_ATTRIBUTES | {"MullScore": "Int"}, "localhost:7233", "default")

    assert check.said == "MullScore is Int, and shall be Double"
    assert check.commands == ()


def test_the_packages_of_this_environment_are_all_there() -> None:
    """What runs these tests is what doctor finds."""
    assert {each.name: each.state for each in package_checks()} == {
        "python": "ok",
        "packages": "ok",
        "demo": "ok",
    }


@pytest.mark.parametrize(
    ("endpoint", "state"),
    [("", "ok"), ("127.0.0.1:4318", "wrong"), ("http://[", "wrong"), ("ftp://host", "wrong")],
)
def test_an_endpoint_is_an_address(endpoint: str, state: State) -> None:
    """One without a scheme, or that is no address, gets nothing."""
    checks = telemetry_checks({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})

    assert checks[0].state == state


def test_an_endpoint_where_somebody_listens_is_right() -> None:
    """Its port is tried."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        checks = telemetry_checks({"OTEL_EXPORTER_OTLP_ENDPOINT": address})

    assert checks[0] == Check("telemetry", "endpoint", "ok", f"spans and metrics go to {address}")


def test_prompts_in_spans_are_told() -> None:
    """What leaves with the telemetry is no surprise."""
    checks = telemetry_checks({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"})

    assert checks[1].state == "warning"


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
    assert all(cell_len(each) <= 80 for each in lines if command not in each)
    assert lines[-1] == "1 ok, 1 warning, 0 wrong."


def test_the_document_has_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine reads one JSON document, with the exit code and how many are what."""
    print_document([Check("server", "server", "wrong", "no", ("start one",))], 3)

    assert json.loads(capsys.readouterr().out) == {
        "exit_code": 3,
        "ok": 0,
        "warning": 0,
        "wrong": 1,
        "checks": [
            {
                "area": "server",
                "name": "server",
                "state": "wrong",
                "said": "no",
                "do": ["start one"],
                "commands": [],
            }
        ],
    }
