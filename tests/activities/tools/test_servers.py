"""MCP servers are strangers: they may die, hang, lie and flood, and a turn is told in words."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from temporalio.testing import ActivityEnvironment

from activities import checks
from activities.tools import servers, tool
from activities.tools.activity import ToolActivities
from activities.tools.functions import functions_of
from activities.tools.port import CallTask, Listing, ListTask, ToolError, ToolOutcome
from activities.tools.servers import read_servers
from commands.embedded import free_port
from mull.request import explain
from mull.text import encoded_size
from mull.turn.approval import ToolRule
from mull.turn.tools import RESULT_BYTES, Tool
from tests.activities.test_checks import slowest_turn
from tests.activities.tools.scripted_server import FORGED, LONG
from tests.patience import PATIENCE, Stopwatch, patiently

SERVER = Path(__file__).parent / "scripted_server.py"
READS = {"read_only": ["add", "die_once"]}
LEFT_OUT = "left out, for their schemas or for names that another tool has"


class Worker:
    """The activities of a worker whose one server is the scripted one, called `shop`."""

    def __init__(self, activities: ToolActivities, calls: Path) -> None:
        self.activities, self.calls = activities, calls
        self.run = ActivityEnvironment().run

    @property
    def server(self) -> Any:
        """The one server."""
        [server] = self.activities._servers.values()
        return server

    @property
    def connection(self) -> Any:
        """The one connection to it."""
        [connection] = self.server._connections
        return connection

    async def listing(self, *names: str) -> Listing:
        return await self.run(self.activities.list_tools, ListTask(names=names or None))

    async def call(self, name: str, seconds: float = 20.0, **arguments: Any) -> ToolOutcome:
        [tool] = (await self.listing(f"shop__{name}")).tools
        task = CallTask(tool=tool, arguments=arguments, timeout_seconds=seconds)
        return await self.run(self.activities.call_tool, task)

    def called(self) -> list[str]:
        return self.calls.read_text().split() if self.calls.exists() else []


@asynccontextmanager
async def serving(folder: Path, environment: dict[str, str], **entry: Any) -> AsyncIterator[Worker]:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"shop": entry}}))
    found = read_servers((folder / "mcp.json").read_bytes(), environment)
    activities = ToolActivities({}, found, rules=[ToolRule(tool="*", action="allow")])
    try:
        yield Worker(activities, folder / "calls")
    finally:
        await activities.close()


def over_stdio(folder: Path, listing: str = "usual", **entry: Any) -> Any:
    command = {"command": sys.executable, "args": [str(SERVER), str(folder / "calls"), listing]}
    environment = {"SHOP_KEY": "key of the shop", "WORKER_KEY": "key of the worker"}
    return serving(folder, environment, **command, **entry)


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[Worker]:
    async with over_stdio(tmp_path, mull=READS) as made:
        yield made


Started = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def http(tmp_path: Path) -> Iterator[tuple[str, Started]]:
    """The address of a server over HTTP, and what starts it again; it is ended by its handle."""
    port, running = free_port(), []

    def start() -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(SERVER), str(tmp_path / "calls"), "usual", str(port)]
        running.append(subprocess.Popen(command))
        return running[-1]

    start()
    yield f"http://127.0.0.1:{port}/mcp", start
    for process in running:
        process.kill()
        process.wait()


async def answered(work: Callable[[], Awaitable[Listing]]) -> Listing:
    """Ask again until the server is up."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await work()).tools:
            await asyncio.sleep(0.1)
    return found


async def test_a_server_shows_its_tools_and_its_claims_count_for_nothing(worker: Worker) -> None:
    """All claim that they only read; the file says so of two. One is left out for its schema."""
    found = await worker.listing()

    tools = {tool.name: tool for tool in found.tools}
    assert tools["shop__add"].parameters["required"] == ["first", "second"]
    reading = {name for name, tool in tools.items() if tool.read_only}
    assert reading == {"shop__add", "shop__die_once"}
    assert not any(tool.idempotent for tool in tools.values())
    assert {tool.group for tool in tools.values()} == {"shop"}
    assert "shop__huge" not in tools
    assert found.warnings == (f"shop: 1 tool {LEFT_OUT}: huge",)


async def test_a_tool_that_changes_once_it_was_checked_is_not_called(worker: Worker) -> None:
    """Another turn's listing may have learned of it since."""
    await worker.listing()
    checked = (await worker.server.find("shop__add")).model_copy(
        update={"parameters": {"type": "object"}}
    )

    with pytest.raises(ToolError, match="have just changed, so it was not called"):
        await worker.server.call(checked, {"first": 1, "second": 2})
    assert worker.called() == []


async def test_a_name_that_no_provider_takes_is_written_otherwise(worker: Worker) -> None:
    """The server is called by its own name, also by a worker that did not list its tools."""
    tool = Tool(name="shop__slow_pattern")
    task = CallTask(tool=tool, arguments={"text": "b"}, timeout_seconds=20)

    outcome = await worker.run(worker.activities.call_tool, task)

    assert outcome.status == "ok"
    assert worker.called() == ["slow.pattern"]


@pytest.mark.parametrize(
    ("name", "arguments", "status", "said"),
    [
        ("add", {"first": 2, "second": 3}, "ok", "5"),
        ("fail", {}, "error", "no such file: /a"),
        ("parts", {}, "ok", "[image, which can't be shown here]\n\n[a link: file:///a]"),
        # It says that it was cut, that there was a reflection, and what to call.
        ("forge", {}, "ok", FORGED),
        ("add", {"first": 2}, "invalid", "'second' is a required property"),
        ("add", {"first": "2", "second": 3}, "invalid", "first: '2' is not of type 'integer'"),
    ],
)
async def test_a_call_ends_in_words_for_the_model(
    worker: Worker, name: str, arguments: dict[str, Any], status: str, said: str
) -> None:
    """A result is text alone, whatever it forges, and is not checked by a hostile schema.

    Wrong arguments never reach the server.
    """
    outcome = await worker.call(name, **arguments)

    assert (outcome.status, outcome.content) == (status, said)
    assert worker.called() == ([] if status == "invalid" else [name])


async def test_a_schema_that_refers_to_an_address_is_not_fetched(worker: Worker) -> None:
    """The call is refused at once."""
    outcome = await worker.call("far", text="a")

    assert outcome.status == "invalid"
    assert outcome.content.startswith("they can't be checked by the tool's schema: ")
    assert "http://127.0.0.1:9/schema.json" in outcome.content
    assert worker.called() == []


async def test_a_pattern_that_never_ends_delays_nobody(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended after its limit; other calls go on meanwhile."""
    await worker.call("add", first=2, second=3)
    monkeypatch.setattr(checks, "SECONDS", 2.0)
    work = asyncio.ensure_future(worker.call("slow_pattern", text="a" * 40))

    delayed = await slowest_turn(work)

    assert delayed < 1
    assert (await work).status == "invalid"
    assert "after 2 seconds at the latest" in (await work).content
    assert worker.called() == ["add"]


async def test_a_server_that_dies_in_a_call_that_writes_is_not_called_again(worker: Worker) -> None:
    """It may have written; the next call starts it anew."""
    died = await worker.call("die")
    outcome = await worker.call("add", first=2, second=3)

    assert died.status == "timeout"
    assert died.content == "shop ended before it answered: it may have done what was asked"
    assert outcome.content == "5"
    assert worker.called() == ["die", "add"]


async def test_a_call_that_only_reads_is_made_again_where_its_server_dies(worker: Worker) -> None:
    """The turn does not notice."""
    outcome = await worker.call("die_once")

    assert outcome.status == "ok"
    assert worker.called() == ["die_once", "die_once"]


async def test_a_server_that_was_killed_between_calls_is_started_anew(worker: Worker) -> None:
    """Nothing was under way, so that what writes is called too; nothing is left of the first."""
    await worker.call("forge")
    connection = worker.server._connections[-1]
    os.kill(int(worker.calls.with_suffix(".pid").read_text()), signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        while not connection.ended():
            await asyncio.sleep(0.01)

    assert (await worker.call("forge")).status == "ok"
    await asyncio.wait_for(connection.task, PATIENCE)


async def test_a_call_without_an_answer_costs_its_time_out(worker: Worker) -> None:
    """A server that answers nothing else either is ended, and started anew for the next call."""
    await worker.listing()
    watch = Stopwatch()
    outcome = await worker.call("hang", seconds=0.5)
    took = watch.seconds
    added = await worker.call("add", first=2, second=3)

    assert (outcome.status, outcome.content) == ("timeout", "no answer within 0.5 s")
    assert took < 3
    assert (added.status, worker.called()) == ("ok", ["hang", "add"])


async def test_a_server_that_only_takes_long_is_kept(worker: Worker) -> None:
    """It answers others meanwhile, and what it has in its memory stays."""
    await worker.call("later", seconds=0.5)
    before = worker.calls.with_suffix(".pid").read_text()

    assert (await worker.call("add", first=2, second=3)).content == "5"
    assert worker.calls.with_suffix(".pid").read_text() == before


async def test_a_server_that_floods_is_ended_after_its_time_out(worker: Worker) -> None:
    """The worker is not held up meanwhile, and not for ever."""
    work = asyncio.ensure_future(worker.call("flood", seconds=1.0))
    delayed = await slowest_turn(work)

    assert (await work).status == "timeout"
    assert delayed < 1
    await asyncio.wait_for(worker.connection.task, PATIENCE)


async def test_a_server_that_never_answers_costs_a_listing_its_time_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn goes on without its tools, and is told; so is a call of one."""
    monkeypatch.setattr(servers, "LIST_SECONDS", 0.5)
    task = CallTask(tool=Tool(name="shop__add"), arguments={}, timeout_seconds=0.3)
    watch = Stopwatch()
    async with over_stdio(tmp_path, "silent") as worker:
        found = await worker.listing()
        outcome = await worker.run(worker.activities.call_tool, task)

    # To end it takes two seconds at most.
    assert watch.seconds < 6
    assert found.warnings == ("the tools of shop are missing: shop did not list them within 0.5 s",)
    assert outcome.status == "timeout"


async def test_a_cancelled_call_ends_at_once(worker: Worker) -> None:
    """Whatever the server does."""
    environment = ActivityEnvironment()
    [tool] = (await worker.listing("shop__hang")).tools
    task = CallTask(tool=tool, arguments={}, timeout_seconds=20)
    work = asyncio.ensure_future(environment.run(worker.activities.call_tool, task))
    while "hang" not in worker.called():
        await asyncio.sleep(0.02)
    watch = Stopwatch()

    environment.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work
    assert watch.seconds < 1


async def test_a_result_of_ten_megabytes_is_cut_in_the_middle(worker: Worker) -> None:
    """Both ends are kept, with a note between them, and the worker goes on meanwhile."""
    work = asyncio.ensure_future(worker.call("big", megabytes=10))
    delayed = await slowest_turn(work)
    outcome = await work

    assert delayed < 2
    assert outcome.content.startswith("begin")
    assert outcome.content.endswith("end")
    assert "bytes left out here" in outcome.content
    assert encoded_size(outcome.content) <= RESULT_BYTES


async def test_five_hundred_tools_are_too_many(tmp_path: Path) -> None:
    """The first ones are listed, and all that are asked for by name."""
    async with over_stdio(tmp_path, "many") as worker:
        every, one = await worker.listing(), await worker.listing("shop__tool499")

    assert len(every.tools) == 128
    assert every.warnings == ("372 tools left out, since there are too many: name those to use",)
    assert ([tool.name for tool in one.tools], one.warnings) == (["shop__tool499"], ())


async def test_of_tools_with_the_same_name_the_first_counts(tmp_path: Path) -> None:
    """Also where they are the same only as a provider takes them, in 64 characters."""

    @tool()
    def shop__add() -> str:
        """Add nothing."""
        return "a function of the worker"

    async with over_stdio(tmp_path, "same") as worker:
        worker.activities._functions = functions_of(shop__add)
        found = await worker.listing()
        added, _, long = [(await worker.call(one.name[6:])).content for one in found.tools]

    names = ["shop__add", "shop__a_dd", f"shop__{LONG}"[:64]]
    assert [tool.name for tool in found.tools] == names
    assert found.warnings == (f"shop: 3 tools {LEFT_OUT}: add, a.dd, {LONG}e",)
    assert (added, long) == ("a function of the worker", FORGED)
    assert worker.called() == ["a", "dd", LONG]


async def test_a_server_has_of_the_workers_variables_what_the_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides the few that every program needs, such as PATH."""
    monkeypatch.setenv("OPENAI_API_KEY", "key of the provider")
    async with over_stdio(tmp_path, env={"TOKEN": "${SHOP_KEY}"}) as worker:
        outcome = await worker.call("environment")

    has = json.loads(outcome.content)
    assert has["TOKEN"] == "key of the shop"
    assert "PATH" in has
    assert "key of the worker" not in outcome.content
    assert "key of the provider" not in outcome.content


async def test_a_program_that_is_not_there_is_named_by_its_server(tmp_path: Path) -> None:
    """The turn goes on without it, since its tools are not mistyped, but missing."""
    async with serving(tmp_path, {}, command=str(tmp_path / "gone")) as worker:
        found = await worker.listing("shop", "shop__add")
        mistyped = await worker.listing("shop__add", "shp__add")

    missing = "the tools of shop are missing: shop can't be started: No such file or directory"
    unknown = "the worker has no tool shp__add; it has none"
    assert (found.warnings, found.unknown) == ((missing,), "")
    assert (mistyped.warnings, mistyped.unknown) == ((missing, unknown), unknown)


async def test_over_http_a_server_is_used_likewise(
    http: tuple[str, Started], tmp_path: Path
) -> None:
    """Its headers may have a key of the worker; a large result comes as a stream."""
    headers = {"Authorization": "Bearer ${SHOP_KEY}"}
    environment = {"SHOP_KEY": "key-of-the-shop"}
    async with serving(tmp_path, environment, type="http", url=http[0], headers=headers) as worker:
        await answered(worker.listing)
        outcome = await worker.call("add", first=2, second=3)
        big = await worker.call("big", megabytes=10)
        hung = await worker.call("hang", seconds=0.5)

    assert outcome.content == "5"
    assert (big.status, "bytes left out here" in big.content) == ("ok", True)
    assert hung.status == "timeout"
    assert set((tmp_path / "calls.headers").read_text().split("\n")) == {
        "Bearer key-of-the-shop",
        "",
    }


async def test_over_http_a_server_that_dies_is_used_again_when_it_is_back(
    http: tuple[str, Started], tmp_path: Path
) -> None:
    """A call under way has failed; one that is not taken, as its session is new, is made again."""
    url, start = http
    async with serving(tmp_path, {}, url=url) as worker:
        tools = {tool.name: tool for tool in (await answered(worker.listing)).tools}
        died = await worker.call("die")
        second = start()
        await answered(worker.listing)
        second.kill()
        second.wait()
        start()
        await asyncio.to_thread(until_open, url)
        task = CallTask(tool=tools["shop__forge"], arguments={}, timeout_seconds=20)
        outcome = await worker.run(worker.activities.call_tool, task)

    assert died.status == "timeout"
    assert outcome.status == "ok"
    assert worker.called() == ["die", "forge"]


def until_open(url: str) -> None:
    place = ("127.0.0.1", urlsplit(url).port or 0)
    for _ in patiently():
        with contextlib.suppress(OSError), socket.create_connection(place):
            return


CHOOSE = "mcpServers.shop: give either a command or a url"
TYPES = "mcpServers.shop.type: should be 'stdio', 'http' or 'streamable-http'"
SCHEMES = "mcpServers.shop: the url does not begin with http:// or https://"
HEADED = {"url": "https://a", "headers": {"X": "${GONE}"}}
MISNAMED = {"command": "a", "mull": {"readonly": ["*"]}}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, CHOOSE),
        ({"command": "a", "url": "http://b"}, CHOOSE),
        ({"url": "file:///etc/passwd"}, SCHEMES),
        (HEADED, "the variable GONE is not set"),
        (MISNAMED, "mcpServers.shop.mull.readonly: no such field"),
        ({"type": "sse", "url": "https://a"}, TYPES),
    ],
)
def test_a_file_that_is_wrong_is_refused(entry: Any, said: str) -> None:
    """The message names the field, and no value."""
    with pytest.raises(ValueError, match=r"shop|GONE") as caught:
        read_servers(json.dumps({"mcpServers": {"shop": entry}}).encode(), {})

    assert explain(caught.value) == said


def test_a_server_that_is_disabled_is_none() -> None:
    """What else other clients have in the file is ignored."""
    entry = {"command": "a", "disabled": True, "alwaysAllow": ["*"]}
    file = json.dumps({"mcpServers": {"shop": entry}, "inputs": []})

    assert read_servers(file.encode(), {}) == []
