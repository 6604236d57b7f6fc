"""`mull mcp` as clients use it: the SDK's own client, a process for each, and a real worker."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from temporalio.client import WorkflowExecutionStatus

import mull
from commands.embedded import Place
from tests import forks
from tests.conftest import until
from tests.e2e.conftest import commands_beside, serving
from tests.e2e.model import KAFKA, REPORTS, replied
from tests.e2e.test_serve import ADDRESS, KEY
from tests.e2e.test_serve import serving as listening
from tests.patience import PATIENCE
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint

ROOT = Path(__file__).parents[2]
SIX = "What is 6 times 7? It is easy."
# What "held" and "long" questions wait for.
OPEN = threading.Event()
SPLIT = count()


def scripted(request: Body) -> Scripted:
    """Hold what is "held", never agree on what is "split", and else reply as the usual model."""
    prompt = str(request["messages"])
    if "held" in prompt:
        return Scripted(json.dumps({"reasoning": "r", "answer": "late"}), until=OPEN.is_set)
    if "split" in prompt:
        return Scripted(json.dumps({"reasoning": "r", "answer": f"answer {next(SPLIT)}"}))
    return replied(request)


Served = tuple[dict[str, str], ScriptedEndpoint]


@pytest.fixture(scope="module")
def served(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "documents").mkdir()
    (folder / "documents" / "kafka.md").write_text(KAFKA)
    own = {"MULL_DOCUMENTS": str(folder / "documents")}
    with serving(place, "mcp", folder, scripted, **own) as (known, endpoint):
        yield {**known, **own}, endpoint


@pytest.fixture
async def m(served: Served, monkeypatch: pytest.MonkeyPatch) -> mull.Client:
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"):
        monkeypatch.setenv(name, served[0][name])
    async with mull.connect() as connected:
        await until(lambda: _polled(connected))
        return connected


async def _polled(m: mull.Client) -> bool:
    try:
        await m.need_workers(("mull", "mull-llm"))
    except mull.NoWorkerError:
        return False
    return True


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    OPEN.clear()
    yield
    OPEN.set()


@asynccontextmanager
async def speaking(
    environment: dict[str, str], *options: str, mode: str = "auto"
) -> AsyncIterator[Client]:
    """Start `mull mcp`, and speak to it as a client does; `cat` carries what is said."""
    with TemporaryDirectory() as folder:
        given, said, log = (str(Path(folder, name)) for name in ("given", "said", "log"))
        os.mkfifo(given)
        os.mkfifo(said)
        process = forks.start(
            ["starter.py", "mcp", *options], environment, Path(said), Path(log), Path(given)
        )
        carrying = ["-c", 'cat "$0" & exec cat >"$1"', said, given]
        known = StdioServerParameters(command="sh", args=carrying)
        async with Client(stdio_client(known), mode=mode) as client:
            yield client
        process.join(PATIENCE)
        assert process.exitcode == 0


def text(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def refusal(client: Client, tool: str, **given: Any) -> str:
    result = await client.call_tool(tool, given)
    assert result.is_error, result
    assert result.structured_content is None
    return text(result)


TAKEN = {
    "ask": {"question", "answers", "preset", "context", "budget_usd"},
    "reflect": {
        "query", "draft", "criteria", "score_threshold", "max_revisions", "min_complexity",
        "sources", "context", "budget_usd",
    },
    "agent": {"prompt", "mode", "tests", "max_revisions", "budget_usd"},
    "show": {"id"},
}  # fmt: skip


async def test_four_tools_take_texts_and_bounds_alone(served: Served) -> None:
    """No tool takes a model, a path, a tool or an id of its own, and none reviews."""
    async with speaking(served[0], "--budget-usd", "0.5") as client:
        listed = (await client.list_tools()).tools
        said = client.instructions or ""

    assert {tool.name: set(tool.input_schema["properties"]) for tool in listed} == TAKEN
    assert all(tool.input_schema["additionalProperties"] is False for tool in listed)
    hints = {tool.name: tool.annotations and tool.annotations.read_only_hint for tool in listed}
    assert hints == {"ask": False, "reflect": False, "agent": False, "show": True}
    for tool in listed[:3]:
        budget = tool.input_schema["properties"]["budget_usd"]
        assert (budget["maximum"], budget["exclusiveMinimum"]) == (0.5, 0)
        assert "don't build on the answer" in (tool.description or "")
    assert "There are no documents here" in (listed[2].description or "")
    assert "an id: ask for its result by `show`" in said


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.usefixtures("m")
async def test_an_answer_comes_with_its_agreement_cost_and_id(
    served: Served, mode: Literal["auto", "legacy"]
) -> None:
    """In both eras of the protocol, as JSON and as text; `show` repeats it, and pays nothing."""
    async with speaking(served[0], mode=mode) as client:
        asked = await client.call_tool("ask", {"question": SIX, "answers": "number"})
        paid = len(served[1].requests)
        shown = await client.call_tool("show", {"id": asked.structured_content["id"]})

    found = asked.structured_content
    assert not asked.is_error
    assert (found["answer"], found["agreement"], found["score"]) == ("42", 1.0, None)
    assert (found["state"], found["doubt"], found["stop_reason"]) == ("done", "", "rule")
    assert found["id"].startswith("ask-mcp-")
    assert text(asked).endswith(f"run {found['id']}\n\n42")
    assert text(asked).startswith("agreement 1.00; stopped: rule (")
    assert (shown.structured_content, text(shown)) == (found, text(asked))
    assert len(served[1].requests) == paid


@pytest.mark.usefixtures("m")
async def test_a_doubt_comes_first(served: Served) -> None:
    async with speaking(served[0]) as client:
        asked = await client.call_tool("ask", {"question": "A split one?"})

    assert not asked.is_error
    assert asked.structured_content["doubt"]
    assert text(asked).startswith("Don't build on this answer: ")


@pytest.mark.usefixtures("m")
async def test_a_text_is_judged_and_a_report_rests_on_the_operators_documents(
    served: Served,
) -> None:
    async with speaking(served[0], "--docs", served[0]["MULL_DOCUMENTS"]) as client:
        [agent] = [tool for tool in (await client.list_tools()).tools if tool.name == "agent"]
        written = await client.call_tool("reflect", {"query": SIX, "min_complexity": 0})
        report = await client.call_tool("agent", {"prompt": "Compare Kafka with a queue."})

    assert written.structured_content["score"] == 0.8
    assert written.structured_content["answer"].startswith("Better, worth 0.8.")
    assert "score 0.80; stopped: passed (" in text(written)
    assert report.structured_content["answer"].startswith(REPORTS[1])
    assert report.structured_content["doubt"] == ""
    assert "Reports rest on the documents" in (agent.description or "")


async def test_a_long_run_returns_its_id_and_is_shown_later(m: mull.Client, served: Served) -> None:
    """Another server shows it, since the first one went away with its client; paid once."""
    async with speaking(served[0], "--wait", "1") as client:
        asked = await client.call_tool("ask", {"question": "held, for long?"})
        found = asked.structured_content
        goes_on = await client.call_tool("show", {"id": found["id"]})
    described = await (await m.get(found["id"])).handle.describe()
    paid = len(served[1].requests)
    OPEN.set()
    async with speaking(served[0]) as client:
        shown = await client.call_tool("show", {"id": found["id"]})

    assert (found["state"], found["answer"], found["doubt"]) == ("running", None, "")
    assert f"The run {found['id']} goes on (" in text(asked)
    assert goes_on.structured_content["state"] == "running"
    assert described.status is WorkflowExecutionStatus.RUNNING
    assert shown.structured_content["answer"] == "late"
    assert shown.structured_content["state"] == "done"
    assert len(served[1].requests) == paid


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.usefixtures("m")
async def test_progress_is_told_as_it_changes(
    served: Served, mode: Literal["auto", "legacy"]
) -> None:
    """The first notification names the run, and the numbers rise."""
    told: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del total  # Mull says none.
        told.append((progress, message))
        if len(told) == 2:
            OPEN.set()

    async with speaking(served[0], mode=mode) as client:
        asked = await client.call_tool("ask", {"question": "held?"}, progress_callback=hear)

    assert told[0] == (1, f"{asked.structured_content['id']} has begun")
    assert "wave 1 is running" in (told[1][1] or "")
    assert [number for number, _ in told] == [*range(1, len(told) + 1)]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_cancelled_call_cancels_its_run(
    m: mull.Client, served: Served, mode: Literal["auto", "legacy"]
) -> None:
    """And a cancelled `show` cancels nothing."""
    named = asyncio.get_running_loop().create_future()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del progress, total  # the id is all
        if not named.done():
            named.set_result((message or "").split()[0])

    async with speaking(served[0], mode=mode) as client:
        calls = [
            asyncio.create_task(
                client.call_tool("ask", {"question": "held?"}, progress_callback=hear)
            )
        ]
        run = await m.get(await asyncio.wait_for(named, PATIENCE))
        showing = asyncio.create_task(client.call_tool("show", {"id": run.id}))
        await asyncio.sleep(1)
        showing.cancel()
        await asyncio.sleep(1)
        kept = (await run.handle.describe()).status
        calls[0].cancel()
        ended = await until(
            run.handle.describe, lambda one: one.status is not WorkflowExecutionStatus.RUNNING
        )
        said = await refusal(client, "show", id=run.id)

    assert kept is WorkflowExecutionStatus.RUNNING
    assert ended.status is WorkflowExecutionStatus.CANCELED
    assert f"the run {run.id} was cancelled" in said


async def test_a_client_that_goes_away_leaves_its_run(m: mull.Client, served: Served) -> None:
    """It is killed in the middle of a call; the server ends, and the run has its result."""
    process = await _raw(served[0])
    call = {"name": "ask", "arguments": {"question": "held?"}, "_meta": {"progressToken": 1}}
    await _send(process, 2, "tools/call", call)
    run = await m.get((await _next(process))["params"]["message"].split()[0])
    process.stdin.close()
    await asyncio.wait_for(process.wait(), PATIENCE)
    status = (await run.handle.describe()).status
    OPEN.set()
    result = await asyncio.wait_for(run.result(), PATIENCE)

    assert process.returncode == 0
    assert status is WorkflowExecutionStatus.RUNNING
    assert result.final_answer == "late"


async def _raw(environment: dict[str, str], *program: str) -> Any:
    """Start the server as a process whose every line is seen, and shake hands."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(program or ["starter.py", "mcp"]),
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=2**20,
    )
    known: Body = {"protocolVersion": "2025-06-18", "capabilities": {}}
    await _send(process, 1, "initialize", {**known, "clientInfo": {"name": "raw", "version": "1"}})
    await _next(process)
    await _send(process, None, "notifications/initialized", {})
    return process


async def _send(process: Any, number: int | None, method: str, params: Body) -> None:
    message: Body = {"jsonrpc": "2.0", "method": method, "params": params}
    message |= {} if number is None else {"id": number}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    await process.stdin.drain()


async def _next(process: Any) -> Any:
    return json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))


NOISY = """
import os, sys
from commands import mcp_server
read = mcp_server.read_request
def noisy(*given):
    print("printed by python")
    os.write(1, b"written to the descriptor\\n")
    os.system("echo echoed by a child")
    return read(*given)
mcp_server.read_request = noisy
sys.argv = ["mull", "mcp"]
import starter
starter.run()
"""


@pytest.mark.usefixtures("m")
async def test_only_messages_go_to_standard_output(served: Served) -> None:
    """Whatever Python, the process or a child of it prints in the meantime."""
    # Python keeps what it prints in a buffer until the end, as it does for a client.
    buffered = {name: said for name, said in served[0].items() if name != "PYTHONUNBUFFERED"}
    process = await _raw(buffered, "-c", NOISY)
    await _send(process, 2, "tools/call", {"name": "ask", "arguments": {"question": SIX}})
    reply = await _next(process)
    await _send(process, 3, "nonsense", {})
    unknown = await _next(process)
    process.stdin.write(b"{not json\n")
    process.stdin.close()
    rest, said = await asyncio.wait_for(process.communicate(), PATIENCE)

    assert reply["result"]["structuredContent"]["answer"] == "42"
    assert unknown["error"]["code"] == types.METHOD_NOT_FOUND
    assert [json.loads(line)["jsonrpc"] for line in rest.splitlines()] == ["2.0"] * len(
        rest.splitlines()
    )
    for noise in (b"printed by python", b"written to the descriptor", b"echoed by a child"):
        assert noise in said


FIXED = "only whoever runs this server can set it. Leave it out."
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("ask", {"model": "http://10.0.0.1/v1"}, f"model: {FIXED}"),
    ("ask", {"model": "openai/the-dearest"}, f"model: {FIXED}"),
    ("ask", {"budget_usd": 0.51}, "budget_usd: at most 0.5 here."),
    ("ask", {"budget_usd": 1e308}, "budget_usd: at most 0.5 here."),
    ("ask", {"budget_usd": -1}, "budget_usd: "),
    ("ask", {"budget_usd": "0.1"}, "budget_usd: "),
    ("ask", {"budget_usd": True}, "budget_usd: "),
    ("ask", {"max_responses": 1_000}, f"max_responses: {FIXED}"),
    ("ask", {"max_attempts": 100}, f"max_attempts: {FIXED}"),
    ("ask", {"question": 7}, "question: "),
    ("ask", {"question": " "}, "question: "),
    ("ask", {"question": "x" * 100_001}, "question: "),
    ("ask", {"context": "x"}, "context: "),
    ("ask", {"id": "ask-mcp-1"}, "id: no such field."),
    ("ask", {"system_prompt": "x"}, "system_prompt: no such field."),
    ("reflect", {"judges": ["openai/the-dearest"]}, f"judges: {FIXED}"),
    ("reflect", {"guardrails": []}, f"guardrails: {FIXED}"),
    ("reflect", {"review_below": 1.0}, f"review_below: {FIXED}"),
    ("agent", {"docs": "/etc"}, f"docs: {FIXED}"),
    ("agent", {"packages": ["requests"]}, f"packages: {FIXED}"),
    ("agent", {"limits": {"memory_mb": 65_536}}, f"limits: {FIXED}"),
    ("agent", {"tests": {"name": "../t.py", "text": "x"}}, "tests.name: "),
    ("agent", {"tests": "/etc/passwd"}, "tests: "),
]


@pytest.mark.usefixtures("m")
async def test_what_a_model_may_not_set_is_refused_and_nothing_begins(served: Served) -> None:
    """Each error names its field, for the model to mend, and quotes nothing of it."""
    subjects = {"ask": "question", "reflect": "query", "agent": "prompt"}
    paid = len(served[1].requests)
    async with speaking(served[0], "--budget-usd", "0.5") as client:
        for tool, given, said in WRONG:
            told = await refusal(client, tool, **{subjects[tool]: SIX, **given})
            assert told.startswith(said), (tool, given, told)
            assert "10.0.0.1" not in told
        assert await refusal(client, "ask") == "question: missing."
        with pytest.raises(MCPError, match="there is no tool review"):
            await client.call_tool("review", {"id": "ask-mcp-1", "accept": True})

    assert len(served[1].requests) == paid


async def test_the_operators_model_and_budgets_are_in_each_request(
    m: mull.Client, served: Served
) -> None:
    """A lower budget of the model's is taken."""
    fixed = ("--model", "openai/fixed", "--budget-usd", "0.5", "--budget-tokens", "9000")
    async with speaking(served[0], *fixed, "--budget-seconds", "60") as client:
        asked = [await client.call_tool("ask", {"question": SIX, **own}) for own in LOWER]
    requests = [await (await m.get(one.structured_content["id"])).request() for one in asked]

    assert [one.budget_usd for one in requests] == [0.5, 0.25, 0.5]
    for one in requests:
        known = (one.model, one.budget_tokens, one.budget_seconds)
        assert known == ("openai/fixed", 9_000, 60)


async def test_no_file_of_settings_is_read(m: mull.Client, served: Served, tmp_path: Path) -> None:
    """A client starts it in the folder of a project that may be somebody else's."""
    (tmp_path / "mull.toml").write_text('model = "openai/elsewhere"\nbudget_usd = 900\nmodle = 1')
    known = {**served[0], "MULL_SETTINGS": str(tmp_path / "mull.toml")}
    started = StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "starter.py"), "mcp"],
        env=known,
        cwd=str(tmp_path),
    )
    async with Client(stdio_client(started)) as client:
        asked = await client.call_tool("ask", {"question": SIX})
    request = await (await m.get(asked.structured_content["id"])).request()

    assert (request.model, request.budget_usd) == (None, None)


LOWER: list[dict[str, Any]] = [{}, {"budget_usd": 0.25}, {"budget_usd": None}]


@pytest.mark.usefixtures("m")
async def test_a_server_starts_no_more_runs_than_it_may(served: Served) -> None:
    """Two at once of one that is left are one; `show` goes on."""
    async with speaking(served[0], "--runs", "2") as client:
        first = await client.call_tool("ask", {"question": SIX})
        both = await asyncio.gather(*[client.call_tool("ask", {"question": SIX}) for _ in "ab"])
        shown = await client.call_tool("show", {"id": first.structured_content["id"]})

    assert sorted(one.is_error for one in both) == [False, True]
    [refused] = [text(one) for one in both if one.is_error]
    assert refused.startswith("2 runs were started, and this server may start no more.")
    assert shown.structured_content["answer"] == "42"


async def test_only_runs_that_were_started_here_are_shown(m: mull.Client, served: Served) -> None:
    """A run of somebody else's is refused in the words for one that is not there."""
    await m.ask("A secret?", id="nightly", answers="number", max_responses=1, min_responses=1)
    async with speaking(served[0]) as client:
        said = [
            await refusal(client, "show", id=name)
            for name in ("nightly", "nowhere", "ask-mcp-0000000000ab", "", "ask-mcp-" + "0" * 2_000)
        ]
        shapes = [await refusal(client, "show", **given) for given in ({}, {"id": 7}, ASIDE)]

    assert said[:3] == [
        f"no run that was started here has the id {name}."
        for name in ("nightly", "nowhere", "ask-mcp-0000000000ab")
    ]
    assert all(len(one) < 200 for one in said)
    assert shapes == ["show takes one text, the id of a run."] * 3


ASIDE: dict[str, Any] = {"id": "ask-mcp-0000000000ab", "accept": True}


async def test_a_run_that_waits_for_a_person_is_not_decided_on(
    m: mull.Client, served: Served
) -> None:
    """A person's program started it; the tool says who decides, and shows no answer before."""
    run = await m.start(
        "ask", question="A split one?", review_when="high", id="ask-mcp-0123456789ab"
    )
    await until(run.look, lambda seen: seen.step == "waiting_for_review")
    async with speaking(served[0], "--wait", "1") as client:
        shown = await client.call_tool("show", {"id": run.id})
    await run.cancel()

    assert shown.structured_content["state"] == "waiting_for_a_person"
    assert shown.structured_content["answer"] is None
    assert f"mull review {run.id}" in text(shown)


@pytest.mark.usefixtures("m")
async def test_a_run_that_fails_is_an_error_with_its_cause(served: Served) -> None:
    async with speaking(served[0]) as client:
        said = await refusal(client, "ask", question="keyless?")

    assert "AuthenticationError" in said
    assert "mull show ask-mcp-" in said
    assert "sk-secret" not in said


async def test_a_server_without_temporal_or_worker_says_so_and_goes_on(
    place: Place,
) -> None:
    """Its tools are listed, so that a client that begins before Temporal does needs no restart."""
    nowhere = {**commands_beside(place, "idle"), "TEMPORAL_ADDRESS": "127.0.0.1:9"}
    async with speaking(nowhere) as client:
        listed = (await client.list_tools()).tools
        said = [await refusal(client, "ask", question=SIX) for _ in "ab"]
        shown = await refusal(client, "show", id="ask-mcp-0000000000ab")
    async with speaking(commands_beside(place, "idle")) as client:
        unserved = await refusal(client, "ask", question=SIX)

    assert len(listed) == 4
    for one in (*said, shown):
        assert one.startswith("no Temporal server answers at 127.0.0.1:9")
    assert unserved.startswith('no worker is polling task queues "mull" and "mull-llm".')


def _ended(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    known = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=known,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wrong_option_is_named_before_it_serves() -> None:
    """And without its client at the other end it ends at once, in silence."""
    negative = _ended({}, "starter.py", "mcp", "--budget-usd", "-1")
    without = _ended({}, "-c", WITHOUT)
    alone = _ended({}, "starter.py", "mcp")

    assert (negative.returncode, negative.stdout) == (2, "")
    assert negative.stderr.startswith("Error: --budget-usd: ")
    assert (without.returncode, without.stdout) == (2, "")
    get = "pip install '.[mcp]', where . is Mull's folder or its wheel"
    assert without.stderr == f"Error: this needs mcp: {get}.\n"
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, "", "")


WITHOUT = """
import sys
sys.modules["mcp"] = None
sys.argv = ["mull", "mcp"]
import starter
starter.run()
"""


def documented(language: str) -> list[str]:
    """List the examples of the page in this language."""
    page = (ROOT / "docs" / "mcp.md").read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.mark.usefixtures("m")
async def test_the_documented_file_of_servers_starts_it(served: Served) -> None:
    """With no variables but those in the file; only the paths and addresses are those of here."""
    known = json.loads(documented("json")[0])["mcpServers"]["mull"]
    here = {name: served[0][name] for name in known["env"]}
    started = StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "starter.py"), *known["args"]],
        env=here,
    )
    async with Client(stdio_client(started)) as client:
        asked = await client.call_tool("ask", {"question": SIX})
    found = asked.structured_content

    assert known["command"].endswith("/mull")
    assert set(here) == {"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"}
    assert (found["answer"], found["doubt"], found["stop_reason"]) == ("42", "", "rule")
    assert 0 < found["cost_usd"] < 0.5


@pytest.mark.usefixtures("m")
def test_the_documented_program_asks(served: Served, tmp_path: Path) -> None:
    [program] = documented("python")
    for name, usual in (("ADDRESS", "localhost:7233"), ("NAMESPACE", "default")):
        assert f'"TEMPORAL_{name}": "{usual}"' in program
        program = program.replace(usual, served[0][f"TEMPORAL_{name}"])
    mull_here = tmp_path / "mull"
    mull_here.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/starter.py" "$@"\n')
    mull_here.chmod(0o755)
    (tmp_path / "asks.py").write_text(program)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = _ended({"PATH": path}, str(tmp_path / "asks.py"))

    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"129 1\.0 no doubt ask-mcp-[0-9a-f]{12}\n", done.stdout)


@pytest.mark.usefixtures("m")
async def test_the_documented_address_of_serve_has_the_tools(
    served: Served, tmp_path: Path
) -> None:
    known = json.loads(documented("json")[1])["mcpServers"]["mull"]
    (tmp_path / "keys.toml").write_text(f'[alice]\nkey = "{KEY}"\n')
    headers = {name: said.replace("${MULL_KEY}", KEY) for name, said in known["headers"].items()}
    with listening(served[0], "--keys", str(tmp_path / "keys.toml")) as (place, process):
        address = known["url"].replace(ADDRESS, place)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as plain,
            Client(streamable_http_client(address, http_client=plain)) as client,
        ):
            asked = await client.call_tool("ask", {"question": SIX})
    assert process.stderr
    process.stderr.close()

    assert (known["type"], address) == ("http", f"http://{place}/mcp")
    assert asked.structured_content["answer"] == "42"
    assert asked.structured_content["id"].startswith("ask-mcp-alice-")
