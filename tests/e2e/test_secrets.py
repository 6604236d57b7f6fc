"""Marked secrets and texts, looked for wherever a run leaves anything."""

import base64
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from commands.embedded import free_port, server_command
from mull.keys import ENCRYPTED as ENCODING
from mull.keys import KEY_ID
from tests import forks
from tests.conftest import payloads_of
from tests.e2e.guarded import CLEAR, ENCRYPTED, KEYS, SECRETS, TOKEN, World, as_text, guarded
from tests.patience import PATIENCE, patiently

# What other worlds may write in the clear: the times and ids of a local activity, by the SDK.
BY_THE_SDK = (b'{"seq":', b'{"id":')


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with guarded(tmp_path_factory.mktemp("guarded")) as found:
        yield found


@pytest.mark.parametrize("word", [ENCRYPTED, CLEAR])
def test_everything_runs(world: World, word: str) -> None:
    """Each command ends as it does elsewhere, with encryption and without."""
    ran = world.commands[word]

    codes = {name: one.returncode for name, one in ran.items()}
    said = "\n".join(f"{name}: {one.stderr[-600:]}" for name, one in ran.items())
    assert codes.pop("failed") == 1, said
    assert set(codes.values()) == {0}, said + str(codes)
    assert f"{word}answer" in ran["ask"].stdout
    assert f"{word}advice" in ran["review"].stdout
    assert f"{word}answer" in (world.folder / f"{word}.html").read_text()


def test_a_code_worker_needs_its_own_key_alone(world: World) -> None:
    agent = world.commands[ENCRYPTED]["agent"]

    assert f"{ENCRYPTED}code" in agent.stdout
    assert "1 of 1 test passes" in " ".join(agent.stderr.split()), agent.stderr
    assert f"{ENCRYPTED}answer" in world.commands[ENCRYPTED]["show"].stdout
    assert len(json.loads(world.commands[ENCRYPTED]["list"].stdout)["runs"]) == 7


def test_no_secret_is_anywhere(world: World) -> None:
    kept = {"stored": world.stored(), "exported": b"".join(world.exported)}
    kept["printed"] = world.printed().encode()
    for word, runs in world.histories.items():
        kept[f"histories of {word}"] = "\n".join(map(as_text, runs.values())).encode()

    assert {name for name, text in kept.items() if not text} == set()
    assert b"mull_runs" in kept["exported"]
    assert [
        (name, secret) for name, text in kept.items() for secret in SECRETS
        if secret.encode() in text
    ] == []  # fmt: skip


def test_no_text_is_kept_by_the_server_or_exported(world: World) -> None:
    kept = {"stored": world.stored(), "exported": b"".join(world.exported)}
    for id_, events in world.histories[ENCRYPTED].items():
        kept[id_] = as_text(events).encode()
    for path in world.folder.glob(f"{ENCRYPTED}-*.log"):
        kept[path.name] = path.read_bytes()
    listed = json.loads(world.commands[ENCRYPTED]["list"].stdout)["runs"]
    named = {b"question", b"context", b"query", b"reason", b"answer", b"draft", b"advice"}
    named |= {b"prompt", b"code", b"message", b"argument", b"summary", b"assert"}

    marked = [ENCRYPTED.encode() + each for each in sorted(named)]
    assert [(name, each) for name, text in kept.items() for each in marked if each in text] == []
    assert CLEAR.encode() + b"question" in kept["stored"]
    assert ENCRYPTED not in json.dumps(listed)
    assert ENCRYPTED not in "".join(world.histories[ENCRYPTED])


def test_every_payload_is_encrypted(world: World) -> None:
    """Under the key of the queue: nobody but a code worker shares that of code."""
    plain, keys = [], set()
    for id_, events in world.histories[ENCRYPTED].items():
        for event in events:
            event.ClearField("upsert_workflow_search_attributes_event_attributes")
            for payload in payloads_of(event):
                if payload.metadata["encoding"] != ENCODING:
                    plain.append((id_, event.event_type, payload.data[:200]))
                keys.add(payload.metadata[KEY_ID].decode())

    assert [one for one in plain if not one[2].startswith(BY_THE_SDK)] == []
    assert keys - {""} == {"main-2", "code-1"}


def test_the_sandbox_sees_no_key(world: World) -> None:
    """A program prints its environment, and that of every process that it sees."""
    shown = world.commands[ENCRYPTED]["watch"]
    said = " ".join((shown.stdout + shown.stderr).split())

    assert "run_python" in said
    assert "MULL_ENCRYPTION_KEYS" in world.environments[ENCRYPTED]
    assert not any(key in said for key in KEYS.values())


def test_doctor_names_the_keys_of_each_worker(world: World) -> None:
    said = " ".join(world.commands[ENCRYPTED]["doctor"].stdout.split())

    assert (
        "command line ok on: encrypts with main-2, code's with code-1, also decrypts main-1" in said
    )
    assert "mull-code ok on: code's with code-1" in said


@pytest.fixture(scope="module")
def codec_server(world: World) -> Iterator[str]:
    port, log = free_port(), world.folder / "codec.log"
    given = ["starter.py", "codec", "--port", str(port)]
    server = forks.start(given, world.environments[ENCRYPTED], log, log)
    for _ in patiently():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
    yield f"http://127.0.0.1:{port}"
    os.kill(server.pid or 0, signal.SIGINT)
    server.join(PATIENCE)
    assert server.exitcode == 0
    assert not any(secret in log.read_text() for secret in SECRETS)


def base64_of(text: str) -> str:
    """Decode what is base64 in a document, beside the document."""
    found = [base64.b64decode(one) for one in re.findall(r'"data": ?"([^"]+)"', text)]
    return text + str(found)


def temporal(world: World, server: str, token: str, *command: str) -> str:
    """Run Temporal's own command line with a codec server, and return what it printed."""
    place = ("--address", world.place.address, "--namespace", ENCRYPTED)
    asks = ("--codec-endpoint", server, "--codec-auth", f"Bearer {token}")
    [name, *_] = server_command(world.place)
    done = subprocess.run(
        [name, *command, *place, *asks], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_temporal_s_command_line_reads_by_the_codec_server(world: World, codec_server: str) -> None:
    """With the token it shows requests, and starts a run; without, it shows nothing."""
    shown = temporal(world, codec_server, TOKEN, "workflow", "show", "-w", "agent", "-o", "json")
    shows = ("workflow", "show", "-w", "agent", "--command-timeout", "1s")
    refused = temporal(world, codec_server, "other", *shows)
    given = json.dumps({"question": f"Why {ENCRYPTED}question?", "max_responses": 1})
    started = ("--type", "SelfConsistencyWorkflow", "--task-queue", "mull", "-w", "started")
    ran = temporal(world, codec_server, TOKEN, "workflow", "execute", *started, "--input", given)

    assert f"{ENCRYPTED}prompt" in base64_of(shown)
    assert ENCRYPTED + "prompt" not in refused
    assert f"{ENCRYPTED}answer" in ran
    assert f"{ENCRYPTED}question".encode() not in world.stored()


def test_runs_are_listed_and_cancelled_without_a_key(world: World) -> None:
    world.environments["bare"] = {**world.environments[ENCRYPTED]}
    del world.environments["bare"]["MULL_ENCRYPTION_KEYS"]
    listed, cancelled = world.run("bare", "list"), world.run("bare", "cancel", "talk")

    assert [listed.returncode, cancelled.returncode] == [0, 0], listed.stderr + cancelled.stderr
    assert "agent" in listed.stdout


@pytest.mark.parametrize("command", ["show", "watch", "report", "review", "traces"])
def test_a_command_line_without_the_key_says_so(world: World, command: str) -> None:
    bare = {**world.environments[ENCRYPTED]}
    del bare["MULL_ENCRYPTION_KEYS"]
    world.environments["bare"] = bare
    more = ("--html", str(world.folder / "none.html")) if command == "report" else ()

    done = world.run("bare", command, "agent", *more)

    assert (done.returncode, done.stdout) == (2, "")
    if command != "review":
        assert "encrypted with the key 'main-2', which is not among the keys" in done.stderr
        assert done.stderr.endswith("which workers with keys refuse.\n")
    assert len(done.stderr.splitlines()) == 1
