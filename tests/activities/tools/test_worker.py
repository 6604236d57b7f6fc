"""A worker gathers the tools of its options, and serves them on a queue of their own."""

import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

import adapters
import worker
from activities.doctor import DoctorRequest, Examination
from activities.installation import tool_checks
from activities.tools.port import TASK_QUEUE, CallTask, Listing, ListTask, ToolOutcome
from mull.errors import ConfigurationError
from tests import callers
from tests.activities.tools.scripted_server import LONG
from tests.activities.tools.test_functions import OWN
from tests.activities.tools.test_servers import LEFT_OUT, SERVER

RULE = {"tool": "shop__*", "action": "deny", "why": "the shop is closed"}
# Without its server's name a rule fits no tool, and with an argument that it lacks none either.
IDLE = [
    {"tool": "add", "action": "deny"},
    {"tool": "shop__*", "arguments": {"sum": "*"}, "action": "deny"},
]
NO_TOOL = "no tool here has the name, or the arguments, of"


def options(**given: Any) -> adapters.WorkerOptions:
    return adapters.WorkerOptions(**given)


def written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


async def test_the_options_are_gathered(tmp_path: Path) -> None:
    """Built-in tools, a user's, those of a server, and the rules for calls of them."""
    command = {"command": sys.executable, "args": [str(SERVER), str(tmp_path / "calls"), "usual"]}
    mcp = written(tmp_path / "mcp.json", {"mcpServers": {"shop": command}})
    rules = written(tmp_path / "rules.json", [RULE])
    toolbox = adapters.toolbox(options(tools=[OWN], mcp=mcp, approve=rules), None)
    try:
        found: Listing = await ActivityEnvironment().run(toolbox.list_tools, ListTask())
    finally:
        await toolbox.close()

    names = [tool.name for tool in found.tools]
    assert names[:5] == ["calculate", "current_time", "run_python", "weather", "book"]
    assert "shop__add" in names
    assert [rule.model_dump(exclude_defaults=True) for rule in found.rules] == [RULE]


async def test_doctor_counts_the_tools_and_names_the_servers_that_do_not_start(
    tmp_path: Path,
) -> None:
    """In the environment of the worker that serves them."""
    shop = {"command": sys.executable, "args": [str(SERVER), str(tmp_path / "calls"), "same"]}
    servers = {"shop": shop, "gone": {"command": str(tmp_path / "gone")}}
    mcp = written(tmp_path / "mcp.json", {"mcpServers": servers})
    rules = written(tmp_path / "rules.json", [RULE, *IDLE])
    toolbox = adapters.toolbox(options(mcp=mcp, approve=rules), None)
    examination = Examination(partial(tool_checks, toolbox))
    try:
        found = await ActivityEnvironment().run(examination.examine, DoctorRequest())
    finally:
        await toolbox.close()

    twice = f"{LEFT_OUT}: add, a.dd"
    gone = "gone can't be started: No such file or directory."
    # The last one is of the worker's encryption.
    assert [(check.name, check.state, check.said) for check in found[:-1]] == [
        ("functions", "ok", "2 tools"),
        ("python", "ok", "1 tool"),
        ("shop", "ok", "3 tools"),
        ("missing", "warning", f"shop: 3 tools {twice}, {LONG}e."),
        ("missing", "warning", f"the tools of gone are missing: {gone}"),
        ("rules", "warning", f"3 rules for calls; {NO_TOOL}: add, shop__*."),
    ]


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("approve", [{"tool": "a", "action": "perhaps"}], "0.action: should be 'allow', 'ask' or"),
        ("approve", "a", "should be a valid array"),
        ("mcp", {"servers": {}}, "mcpServers: missing"),
        ("approve", None, "can't be read: No such file or directory"),
        ("mcp", None, "can't be read: No such file or directory"),
    ],
)
def test_a_file_that_is_wrong_or_missing_is_refused(
    tmp_path: Path, option: str, content: object, said: str
) -> None:
    """Before anything is served; the message names the file and the field."""
    path = tmp_path / "file.json"
    if content is not None:
        written(path, content)

    with pytest.raises(ConfigurationError) as caught:
        adapters.toolbox(options(**{option: path}), None)

    assert re.match(rf"{re.escape(str(path))}:? {re.escape(said)}", str(caught.value))


def test_a_module_that_is_missing_is_named() -> None:
    """Before anything is served."""
    with pytest.raises(ConfigurationError, match="tools can't be imported from gone_module"):
        adapters.toolbox(options(tools=["gone_module"]), None)


def test_options_for_tools_are_refused_where_none_are_served(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They would have no effect."""
    with pytest.raises(SystemExit):
        worker.main(["--queues", "llm", "--mcp", "servers.json"])

    assert "for a worker of the queue tools" in capsys.readouterr().err


async def test_tools_are_served_on_their_own_queue(client: Client) -> None:
    """They are listed, and called as they were listed."""
    [served] = worker.build(client, ["tools"], called=adapters.toolbox(options(), None))
    async with served:
        listed = ListTask(names=("calculate",))
        found = await callers.call(client, "list_tools", TASK_QUEUE, listed, Listing)
        task = CallTask(tool=found.tools[0], arguments={"expression": "6*7"}, timeout_seconds=5)
        outcome = await callers.call(client, "call_tool", TASK_QUEUE, task, ToolOutcome)

    assert outcome == ToolOutcome(status="ok", content="42")


def test_without_mcp_one_line_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where servers are asked for; a worker without them needs no client."""
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(ConfigurationError, match=r"--mcp needs mcp: pip install '\.\[mcp\]'"):
        adapters.toolbox(options(mcp=written(tmp_path / "mcp.json", {})), None)
    assert adapters.toolbox(options(), None)
