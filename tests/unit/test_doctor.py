"""What `doctor` finds in an environment and in a sandbox's self-test, and what it says to do."""

import json
import os
import socket
from pathlib import Path

import pytest
from rich.cells import cell_len

from activities.doctor import Check, State
from activities.installation import (
    calibration_checks,
    call_check,
    document_checks,
    model_checks,
    package_checks,
    sandbox_checks,
    sandbox_rows,
    telemetry_checks,
)
from activities.language_model.port import (
    ModelCall,
    ModelError,
    ModelReply,
    PermanentModelError,
    SampleError,
    TransientModelError,
    UnreachableError,
)
from activities.sandbox.selftest import Examined
from commands.doctor import attributes_check, exit_code, print_checks
from mull.run import Spending
from mull.telemetry import SEARCH_ATTRIBUTES
from tests.unit.test_calibrated import made as calibration_map

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
    ("environment", "states", "said"),
    [
        ({}, "warning warning warning", "No key of a known provider"),
        ({"OPENAI_API_KEY": SECRET}, "warning warning ok", "set: OPENAI_API_KEY"),
        ({"GOOGLE_API_KEY": "x", "XAI_API_KEY": "x"}, "warning warning ok", "GOOGLE_API_KEY, XAI"),
        ({"OPENAI_API_KEY": ""}, "warning warning warning", "No key of a known provider"),
        ({"MULL_MODEL": "anthropic/c"}, "warning warning warning", "No provider key for anthropic"),
        ({"MULL_JUDGE_MODEL": "claude-x"}, "warning warning warning", "No provider key for claude"),
        ({"MULL_MODEL": "foo/bar"}, "warning warning warning", "does not know its provider"),
        ({"MULL_MODEL": "embedded/toy"}, "warning warning ok", "is a toy"),
        ({"MULL_MODEL": "ollama/x", "MULL_JUDGE_MODEL": "ollama/x"}, "ok ok warning", "ollama/x"),
        ({"MULL_MODEL": "gpt-x", "MULL_JUDGE_MODEL": "openai/x", "OPENAI_API_KEY": SECRET},
         "ok ok ok", "openai/x"),
    ],
)  # fmt: skip
def test_models_and_their_keys(environment: dict[str, str], states: str, said: str) -> None:
    """Keys are told by their variables, and a provider that is not known may be mistyped."""
    checks = model_checks(environment)

    assert [check.state for check in checks if check.name != "named"] == states.split()
    assert said in str(checks)
    assert SECRET not in str(checks)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "requests may name any model (MULL_MODELS)"),
        ({"MULL_MODELS": ""}, "requests may name no other models (MULL_MODELS)"),
        ({"MULL_MODELS": "openai/*"}, "requests may name openai/* (MULL_MODELS)"),
    ],
)
def test_what_requests_may_name_is_shown(environment: dict[str, str], said: str) -> None:
    """Also where it is anything."""
    [check] = [check for check in model_checks(environment) if check.name == "named"]

    assert (check.state, check.said) == ("ok", said)


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


@pytest.mark.parametrize(
    ("folder", "state", "said"),
    [
        ("maps", "ok", "1 map in "),
        ("empty", "warning", "has no map: every probability is unknown."),
        ("gone", "warning", "is not a folder on the worker's machine"),
    ],
)
def test_a_folder_of_maps_is_looked_at(
    tmp_path: Path, folder: str, state: State, said: str
) -> None:
    """One without any map, or none at all, is a warning; where none is set there is no check."""
    for name in ("maps", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "maps" / "a.json").write_text(calibration_map().model_dump_json())
    (tmp_path / "empty" / "a.json").write_text("{}")

    [check] = calibration_checks({"MULL_CALIBRATION": str(tmp_path / folder)})

    assert (check.state, said in check.said) == (state, True)
    assert calibration_checks({}) == []


def test_search_attributes_come_with_their_command() -> None:
    """What is missing is registered by one command; one of another type is to be removed first."""
    two = {k: v for k, v in SEARCH_ATTRIBUTES.items() if k not in ("MullNeedsReview", "MullScore")}

    fine = attributes_check(SEARCH_ATTRIBUTES)
    missing = attributes_check(two)
    other = attributes_check(SEARCH_ATTRIBUTES | {"MullScore": "Text"})

    assert (fine.state, fine.commands) == ("ok", ())
    assert missing.said.startswith("2 of 12 search attributes are not registered (MullScore, Mull")
    assert missing.commands == ("mull register",)
    assert other.said == "MullScore is registered as Text; expected Double."
    assert (other.state, other.commands) == ("warning", ())


def test_what_is_installed_here_is_found() -> None:
    """What runs these tests is what doctor finds."""
    assert [check.state for check in package_checks()] == ["ok", "ok"]


def test_what_telemetry_sends_is_told() -> None:
    """An endpoint is an address where somebody listens, and prompts in spans are no surprise."""
    given = ["", "127.0.0.1:4318", "http://[", "ftp://host", "http://host:x"]
    found = [telemetry_checks({"OTEL_EXPORTER_OTLP_ENDPOINT": text})[0].state for text in given]
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        [sent, _] = telemetry_checks({"OTEL_EXPORTER_OTLP_ENDPOINT": address})
    [_, content] = telemetry_checks({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"})

    assert found == ["ok", "wrong", "wrong", "wrong", "wrong"]
    assert sent == Check("telemetry", "endpoint", "ok", f"spans and metrics go to {address}")
    assert content.state == "warning"


async def test_sandboxes_are_shown_with_what_they_were_tried_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row for each check of one that passed; the name of one that is not known is wrong."""
    files = ("files", False, "it ended with ok reached")
    network = ("network", True, "neither TCP nor a local socket can be reached")
    monkeypatch.setenv("MULL_SANDBOX", "jail")

    passes = sandbox_rows(Examined("landlock", "ABI 7", None, (network,)), "warning")
    [failure] = sandbox_rows(Examined("landlock", "ABI 7", None, (network, files)), "warning")
    [unknown] = await sandbox_checks()

    assert [check[1:] for check in passes] == [
        ("landlock", "ok", "ABI 7 passes its self-test", (), ()),
        ("network", "ok", "neither TCP nor a local socket can be reached", (), ()),
    ]
    assert (failure.state, failure.said) == ("warning", "files: it ended with ok reached")
    assert (unknown.state, "bubblewrap or landlock" in unknown.said) == ("wrong", True)


def test_checks_are_printed_and_are_one_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table keeps to the width; a command to be copied stands below it, unbroken."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    command = "temporal operator search-attribute create --type Keyword" + " --name A" * 9
    check = Check("server", "search attributes", "warning", "missing " * 30, ("add",), (command,))

    code = print_checks([check, Check("server", "server", "ok", "answers")], as_json=False)
    lines = capsys.readouterr().out.splitlines()
    print_checks([check], as_json=True)
    document = json.loads(capsys.readouterr().out)

    assert f"    {command}" in lines
    assert all(cell_len(line) <= 80 for line in lines if command not in line)
    assert code == 0
    assert lines[-1] == "1 ok, 1 warning, 0 wrong."
    assert document == {
        "exit_code": 0, "ok": 0, "warning": 1, "wrong": 0,
        "checks": [{**check._asdict(), "do": ["add"], "commands": [command]}],
    }  # fmt: skip


class Answering:
    """A model that fails as it is told."""

    def __init__(self, error: ModelError | None) -> None:
        self._error = error

    async def complete(self, call: ModelCall) -> ModelReply:
        assert (call.model, call.max_output_tokens, call.keep_cut) == ("openai/x", 16, True)
        if self._error:
            raise self._error
        return ModelReply(
            text="ready", model="x", provider="x", finish_reason="stop", spending=Spending(calls=1)
        )


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (None, "ok", "openai/x answers in 0.0 s"),
        (SampleError("empty"), "ok", "openai/x answers in 0.0 s"),
        (TransientModelError("slow down"), "warning", "openai/x can't be called: slow down."),
        (PermanentModelError("no key"), "wrong", "openai/x can't be called: no key."),
        (UnreachableError("no server", "a:1"), "wrong", "openai/x can't be called: no server."),
    ],
)
async def test_a_model_is_called_once(error: ModelError | None, state: State, said: str) -> None:
    """An empty reply is one, a busy model is a warning; a refused key or connection is wrong."""
    check = await call_check(Answering(error), "openai/x")

    assert (check.state, check.said) == (state, said)
