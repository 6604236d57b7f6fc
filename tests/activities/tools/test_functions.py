"""A decorated function is a tool: its annotations are the schema, and its failures are words."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.tools import tool
from activities.tools.activity import ToolActivities, check_arguments
from activities.tools.builtin import calculate, current_time, python_tool
from activities.tools.functions import functions_of, tools_in
from activities.tools.port import CallTask, ListTask, ToolOutcome
from mull.turn.approval import ToolRule
from mull.turn.tools import Tool
from tests.activities.test_checks import slowest_turn
from tests.patience import Stopwatch

OWN = "tests.activities.tools.own_tools"
UNCHECKED = "they can't be checked by the tool's schema: "
ENDLESS = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}


async def called(name: str, arguments: dict[str, Any], seconds: float = 20.0) -> ToolOutcome:
    functions = functions_of(calculate, current_time, *tools_in(OWN))
    found = functions[name].tool if name in functions else Tool(name=name)
    task = CallTask(tool=found, arguments=arguments, timeout_seconds=seconds)
    activities = ToolActivities(functions, rules=[ToolRule(tool="*", action="allow")])
    return await ActivityEnvironment().run(activities.call_tool, task)


async def test_no_secret_of_the_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tool returns or raises has none, whatever it put there."""
    monkeypatch.setenv("OWN_API_KEY", "abcdefgh-1234")

    outcome = await called("book", {"stay": {"city": "abcdefgh-1234", "nights": 2}})

    assert outcome.content == "2 nights in [secret]"


def test_a_function_describes_its_tool() -> None:
    """Its name, its docstring, its annotations and what the decorator says of it."""
    weather, book, sleep, _ = (function.tool for function in functions_of(*tools_in(OWN)).values())

    assert (weather.name, weather.description) == ("weather", "Forecast the weather in a city.")
    assert weather.parameters["required"] == ["city", "on"]
    assert weather.parameters["properties"]["days"] == {
        "default": 1,
        "maximum": 7,
        "title": "Days",
        "type": "integer",
    }
    assert (weather.read_only, weather.idempotent, weather.keys) == (True, True, ("city:{city}",))
    assert (book.read_only, book.idempotent, book.keys) == (False, False, ())
    assert (book.timeout_seconds, sleep.timeout_seconds) == (45, 5)


SUNDAY = {"city": "Bonn", "on": "2026-11-22"}


@pytest.mark.parametrize(
    ("name", "arguments", "status", "said"),
    [
        ("weather", SUNDAY, "ok", '{"city":"Bonn","weekday":"Sunday","days":1}'),
        ("book", {"stay": {"city": "Bonn", "nights": 2}}, "ok", "2 nights in Bonn"),
        ("crash", {}, "error", "ZeroDivisionError: division by zero"),
        ("gone", {}, "unknown", "this worker has no tool gone"),
        ("weather", {"city": "Bonn"}, "invalid", "'on' is a required property"),
        ("weather", SUNDAY | {"on": "soon"}, "invalid",
         "on: should be a valid date or datetime, input is too short"),
        ("book", {"stay": {"city": "Bonn", "nights": 0}}, "invalid",
         "stay: nights: 0 is less than the minimum of 1"),
        ("weather", SUNDAY | {"key": 1}, "invalid",
         "Additional properties are not allowed ('key' was unexpected)"),
    ],
)  # fmt: skip
async def test_a_call_ends_in_words_for_the_model(
    name: str, arguments: dict[str, Any], status: str, said: str
) -> None:
    """The function is called by its annotations' types, and its result written as JSON."""
    outcome = await called(name, arguments)

    assert (outcome.status, outcome.content) == (status, said)


async def test_a_function_that_blocks_delays_nobody() -> None:
    """It runs in a thread, and is not waited for after its time-out."""
    watch = Stopwatch()
    work = asyncio.ensure_future(called("sleep", {"seconds": 4.0}, seconds=2.0))
    delayed = await slowest_turn(work)

    assert delayed < 1
    assert (await work).status == "timeout"
    assert watch.seconds < 4


def test_two_tools_with_one_name_are_refused() -> None:
    """A user's tool does not silently take the place of another."""
    with pytest.raises(ValueError, match="two tools have the name weather"):
        functions_of(*tools_in(OWN), tools_in(OWN)[0])


def test_a_function_without_named_arguments_is_no_tool() -> None:
    """It is refused where it is decorated."""

    def add(first: int, /, second: int) -> int:
        return first + second

    with pytest.raises(ValueError, match="add: a tool may only have named arguments"):
        tool()(add)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("import gone_module", "ModuleNotFoundError: No module named 'gone_module'"),
        ("def f(): ...", "has no function that is decorated with @tool"),
        ("1 +", "SyntaxError: "),
    ],
)
def test_a_file_without_tools_is_refused(tmp_path: Path, written: str, said: str) -> None:
    """The message names the file and what is wrong with it."""
    path = tmp_path / "json.py"
    path.write_text(written)

    with pytest.raises(ValueError, match=r"json\.py") as caught:
        tools_in(str(path))

    assert said in str(caught.value)


async def test_a_file_is_a_module_too(tmp_path: Path) -> None:
    """Its annotations may be texts, and its name does not hide a module of Python's."""
    path = tmp_path / "json.py"
    path.write_text(
        "from __future__ import annotations\n"
        "from activities.tools import tool\n"
        "Many = int\n"
        "def half(most: list[Many]) -> int:\n"
        "    return len(most) // 2\n"
        "@tool()\n"
        "def count(most: list[Many]) -> int:\n"
        "    return half(most)\n"
    )

    [count] = functions_of(*tools_in(str(path))).values()

    assert count.tool.parameters["properties"]["most"]["type"] == "array"
    assert await count({"most": [1, 2, 3, 4]}) == "2"
    assert __import__("json").loads("1") == 1


async def test_what_a_schema_refers_to_is_not_fetched() -> None:
    """The arguments can't be checked then, and nobody was asked for the rest of the schema."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        far = f"http://127.0.0.1:{server.server_port}/schema.json"
        wrong = await checked({"type": "object", "$ref": far})
        server.shutdown()

    assert wrong is not None
    assert far in wrong
    assert asked == []


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ({"type": "object"}, None),
        ({"type": "object", "required": ["a"]}, "'a' is a required property"),
        ({"type": "nothing"}, f"{UNCHECKED}SchemaError: "),
        (ENDLESS, f"{UNCHECKED}RecursionError: "),
    ],
)
async def test_arguments_are_checked_before_anyone_is_asked(
    schema: dict[str, Any], wrong: str | None
) -> None:
    """A schema that is none, or that has no end, is said to be so."""
    said = await checked(schema)

    assert (said is None) if wrong is None else (said or "").startswith(wrong)


async def checked(schema: dict[str, Any]) -> str | None:
    """Check no arguments by a schema."""
    task = CallTask(tool=Tool(name="a", parameters=schema), arguments={}, timeout_seconds=20)
    return await ActivityEnvironment().run(check_arguments, task)


OWN_NAMES = "calculate, python, run_python, weather, book, sleep, crash"


@pytest.mark.parametrize(
    ("names", "listed", "warnings"),
    [
        (None, ["calculate", "run_python", "weather", "book", "sleep", "crash"], ()),
        ((), [], ()),
        (("python",), ["run_python"], ()),
        (("book", "calculate"), ["calculate", "book"], ()),
        (
            ("book", "documents"),
            ["book"],
            (f"the worker has no tool documents; it has {OWN_NAMES}",),
        ),
    ],
)
async def test_a_listing_chooses_by_name_and_group(
    names: tuple[str, ...] | None, listed: list[str], warnings: tuple[str, ...]
) -> None:
    """All tools where none is named; documents are those of a turn that has a folder of them."""
    activities = ToolActivities(functions_of(calculate, python_tool(None), *tools_in(OWN)))

    found = await ActivityEnvironment().run(activities.list_tools, ListTask(names=names))

    assert [tool.name for tool in found.tools] == listed
    assert found.warnings == warnings
    assert found.unknown == "".join(warnings)
