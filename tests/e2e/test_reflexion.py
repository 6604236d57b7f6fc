"""`reflexion` and `memory` by the command line: one task, a list of them, and what they share."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from commands.embedded import Place
from mull.connection import connect
from tests import forks
from tests.conftest import payloads_of
from tests.e2e.conftest import Cli, served, serving
from tests.scripted_endpoint import Body, Scripted

NAMESPACE = "agents"
LEARNED = "Next time I add it up"
HIDDEN = "hidden_value_4711"
DOUBLE = "def double(n):\n    return n + n"
PROMPT = 'def double(n):\n    """Double it.\n    >>> double(3)\n    6\n    """\n'
CODE = [
    {"task_id": "right/0", "test": f"def check(f):\n    {HIDDEN} = f(7)\n    assert f(7) == 14\n"},
    {"task_id": "wrong/0", "test": f"def check(f):\n    {HIDDEN} = f(7)\n    assert f(7) == 15\n"},
]


def replied(request: Body) -> str | Scripted:
    """Count up to the task's number after a reflection; double(n) is right by its own test."""
    prompt = request["messages"][-1]["content"].partition("Now it is your turn")[2]
    if "def double" in prompt:
        return f"[answer]\n```python\n{DOUBLE}\n```"
    number = re.findall(r"Count to (\d+)", prompt)[-1]
    if prompt.endswith("Reflection:"):
        return f"I guessed {number}. {LEARNED}."
    if number == "99":
        return Scripted("add[1]", delay=60)
    if number == "13" or LEARNED not in prompt:
        return "[answer] 0"
    return f"[answer] {number}" if "The sum is" in prompt else f"add[{number}]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


@pytest.fixture(scope="module")
def cli(place: Place, folder: Path) -> Iterator[Cli]:
    """Run commands beside a worker that has the environment that counts."""
    given = ("--environments", "tests.workflows.agents.running")
    tasks = {"MULL_TASKS": str(folder)}
    with serving(place, NAMESPACE, folder, replied, given, **tasks) as (known, _):

        def run(*words: str, **more: str) -> Any:
            return forks.run("starter.py", *words, environment={**known, **more})

        yield served(run, "reflexion", "--env", "counting", "--task", "1", "--id", "ready")


@pytest.fixture
async def client(place: Place, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("TEMPORAL_ADDRESS", place.address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", NAMESPACE)
    return await connect()


def test_one_task(cli: Cli, tmp_path: Path) -> None:
    done = cli("reflexion", "--env", "counting", "--task", "8", "--id", "eight")
    again = cli("reflexion", "--env", "counting", "--task", "8", "--id", "eight", "--json")
    failed = cli("reflexion", "--env", "counting", "--task", "13", "--episode-limit", "1")
    accepted = cli(
        "reflexion", "--env", "counting", "--task", "13", "--strategy", "none", "--accept-any"
    )
    none = cli("reflexion", "--env", "nosuch", "--task", "8")
    page = tmp_path / "page.html"
    shown, listed = cli("show", "eight"), cli("list", "--limit", "50", COLUMNS="120")
    report = cli("report", "eight", "--html", str(page))
    checked = cli("doctor", "--offline", "--json")

    result = json.loads(again.stdout)
    assert (done.returncode, done.stdout) == (0, "8"), done.stderr
    assert "episode 1: return 0, 1 step" in done.stderr
    assert "nothing is paid again" in again.stderr
    assert [one["correct"] for one in result["episodes"]] == [False, True]
    assert (failed.returncode, "Not to be built on: not solved" in failed.stderr) == (4, True)
    assert (accepted.returncode, accepted.stdout) == (0, "0")
    assert (none.returncode, "the worker has code, " in none.stderr) == (1, True)
    assert "Episodes\n" in shown.stderr
    assert LEARNED in shown.stderr
    assert re.search(r"eight +solved .* 2 episodes", listed.stdout)
    assert report.returncode == 0
    assert f"Reflection: I guessed 8. {LEARNED}." in page.read_text()
    assert "counting, hidden" in checked.stdout
    assert f"tasks are read from {tmp_path.parent}" in checked.stdout


def test_a_run_under_way(cli: Cli) -> None:
    run = cli("reflexion", "--env", "counting", "--task", "99", "--detach").stdout.strip()

    review, answer = cli("review", run), cli("add", run, "7")
    cli("finish", run, "--author", "ann")
    ended = cli("watch", run, "--json")

    assert (review.returncode, "it takes no review" in review.stderr) == (2, True)
    assert (answer.returncode, answer.stderr) == (2, "Error: only runs of `ask` take answers.\n")
    assert (ended.returncode, json.loads(ended.stdout)["status"]) == (4, "no_answer")


def test_a_list_learns(cli: Cli, tmp_path: Path) -> None:
    """Later tasks read what earlier ones wrote, one after the other; and it can be forgotten.

    Success is told by episode, in a table and in JSON; the same command pays nothing again.
    """
    file = tmp_path / "tasks.txt"
    file.write_text("7\n\n8\n13\n")
    tried = ("reflexion", "--env", "hidden", "--tasks", str(file), "--episode-limit", "2")
    named = (*tried, "--scope", "environment", "--id", "evening")

    done, document = cli(*named), json.loads(cli(*named, "--json").stdout)
    required = cli("reflexion", "--env", "counting", "--task", "8", "--require-cases")
    held = json.loads(cli("memory", "show", "evening", "--json").stdout)
    shown, hint = cli("memory", "show", "evening"), cli("show", "memory-evening")
    wrong = cli("memory", "clear", "evening", "--scope", "nosuch")
    cleared, empty = cli("memory", "clear", "evening"), cli("memory", "show", "evening")
    missing, unserved = cli("memory", "show", "x"), cli("memory", "show", "x", **IDLE)

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 4, done.stderr
    said = "Not to be built on: no hidden test ran apart from the code, which was required."
    assert (required.returncode, said in required.stderr) == (4, True)
    assert [(row["line"], row["id"]) for row in rows] == [(1, "7"), (2, "8"), (3, "13")]
    assert [row["solved_after"] for row in rows] == [2, 1, None]
    assert [row["hidden_passed"] for row in rows] == [True, False, False]
    assert re.search(r"1 episode +1 +3 .*\n2 episodes +2 +3 .*\nhidden tests +1 +3", done.stderr)
    assert (document["tasks"], document["solved_by_episode"]) == (3, [1, 2])
    assert (document["hidden_passed"], document["hidden_tested"]) == (1, 3)
    origins = [(one["task"], one["episode"]) for one in held["scopes"]["hidden"]]
    assert origins == [("7", 1), ("13", 1)]
    assert "13, episode 1 of evening/page-0/2-reflexion-0" in shown.stdout
    assert (hint.returncode, "mull memory show evening" in hint.stderr) == (2, True)
    assert (wrong.returncode, "its scopes: hidden." in wrong.stderr) == (2, True)
    assert (cleared.returncode, cleared.stderr) == (0, "forgot 2 reflections\n")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert (missing.returncode, "there is no memory x" in missing.stderr) == (2, True)
    assert (unserved.returncode, "no worker is polling" in unserved.stderr) == (3, True)


IDLE = {"TEMPORAL_NAMESPACE": "idle"}


async def test_hidden_tests_stay_in_their_file(cli: Cli, client: Client, folder: Path) -> None:
    """Neither a payload of the batch nor one of a run has them; how many pass is told."""
    file = folder / "double.jsonl"
    more = {"prompt": PROMPT, "entry_point": "double"}
    file.write_text("".join(json.dumps({**one, **more}) + "\n" for one in CODE))
    lines = folder / "lines.jsonl"
    lines.write_text('{"task": "right/0", "gold": "g"}\n')

    done = cli("reflexion", "--env", "code", "--tasks", str(file), "--id", "coded", "--json")
    given = ("--command", "reflexion", "--id", "piped", "--", "--env", "code")
    batch = cli("batch", str(lines), *given, "--tasks", str(file), "--require-cases")
    kept = [one async for one in client.list_workflows()]
    texts = await asyncio.gather(*(all_of(client, one.id, one.run_id) for one in kept))

    document = json.loads(done.stdout)
    assert (done.returncode, document["solved_by_episode"]) == (4, [2]), done.stderr
    assert (document["hidden_passed"], document["hidden_tested"]) == (1, 2)
    assert [row["hidden_passed"] for row in document["results"]] == [True, False]
    assert [row["verified_by"] for row in document["results"]] == ["cases", "cases"]
    assert (batch.returncode, json.loads(batch.stdout)["gold"]) == (0, "g"), batch.stderr
    assert any(b"right/0" in text for text in texts)
    assert not any(HIDDEN.encode() in text for text in texts)


async def all_of(client: Client, run: str, run_id: str) -> bytes:
    history = await client.get_workflow_handle(run, run_id=run_id).fetch_history()
    return b"".join(one.data for event in history.events for one in payloads_of(event))
