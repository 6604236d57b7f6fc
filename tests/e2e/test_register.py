"""`register` against a real server, and against one that refuses."""

import asyncio
import json
from typing import Any, NoReturn

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from commands.embedded import Place
from commands.register import commands_for, register
from mull.telemetry import SEARCH_ATTRIBUTES, search_attributes
from tests import forks
from tests.e2e.conftest import commands_beside
from tests.patience import PATIENCE

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
    """The commands would be refused as this one was."""
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
