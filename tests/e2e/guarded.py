"""Runs of everything with marked secrets and marked texts, encrypted and in the clear."""

import asyncio
import base64
import json
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from urllib.request import urlopen

import pytest
from google.protobuf.json_format import MessageToJson
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from commands.embedded import Place, free_port, server_command
from mull.connection import connect
from mull.errors import NoServerError
from tests import forks
from tests.activities.test_turn_calls import calling
from tests.e2e.conftest import commands_beside, sink, worker
from tests.patience import PATIENCE, patiently
from tests.scripted import judgement
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint, failing

ENCRYPTED, CLEAR = "quokka", "wombat"


def _key(letter: str) -> str:
    return base64.b64encode((letter * 32).encode()).decode()


KEYS = {"main-2": _key("b"), "main-1": _key("a"), "code-1": _key("c")}
PROVIDER = "sk-numbat-0123456789abcdef"
TOKEN, WEBHOOK = "numbat-codec-0123456789", "numbat-webhook-0123456789"
SECRETS = [PROVIDER, TOKEN, WEBHOOK, *KEYS.values(), *("abc"[i] * 32 for i in range(3))]
TOOLS = '''
import os
from activities.tools import tool

@tool(read_only=True)
def environment(about: str) -> str:
    """Print what this process knows."""
    return "\\n".join(f"{name}={value}" for name, value in os.environ.items())

@tool(read_only=True)
def broken(about: str) -> str:
    """Fail with a secret."""
    raise RuntimeError(f"{about} can't be had with {os.environ['OPENAI_API_KEY']}")
'''
SEES = """
import glob, os, sys
print("argument WORDargument", dict(os.environ))
for name in glob.glob("/proc/*/environ"):
    try:
        print(open(name, "rb").read())
    except OSError as error:
        print(type(error).__name__)
"""
TESTS = """
import os
from solution import add

def test_add():
    assert add(2, 3) == 5, "WORDassert"
    assert not [name for name in os.environ if "MULL" in name or "KEY" in name]
"""


def replied(request: Body) -> Scripted:
    """Do what is asked, in words that are marked as those of the request are."""
    whole = json.dumps(request["messages"])
    word = ENCRYPTED if ENCRYPTED in whole else CLEAR
    prompt = request["messages"][-1]["content"]
    if "keyless" in whole:
        return failing(401, message=f"{PROVIDER} may not ask {whole}")
    if prompt.startswith("You judge a draft"):
        return Scripted(judgement(prompt, 0.5, f"Name the {word}advice."))
    if prompt.startswith("Write Python code"):
        return Scripted(f"```python\ndef add(a, b):\n    return a + b  # {word}code\n```")
    if "tools" in request and request["messages"][-1]["role"] != "tool":
        about = json.dumps({"about": f"{word}argument"})
        code = json.dumps({"code": SEES.replace("WORD", word)})
        asked = [("environment", about), ("broken", about)]
        asked += [("run_python", code)] if word == ENCRYPTED else []
        return calling(*asked, ("calculate", json.dumps({"expression": f"{word}+1"})))
    if "response_format" in request:
        return Scripted(json.dumps({"reasoning": f"{word}reason", "answer": f"{word}answer"}))
    return Scripted(f"A {word}draft.")


@dataclass
class World:
    """What was left where, after all runs have ended."""

    folder: Path
    place: Place
    commands: dict[str, dict[str, CompletedProcess[str]]] = field(default_factory=dict)
    exported: list[bytes] = field(default_factory=list)
    histories: dict[str, dict[str, list[HistoryEvent]]] = field(default_factory=dict)
    environments: dict[str, dict[str, str]] = field(default_factory=dict)

    def run(self, word: str, *arguments: str) -> CompletedProcess[str]:
        return forks.run("starter.py", *arguments, environment=self.environments[word])

    def stored(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.folder.glob("server.db*"))

    def printed(self) -> str:
        files = [*self.folder.glob("*.log"), *self.folder.glob("*.html")]
        said = [one.stdout + one.stderr for ran in self.commands.values() for one in ran.values()]
        return "\n".join([*(path.read_text() for path in files), *said])


@contextmanager
def temporal(place: Place, log: Path) -> Iterator[None]:
    names = [f"--namespace={name}" for name in (ENCRYPTED, CLEAR)]
    with log.open("wb") as output:
        server = subprocess.Popen([*server_command(place), *names], stdout=output, stderr=output)
    try:
        yield
    finally:
        server.terminate()
        server.wait(PATIENCE)


async def client_of(environment: dict[str, str], keys: str | None = None) -> Client:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"):
            patch.setenv(name, environment[name])
        if keys:
            patch.setenv("MULL_ENCRYPTION_KEYS", keys)
        for _ in patiently():
            try:
                return await connect(quiet=True)
            except NoServerError:
                continue
    pytest.fail("the server did not start")


def keys_of(*ids: str) -> str:
    return ",".join(f"{name}:{KEYS[name]}" for name in ids)


async def histories(environment: dict[str, str]) -> dict[str, list[HistoryEvent]]:
    client = await client_of(environment)
    ids = [run.id async for run in client.list_workflows()]
    fetched = await asyncio.gather(
        *(client.get_workflow_handle(id_).fetch_history() for id_ in ids)
    )
    return {id_: list(history.events) for id_, history in zip(ids, fetched, strict=True)}


def everything(world: World, word: str) -> dict[str, CompletedProcess[str]]:
    """Run every workflow, with results, failures and a person's review, and read it all."""
    context, tests = world.folder / f"{word}.md", world.folder / f"test_{word}.py"
    context.write_text(f"the {word}context")
    tests.write_text(TESTS.replace("WORD", word))
    items = world.folder / f"{word}.jsonl"
    items.write_text(json.dumps({"id": "one", "question": f"Why {word}question?"}) + "\n")
    calls: dict[str, tuple[str, ...]] = {
        "ask": ("ask", f"Why {word}question?", "--max-responses", "2", "--context", str(context)),
        "failed": ("ask", f"Why {word}question, keyless?", "--max-responses", "1"),
        "reflect": ("reflect", f"Explain the {word}query, and compare it with another", "--id",
                    "reviewed", "--review-below", "0.9", "--detach", "--min-complexity", "0",
                    "--max-revisions", "0"),
        "agent": ("agent", f"Write add(a, b) for {word}prompt", "--mode", "code", "--tests",
                  str(tests), "--id", "agent"),
        "turn": ("turn", f"Use them for {word}message", "--id", "turn"),
        "session": ("turn", f"Answer the {word}message", "--session", "talk", "--tools", ""),
        "batch": ("batch", str(items), "--command", "ask", "--id", "batch", "--yes",
                  "--", "--max-responses", "1"),
        "doctor": ("doctor", "--offline"),
    }  # fmt: skip
    if word == CLEAR:
        # Nobody serves code there: it is the failures that may tell a secret.
        calls = {name: calls[name] for name in ("ask", "failed", "turn", "reflect")}
    with ThreadPoolExecutor(4) as pool:
        ran = dict(
            zip(calls, pool.map(lambda given: world.run(word, *given), calls.values()), strict=True)
        )
    run = re.findall(r"run (ask-\S+)", ran["ask"].stderr)[0]
    for _ in patiently():
        ran["review"] = world.run(word, "review", "reviewed")
        if ran["review"].returncode == 0:
            break
    page = str(world.folder / f"{word}.html")
    later: dict[str, tuple[str, ...]] = {
        "accept": ("review", "reviewed", "--replace", str(context), "--author", "ann"),
        "show": ("show", run),
        "report": ("report", run, "--html", page),
        "list": ("list", "--json"),
        "watch": ("watch", "turn"),
        "traces": ("traces", "agent"),
        "page": ("report", "agent", "--html", page.replace(".html", "-agent.html")),
    }
    if word == CLEAR:
        later = {name: later[name] for name in ("accept", "report", "list")}
    with ThreadPoolExecutor(4) as pool:
        more = pool.map(lambda given: world.run(word, *given), later.values())
        return ran | dict(zip(later, more, strict=True))


@contextmanager
def guarded(folder: Path) -> Iterator[World]:
    """Serve two namespaces, one with encryption, and run everything in both."""
    world = World(folder, Place(free_port(), free_port(), folder / "server.db"))
    (folder / "own_tools.py").write_text(TOOLS)
    secrets = {"OPENAI_API_KEY": PROVIDER, "MULL_WEBHOOK_SECRET": WEBHOOK}
    secrets["MULL_CODEC_TOKEN"] = TOKEN
    main = ("--queues", "mull,llm,tools", "--tools", str(folder / "own_tools.py"))
    with ExitStack() as stack:
        stack.enter_context(temporal(world.place, folder / "server.log"))
        endpoint = stack.enter_context(ScriptedEndpoint(replied))
        telemetry = stack.enter_context(sink(world.exported))
        metrics: list[str] = []
        for word in (ENCRYPTED, CLEAR):
            known = {**commands_beside(world.place, word), **secrets}
            # Its value names a namespace, and what a tool prints goes to the model.
            known.pop("PYTEST_CURRENT_TEST", None)
            known |= {"MULL_MODEL": "openai/scripted", "OPENAI_API_BASE": endpoint.url}
            known["OTEL_EXPORTER_OTLP_ENDPOINT"] = known["MULL_WEBHOOK"] = telemetry
            asyncio.run(client_of(known))
            if word == ENCRYPTED:
                coding = {name: value for name, value in known.items() if name not in secrets}
                coding["MULL_ENCRYPTION_KEYS"] = keys_of("code-1")
                stack.enter_context(worker(coding, folder / f"{word}-code.log", "--queues", "code"))
                known["MULL_ENCRYPTION_KEYS"] = keys_of(*KEYS)
            world.environments[word] = known
            metrics.append(f"127.0.0.1:{free_port()}")
            traces = ("--traces", str(folder / f"{word}-traces.log"), "--log", "json")
            shown = (*main, *traces, "--metrics", metrics[-1])
            stack.enter_context(worker(known, folder / f"{word}-main.log", *shown))
        _until_served(world)
        with ThreadPoolExecutor(2) as pool:
            pairs = pool.map(lambda word: (word, everything(world, word)), (ENCRYPTED, CLEAR))
            world.commands |= dict(pairs)
        for address in metrics:
            with urlopen(f"http://{address}/metrics") as answer:
                world.exported.append(answer.read())
        world.histories |= {
            word: asyncio.run(histories(known)) for word, known in world.environments.items()
        }
        yield world


def _until_served(world: World) -> None:
    logs = [world.folder / f"{name}.log" for name in ("quokka-main", "quokka-code", "wombat-main")]
    for _ in patiently():
        if all(log.exists() and "serving" in log.read_text() for log in logs):
            return
    pytest.fail(world.printed())


def as_text(events: list[HistoryEvent]) -> str:
    """Write a history as JSON, with what can be read in its payloads beside their base64."""
    return "\n".join(MessageToJson(event) + str(event.SerializeToString()) for event in events)
