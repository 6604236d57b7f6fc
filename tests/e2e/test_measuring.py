"""`calibrate` and `compare`: their numbers, left or broken off, and their batches by their ids."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError

from commands.embedded import Place
from tests.conftest import until
from tests.e2e.conftest import Cli, serving, started
from tests.e2e.model import FIRST_LIKED, JUDGE, KEYLESS_JUDGE
from tests.patience import PATIENCE
from tests.scripted_endpoint import ScriptedEndpoint

Measured = tuple[dict[str, str], ScriptedEndpoint]
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
ALONE = ("--no-guardrails", "--no-position", "--repeats", "1")


@pytest.fixture(scope="module")
def measured(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    with serving(place, "measuring", tmp_path_factory.mktemp("worker")) as found:
        yield found


@pytest.fixture(scope="module")
def environment(measured: Measured) -> dict[str, str]:
    return measured[0]


@pytest.fixture
def endpoint(measured: Measured) -> ScriptedEndpoint:
    return measured[1]


def written(file: Path, *lines: object) -> str:
    file.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return str(file)


def example(worth: float, label: object, **more: str) -> dict[str, object]:
    return {"query": "Why?", "draft": f"Because. It is worth {worth}.", "label": label, **more}


EXAMPLES = [
    example(0.9, 1, writer="openai/judge"),
    example(0.8, True, writer="openai/other"),
    example(0.6, "pass", writer="openai/judge"),
    example(0.3, "fail", writer="openai/other"),
    example(0.2, 0.1, writer="openai/judge"),
    example(0.1, False, writer="openai/other"),
]
SLOW = {**EXAMPLES[2], "draft": "slow, worth 0.6"}


def calibrated(cli: Cli, file: str, *arguments: str) -> dict[str, Any]:
    done = cli("calibrate", file, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_where_every_evaluation_fails_the_exit_code_is_1(cli: Cli, tmp_path: Path) -> None:
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES[:2])

    done = cli("calibrate", file, "--judge", KEYLESS_JUDGE, *ALONE)

    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "2 evaluations by openai/no-key failed: openai/no-key: AuthenticationError" in said
    assert "sk-secret" not in done.stdout + done.stderr


def test_the_table_and_the_page(cli: Cli, tmp_path: Path) -> None:
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)
    page = tmp_path / "page.html"

    done = cli("calibrate", file, "--judge", JUDGE, "--html", str(page), *ALONE)

    assert done.returncode == 0, done.stderr
    assert "Spearman's rank correlation" in done.stdout
    assert "6 scored examples, of 6, are few" in done.stdout
    assert "estimate: evaluating: 6 calls of openai/judge, about " in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    text = page.read_text()
    assert "<h2>Reliability of openai/judge</h2>" in text
    assert "Because" not in text


async def progress(client: Client, run: str) -> tuple[int, int]:
    """Count the runs of a batch that are done, and those that run."""
    try:
        seen = await client.get_workflow_handle(run).query("progress")
    except (RPCError, WorkflowQueryFailedError):
        return 0, 0
    return seen["done"], seen["running"]


def test_a_killed_client_loses_nothing(
    environment: dict[str, str], cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    file = written(tmp_path / "labelled.jsonl", *(EXAMPLES * 5))
    command = ["calibrate", file, "--judge", JUDGE, "--id", "killed", "--json", *ALONE]
    before = len(endpoint.requests)
    client = started("starter.py", *command, environment=environment, **PIPES)
    while len(endpoint.requests) == before:
        time.sleep(0.01)
    client.send_signal(signal.SIGKILL)
    client.communicate(timeout=PATIENCE)

    done = cli(*command)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["judges"][0]["evaluated"] == 30
    assert len(endpoint.requests) - before == 30


async def test_a_cancelled_batch_goes_on_from_where_it_was(
    cli: Cli, client: Client, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES[:2], SLOW)
    command = ("calibrate", file, "--judge", JUDGE, "--id", "broken-off", *ALONE)
    before = len(endpoint.requests)
    cli(*command, "--detach")
    handle = client.get_workflow_handle("broken-off")
    await until(lambda: progress(client, "broken-off"), lambda seen: seen[0] == 2)
    await handle.cancel()
    running = WorkflowExecutionStatus.RUNNING
    await until(handle.describe, lambda described: described.status is not running)

    again = cli(*command, "--detach")
    await until(lambda: len(endpoint.requests) >= before + 4)
    seen = await handle.query("progress")
    await handle.execute_update("finish_now")

    assert again.stdout == "broken-off\n"
    assert (seen["done"], seen["running"], len(endpoint.requests) - before) == (2, 1, 4)


async def test_a_batch_that_is_cancelled_is_exit_code_5(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    file = written(tmp_path / "labelled.jsonl", SLOW)
    command = ["calibrate", file, "--judge", JUDGE, "--id", "stopped", "--json", *ALONE]
    waiting = started("starter.py", *command, environment=environment, **PIPES)
    handle = client.get_workflow_handle("stopped")
    await until(lambda: progress(client, "stopped"), lambda seen: seen[1])

    await handle.cancel()
    said, more = await asyncio.to_thread(waiting.communicate, timeout=PATIENCE)

    document = {"id": "stopped", "status": "cancelled", "error": "The run was cancelled."}
    assert (waiting.returncode, json.loads(said)) == (5, document)
    assert "repeat the calibrate or compare command with --id stopped." in " ".join(more.split())


def test_two_judges(cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    """The order of one is the labels'; the other gives the first criterion 0.1 more.

    Each draft is judged twice in order and once in reverse by default.
    """
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)
    before = len(endpoint.requests)

    found = calibrated(cli, file, "--judge", JUDGE, "--judge", FIRST_LIKED, "--no-guardrails")

    judge, biased = found["judges"]
    assert (judge["judge"], judge["evaluated"], judge["failed_evaluations"]) == (JUDGE, 6, 0)
    assert (judge["auc"]["value"], judge["recommended"]["accuracy"]) == (1.0, 1.0)
    assert judge["recommended"]["threshold"] == pytest.approx(0.45)
    assert judge["at_source"]["accuracy"] == pytest.approx(5 / 6)
    assert (judge["repeatability"]["examples"], judge["repeatability"]["same_verdict"]) == (6, 1.0)
    assert judge["self_preference"]["value"] is not None
    assert (judge["position_bias"]["value"], biased["judge"]) == (0.0, FIRST_LIKED)
    assert biased["position_bias"]["value"] == pytest.approx(0.1)
    assert len(endpoint.requests) - before == 36
    listed = [one for one in found["evaluations"] if one["judge"] == JUDGE]
    rows = [(one["example"], one["repeat"], one["reversed"]) for one in listed]
    assert sorted(rows) == sorted(
        (place, *kind) for place in range(6) for kind in [(0, False), (1, False), (0, True)]
    )
    assert {one["label"] for one in listed} == {0.0, 0.1, 1.0}


def test_the_same_id_pays_nothing_twice(
    cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """The same command with it shows the result; another file, or a run that is no batch, fails."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)
    other = written(tmp_path / "other.jsonl", *EXAMPLES[::-1])
    command = (file, "--judge", JUDGE, "--id", "twice", *ALONE)
    begun = cli("calibrate", *command, "--detach", "--json")
    first = calibrated(cli, *command)
    before = len(endpoint.requests)

    second = calibrated(cli, *command)
    reversed_ = cli("calibrate", other, *command[1:])

    assert (begun.returncode, json.loads(begun.stdout)) == (0, {"id": "twice"})
    assert (first["id"], first["judges"][0]["evaluated"]) == ("twice", 6)
    assert (second, len(endpoint.requests)) == (first, before)
    assert (reversed_.returncode, reversed_.stdout) == (2, "")
    assert "was started with another file or other options" in reversed_.stderr
    cli("ask", "easy?", "--id", "a-question", "--seed", "0", "--max-responses", "1", "--json")
    taken = cli("calibrate", file, "--judge", JUDGE, "--id", "a-question")
    assert (taken.returncode, taken.stdout) == (2, "")
    assert "belongs to another run" in taken.stderr


QUESTIONS: list[dict[str, str | int]] = [
    {"question": "An easy one: what is 6 times 7?", "gold": 42},
    {"question": "A second look: what is 6 times 7?", "gold": "42"},
    {"question": "Once more, second: what is 6 times 7?", "gold": "42.0"},
    {"question": "Soon spoiled: what is 6 times 7?", "gold": "42"},
]


def compared(cli: Cli, file: str, *arguments: str) -> dict[str, Any]:
    done = cli("compare", file, "--json", "--answers", "number", *arguments)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_every_run_of_a_question_has_the_same_seed(
    cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """The first draft is asked for alike by both methods, so that they differ in what follows."""
    file = written(tmp_path / "questions.jsonl", QUESTIONS[0])
    before = len(endpoint.requests)

    compared(cli, file, "--methods", "single,reflect", "--max-revisions", "0", "--seed", "7")

    drafts = [
        each for each in endpoint.requests[before:] if "You judge" not in str(each["messages"])
    ]
    assert [each["seed"] for each in drafts] == [7, 7]
    assert drafts[0]["messages"] == drafts[1]["messages"]
    assert 'End with one line "Answer: "' in drafts[0]["messages"][-1]["content"]


def test_a_run_that_fails_counts_as_wrong(cli: Cli, tmp_path: Path) -> None:
    """Where every run fails the accuracy is 0, the reason is named, and the exit code is 1."""
    file = written(tmp_path / "questions.jsonl", *QUESTIONS)

    done = cli("compare", file, "--model", "anthropic/none", "--methods", "single", "--json")

    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["comparison"]["methods"][0]["accuracy"]["value"] == 0.0
    assert all(each["error"] for each in found["outcomes"])
    assert any("4 runs by single failed, and count as wrong" in each for each in found["warnings"])


def test_each_method_is_held_against_the_right_answers(
    cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """One draft is right on 2 of 4, reflection on 3: two more, and one spoiled; votes on 1.

    A draft, its evaluation, a revision and its evaluation are four times one draft's tokens. The
    same command with the same id shows it again, and pays nothing.
    """
    file = written(tmp_path / "questions.jsonl", *QUESTIONS)
    document = compared(cli, file, "--id", "by-method")
    before = len(endpoint.requests)

    again = cli("compare", file, "--answers", "number", "--id", "by-method")

    found, reflect = document["comparison"], document["comparison"]["paired"][0]
    right = {one["method"]: one["right"] for one in found["methods"]}
    tokens = {one["method"]: one["tokens"]["value"] for one in found["methods"][:2]}
    assert right == {"single": 2, "reflect": 3, "self_consistency": 1}
    assert (reflect["method"], found["baseline"]) == ("reflect", "single")
    assert (reflect["wrong_to_right"], reflect["right_to_wrong"]) == (2, 1)
    assert (tokens, reflect["tokens_change"]) == ({"single": 18.0, "reflect": 72.0}, 300.0)
    assert all(one["seconds"] > 0 for one in document["outcomes"])
    assert (again.returncode, len(endpoint.requests)) == (0, before), again.stderr
    rows = [line.split() for line in again.stdout.splitlines()]
    assert ["single", "4", "50", "%", "15", "to", "85"] in [row[:7] for row in rows]
    assert ["reflect", "+25", "%"] in [row[:3] for row in rows]


def test_a_judge_that_fails_costs_no_answer(cli: Cli, tmp_path: Path) -> None:
    """Reflection then gives its first draft; runs that do not fit a budget are no outcome."""
    file = written(tmp_path / "questions.jsonl", *QUESTIONS)

    found = compared(cli, file, "--methods", "single,reflect", "--judge", KEYLESS_JUDGE)
    short = compared(cli, file, "--methods", "single", "--budget-tokens", "40")

    assert [one["right"] for one in found["comparison"]["methods"]] == [2, 2]
    assert short["comparison"]["methods"][0]["questions"] == short["batch"]["not_started"] == 2


async def detached(cli: Cli, client: Client, file: Path, run: str) -> str:
    """Begin a batch of two quick runs and a slow one, and wait until the slow one is left."""
    lines = written(file, *EXAMPLES[:2], SLOW)
    begun = cli("calibrate", lines, "--judge", JUDGE, "--id", run, "--detach", *ALONE)
    assert begun.stdout == f"{run}\n", begun.stderr
    await until(lambda: progress(client, run), lambda seen: seen == (2, 1))
    return run


def listed(cli: Cli, *where: str, until: Callable[[list[dict[str, Any]]], bool]) -> list[str]:
    """List ids once what is listed is so; the server's index is a moment behind."""
    for _ in range(20):
        rows = json.loads(cli("list", "--json", "--limit", "100", *where).stdout)["runs"]
        if until(rows):
            break
    return [each["id"] for each in rows]


async def test_a_batch_is_shown_and_finished(cli: Cli, client: Client, tmp_path: Path) -> None:
    run = await detached(cli, client, tmp_path / "labelled.jsonl", "by-id")

    standing = cli("show", run)
    document = json.loads(cli("show", run, "--json").stdout)
    finished = cli("finish", run, "--author", "ann")
    watched = cli("watch", run, "--json")
    shown = cli("show", run)

    findings = f"repeat the calibrate or compare command with --id {run}."
    doubt = "1 of 3 runs without a result"
    assert "2 of 3 runs ended" in standing.stdout
    assert "1 running, 0 failed, 0 cancelled, 0 not started" in standing.stdout
    assert (document["done"], document["total"]) == (2, 3)
    assert finished.returncode == 0
    result = json.loads(watched.stdout)
    assert (result["stop_reason"], result["completed"]) == ("finished_by_person", 2)
    assert (watched.returncode, shown.returncode, result["doubt"]) == (4, 4, doubt)
    assert f"Not to be built on: {doubt}. With --accept-any" in shown.stderr
    assert 'finished by "ann" (unverified) (finished_by_person)' in " ".join(shown.stdout.split())
    assert all(findings in " ".join(each.stderr.split()) for each in (standing, shown))


async def test_a_list_shows_batches_and_not_their_runs(
    cli: Cli, client: Client, tmp_path: Path
) -> None:
    run = await detached(cli, client, tmp_path / "labelled.jsonl", "by-id-listed")

    every = listed(cli, until=lambda rows: any(each["id"] == run for each in rows))
    table = cli("list", "--limit", "100").stdout
    wanted = ("--where", f"ParentWorkflowId = '{run}'")
    children = listed(cli, *wanted, until=lambda rows: len(rows) == 3)
    scored = listed(cli, "--where", "MullScore >= 0 OR MullScore < 0", until=lambda _: True)
    cli("cancel", run)

    assert run in every
    assert not any("/" in each for each in every + scored)
    assert next(line.split()[1:3] for line in table.splitlines() if run in line) == ["2/3", "done"]
    assert sorted(children) == [f"{run}/{place}-judge-1-0" for place in range(3)]


async def test_what_a_batch_does_not_take_is_refused(
    cli: Cli, client: Client, tmp_path: Path
) -> None:
    run = await detached(cli, client, tmp_path / "labelled.jsonl", "refusing")
    findings = f"repeat the calibrate or compare command with --id {run} --html page.html"
    refusals = {
        ("add", run, "7"): "only runs of `ask` take answers.",
        ("review", run): f"{run} is a batch of runs; it can't be reviewed.",
        ("review", run, "--accept"): f"{run} is a batch of runs; it can't be reviewed.",
        ("report", run, "--html", "page.html"): (
            f"{run} is a batch; each of its runs has a page (see mull batch --id {run})."
            f" For the findings of a measurement, {findings}."
        ),
    }

    found = {command: cli(*command) for command in refusals}
    cli("cancel", run)

    assert {command: (done.returncode, done.stdout) for command, done in found.items()} == (
        dict.fromkeys(refusals, (2, ""))
    )
    assert {command: done.stderr for command, done in found.items()} == {
        command: f"Error: {said}\n" for command, said in refusals.items()
    }
