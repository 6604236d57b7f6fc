"""A worker process of its own with a scripted endpoint, and the command line as users run it."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from commands.embedded import Place
from mull.connection import connect
from tests import forks
from tests.activities.test_turn_calls import calling
from tests.patience import PATIENCE, patiently
from tests.scripted_endpoint import Body, Reply, Scripted, ScriptedEndpoint, failing

ROOT = Path(__file__).parents[2]
Cli = Callable[..., "subprocess.CompletedProcess[str]"]

# The seed that a test asks with chooses what the model does.
AGREE, SPLIT, SLOW, NO_KEY = 0, 1_000, 2_000, 3_000
# Drafts that get better, that stay low, and whose revision takes a minute.
IMPROVES, STAYS_LOW, REVISES_SLOWLY = 5_000, 6_000, 7_000
# Drafts that are cut off, and whose judge is not sure.
CUT_OFF, UNSURE = 9_000, 10_000
# Calls of a tool, and then what they returned.
CALCULATES = 8_000
EXPRESSIONS = ("40 + 2", " + ".join(["1000"] * 60))
WORTH = {
    IMPROVES: (0.4, 0.75), STAYS_LOW: (0.4, 0.45, 0.5), REVISES_SLOWLY: (0.4, 0.75),
    CUT_OFF: (0.8,), UNSURE: (0.8,),
}  # fmt: skip
JUDGES = "You judge a draft"


def reply(seed: int) -> Reply:
    """Answer as the seed says; who is asked to judge scores a draft by what it says it is worth."""
    if seed == CALCULATES:
        return _calculated
    return lambda request: _judged(request) or _replied(seed)


def _calculated(request: Body) -> Scripted:
    told = [one["content"] for one in request["messages"] if one["role"] == "tool"]
    asked = [("calculate", json.dumps({"expression": each})) for each in EXPRESSIONS]
    return Scripted(text=" ".join(told)) if told else calling(*asked)


def _judged(request: Body) -> Scripted | None:
    prompt = request["messages"][-1]["content"]
    if not prompt.startswith(JUDGES):
        return None
    draft = prompt.partition("\nDraft: ")[2].partition("\n")[0]
    worth = float(re.findall(r"worth (\d\.\d+)", draft)[-1])
    point = {"criterion": "clarity", "place": "the end", "advice": "Say which release is meant."}
    scores = dict.fromkeys(("completeness", "correctness", "clarity"), worth)
    known = {"feedback": [point], "criteria_scores": scores}
    known["confidence"] = "low" if "I guess" in draft else "high"
    return Scripted(text=json.dumps(known))


def _replied(seed: int) -> Scripted:
    behaviour, index = divmod(seed, 1_000)
    behaviour *= 1_000
    if behaviour in WORTH:
        slow = behaviour == REVISES_SLOWLY and index
        worth = WORTH[behaviour][min(index, len(WORTH[behaviour]) - 1)]
        guess = "I guess: draft" if behaviour == UNSURE else "Draft"
        text, reason = f"{guess} {index + 1}, worth {worth}.", "stop"
        if behaviour == CUT_OFF:
            text, reason = text.removesuffix("."), "length"
        return Scripted(text=text, finish_reason=reason, delay=60 if slow else 0)
    if behaviour == NO_KEY:
        return failing(401)
    answer = "129" if behaviour == AGREE else str(seed)
    text = json.dumps({"reasoning": "summed", "answer": answer})
    return Scripted(text=text, delay=60 if behaviour == SLOW else 0)


@contextmanager
def worker(environment: dict[str, str], log: Path, *options: str) -> Iterator[None]:
    """Run a worker process of its own, with options."""
    process = forks.start(["worker.py", *options], environment, log, log)
    try:
        yield
    finally:
        process.terminate()
        process.join(PATIENCE)


def commands_beside(place: Place, namespace: str) -> dict[str, str]:
    """Return the environment of commands that use this namespace, in a terminal of 80 columns."""
    server = {"TEMPORAL_ADDRESS": place.address, "TEMPORAL_NAMESPACE": namespace}
    shown = {"MULL_WEB_UI": place.web_ui, "NO_COLOR": "1", "COLUMNS": "80"}
    return {**os.environ, **server, **shown}


@pytest.fixture(scope="session")
def environment(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of commands beside a running server and worker."""
    known = {**commands_beside(place, "commands"), "HOSTED_VLLM_API_BASE": "http://127.0.0.1:9/v1"}
    with ScriptedEndpoint(by_seed=reply) as endpoint:
        model = {"MULL_MODEL": "openai/scripted", "OPENAI_API_BASE": endpoint.url}
        key = {"OPENAI_API_KEY": "sk-secret"}
        with worker({**known, **model, **key}, tmp_path_factory.mktemp("worker") / "log"):
            yield known


@pytest.fixture
async def client(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client of the namespace that the commands use."""
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"):
        monkeypatch.setenv(name, environment[name])
    return await connect()


@pytest.fixture(scope="module")
def cli(environment: dict[str, str]) -> Cli:
    """Run a command to its end, and return what it printed and its exit code."""

    def run(*arguments: str, stdin: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        known = {**environment, **more}
        return forks.run("starter.py", *arguments, environment=known, stdin=stdin)

    for _ in patiently():
        served = run("ask", "ready?", "--seed", str(AGREE), "--max-responses", "1")
        if served.returncode == 0:
            return run
    pytest.fail(f"the worker did not start: {served.stderr}")


def listed(cli: Cli, run: str) -> dict[str, Any]:
    """Return a run's row of the list once it has ended."""
    for _ in patiently():
        for row in json.loads(cli("list", "--json").stdout)["runs"]:
            if row["id"] == run and row["status"] == "completed":
                return dict(row)
    pytest.fail(f"{run} is not listed as completed")


def until_waiting(cli: Cli, run: str) -> "subprocess.CompletedProcess[str]":
    """Wait until a run can be reviewed, and return what `review` shows of it."""
    for _ in patiently():
        shown = cli("review", run)
        if shown.returncode == 0:
            return shown
    pytest.fail("the run is not waiting for a review")
