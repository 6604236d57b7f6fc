"""What operators run, against a real server: `doctor`, `register` and `traces`."""

import asyncio
import json
import re
import socket
from typing import Any, NoReturn

import pytest
from google.protobuf.duration_pb2 import Duration
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.doctor import DoctorRequest
from commands import doctor
from commands.doctor import temporal_command
from commands.embedded import Place
from commands.register import commands_for, register
from mull.telemetry import SEARCH_ATTRIBUTES, search_attributes
from tests import forks
from tests.e2e.conftest import Cli, commands_beside, sink
from tests.e2e.model import AGREE, NO_KEY
from tests.patience import PATIENCE, Stopwatch

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


NAMESPACE = "unregistered"


async def namespace(client: Client) -> Client:
    """Make a namespace without any search attribute, and one of them with another type."""
    week = Duration(seconds=7 * 86_400)
    made = RegisterNamespaceRequest(namespace=NAMESPACE, workflow_execution_retention_period=week)
    await client.workflow_service.register_namespace(made)
    inside = await Client.connect(client.service_client.config.target_host, namespace=NAMESPACE)
    wrong = AddSearchAttributesRequest(
        namespace=NAMESPACE,
        search_attributes={"MullTokens": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD},
    )
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await inside.operator_service.add_search_attributes(wrong)
            except RPCError:
                await asyncio.sleep(0.2)
            else:
                return inside


async def test_what_is_missing_is_registered_once(client: Client, place: Place) -> None:
    """One of another type is said and stays; again, there is nothing to do; no server is 3."""
    inside = await namespace(client)
    known = commands_beside(place, NAMESPACE)

    def run(*options: str, **more: str) -> Any:
        return forks.run("starter.py", "register", *options, environment=known | more)

    first = await asyncio.to_thread(run)
    again = await asyncio.to_thread(run, "--json")
    nowhere = await asyncio.to_thread(run, TEMPORAL_NAMESPACE="nope")
    away = await asyncio.to_thread(run, TEMPORAL_ADDRESS="127.0.0.1:1")

    assert (first.returncode, again.returncode) == (1, 1)
    assert (nowhere.returncode, away.returncode) == (2, 3)
    assert "11 of 12 are registered in unregistered, 11 of them now." in first.stderr
    assert "MullTokens is registered as Keyword; expected Int." in first.stderr
    assert "mull register" in first.stderr
    assert json.loads(again.stdout) == {
        "namespace": NAMESPACE,
        "registered": [name for name in SEARCH_ATTRIBUTES if name != "MullTokens"],
        "new": [],
        "wrong": {"MullTokens": "Keyword"},
        "refused": {},
        "commands": [],
    }
    assert await search_attributes(inside) == SEARCH_ATTRIBUTES | {"MullTokens": "Keyword"}


class Refusing:
    """A client of a server that lets nobody use its operator service."""

    namespace = "answers.a1b2c"

    def __init__(self, said: str = "not permitted") -> None:
        self._said = said

    @property
    def operator_service(self) -> "Refusing":
        return self

    async def list_search_attributes(self, _: object) -> NoReturn:
        raise RPCError(self._said, RPCStatusCode.PERMISSION_DENIED, b"")

    add_search_attributes = list_search_attributes


async def test_where_the_server_refuses_the_commands_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Temporal Cloud refuses this API: one command of its own registers all that is missing."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "answers.a1b2c.tmprl.cloud:7233")
    command = register.__wrapped__  # type: ignore[attr-defined]

    codes = await command(Refusing()), await command(Refusing(), as_json=True)
    printed = capsys.readouterr()

    assert codes == (1, 1)
    assert printed.err.startswith("0 of 12 are registered in answers.a1b2c, 0 of them now.\n")
    assert "The server refused: not permitted" in printed.err
    [command] = json.loads(printed.out)["commands"]
    assert f"    {command}\n" in printed.err
    begins = "tcld namespace search-attributes add --namespace answers.a1b2c --search-attribute "
    assert command.startswith(begins + "MullStopReason=Keyword --search-attribute ")
    assert command.count("=") == len(SEARCH_ATTRIBUTES)


async def test_a_namespace_that_is_full_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    said = "cannot have more than 3 search attribute of type Int"

    assert await register.__wrapped__(Refusing(said)) == 1  # type: ignore[attr-defined]

    assert capsys.readouterr().err.endswith("no room for them: give Mull one of its own.\n")


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("us-east-1.aws.api.temporal.io:7233", ["tcld namespace"]),
        (
            "temporal:7233",
            [
                "--address temporal:7233 --namespace prod --type Double --name MullScore",
                "--type Bool --name MullNeedsReview",
            ],
        ),
    ],
)
def test_commands_are_those_of_the_server(server: str, expected: list[str]) -> None:
    """Temporal Cloud has one command for all types, a server of one's own one for each."""
    commands = commands_for(["MullScore", "MullNeedsReview"], server, "prod")

    assert len(commands) == len(expected)
    assert all(part in command for part, command in zip(expected, commands, strict=True))
    assert commands_for([], server, "prod") == []


RUN = "invoke_workflow SelfConsistencyWorkflow"


def test_a_run_s_spans_are_shown_and_sent(cli: Cli) -> None:
    """The tree has the run, its decisions and calls; as many go to the endpoint, and it says so."""
    cli("ask", "traced?", "--seed", str(AGREE), "--id", "traced")

    shown = cli("traces", "traced")
    exported: list[bytes] = []
    with sink(exported) as address:
        sent = cli("traces", "traced", "--send", "--json", OTEL_EXPORTER_OTLP_ENDPOINT=address)

    names = [
        span.name
        for request in map(ExportTraceServiceRequest.FromString, exported)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    lines = [line.split()[0] for line in shown.stdout.splitlines()]
    document = json.loads(sent.stdout)
    [run] = document["runs"]
    assert shown.stdout.splitlines()[1].startswith(f"  {RUN}  ")
    assert lines.count("chat") == lines.count("mull.decision") == 5
    assert sorted(span["name"] for span in run["spans"]) == sorted(names)
    assert (document["spans"], document["lost"], document["sent"]) == (len(names), 0, True)
    assert f"sent {len(names)} spans of 1 run" in sent.stderr
    assert names.count("mull.decision") == 5


def test_a_failed_call_is_rebuilt_with_its_error(cli: Cli) -> None:
    cli("ask", "refused?", "--seed", str(NO_KEY), "--id", "untraced", "--max-responses", "1")

    shown = cli("traces", "untraced").stdout

    assert "AuthenticationError" in next(line for line in shown.splitlines() if "chat " in line)


def test_a_receiver_that_takes_no_spans_is_said_to_be(cli: Cli) -> None:
    closed = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}

    done = cli("traces", "traced", "--send", OTEL_EXPORTER_OTLP_TIMEOUT="1", **closed)

    assert (done.returncode, "took no spans of traced" in done.stderr) == (1, True), done.stderr
    assert done.stderr.count("Error: ") == 1
    assert "Traceback" not in done.stderr
