"""`mull serve` as users run it: the examples of its page, keys, and a server that is killed."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from commands.embedded import free_port
from commands.http.bearers import read_bearers
from tests.e2e.conftest import ROOT, Cli, started
from tests.patience import PATIENCE, patiently

PAGE = (ROOT / "docs" / "serve.md").read_text("utf-8")
ASKED = {"model": "mull/ask", "messages": [{"role": "user", "content": "What is 43 * 3?"}]}
KEY = "a-key-of-24-characters-x"
ADDRESS, EVERYWHERE = "127.0.0.1:8400", "0.0.0.0"  # noqa: S104 - nothing listens there
COMMANDS = re.findall(r"^    mull (serve.*?)(?:  .*)?$", PAGE, re.MULTILINE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@contextmanager
def serving(
    environment: dict[str, str],
    *options: str,
    port: int | None = None,
    program: Sequence[str] = ("starter.py",),
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Serve at a free port; yield where, and the process."""
    place = f"127.0.0.1:{port or free_port()}"
    command = [*program, "serve", *options, "--port", place.partition(":")[2]]
    process = started(*command, environment=environment, stderr=subprocess.PIPE)
    try:
        for _ in patiently():
            assert process.poll() is None, process.stderr and process.stderr.read()
            with socket.socket() as tried:
                if not tried.connect_ex(("127.0.0.1", int(place.partition(":")[2]))):
                    break
        yield place, process
    finally:
        process.terminate()
        process.wait(PATIENCE)
        if process.stderr:
            process.stderr.close()


@pytest.fixture(scope="module")
def served_at(environment: dict[str, str], cli: Cli) -> Iterator[str]:
    del cli  # it waits for the worker
    with serving(environment) as (found, _):
        yield found


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_the_page_s_programs_run(
    number: int, served_at: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """As they stand there, but for the port."""
    program = tmp_path / "example.py"
    program.write_text(blocks("python")[number].replace(ADDRESS, served_at), "utf-8")
    known = {**environment, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, program],
        env=known,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "129" in done.stdout or "assert" in program.read_text()


def test_the_page_s_call_by_curl(served_at: str) -> None:
    [example] = blocks("sh")
    done = subprocess.run(
        ["/bin/bash", "-c", example.replace(ADDRESS, served_at)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert '"content":"129"' in done.stdout


def test_the_page_s_keys_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(blocks("toml")[0], "utf-8")
    found = read_bearers(path)

    assert list(found) == ["alice", "report-service"]
    assert found["report-service"].may_ask({"mull/ask", "mull/turn:openai/gpt-5-mini"})
    assert not found["report-service"].may_ask({"mull/reflect"})


@pytest.mark.parametrize(
    "command", re.findall(r"^    mull (serve.*?)(?:  .*)?$", PAGE, re.MULTILINE)
)
def test_the_page_s_commands(command: str, environment: dict[str, str], tmp_path: Path) -> None:
    """At 127.0.0.1 here; Ctrl-C ends a server with exit code 0, and a word of where it was."""
    (tmp_path / "keys.toml").write_text(f'[ann]\nkey = "{KEY}"\n')
    words = command.replace(EVERYWHERE, "127.0.0.1").replace("keys.toml", f"{tmp_path}/keys.toml")
    with serving(environment, *shlex.split(words)[1:]) as (place, process):
        found = httpx.get(f"http://{place}/v1/models")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)

    assert found.status_code == (401 if "--keys" in command else 200)
    assert process.returncode == 0
    assert f"http://{place}/v1" in said
    assert KEY not in said
    assert "Traceback" not in said


WITHOUT = """
import sys
sys.modules["mcp"] = None
sys.argv = ["mull", *sys.argv[1:]]
import starter
starter.run()
"""


def test_without_the_extra_there_are_no_tools(environment: dict[str, str]) -> None:
    """And all else is served; what it says of itself names no address that is not there."""
    with serving(environment, program=("-c", WITHOUT)) as (place, process):
        found = [httpx.get(f"http://{place}/v1/models"), httpx.post(f"http://{place}/mcp", json={})]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)

    assert [one.status_code for one in found] == [200, 404]
    assert "/mcp" not in said


def test_a_file_of_keys_that_others_can_read_is_noted(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """It is served all the same: what mounts secrets chooses their modes."""
    keys, said = tmp_path / "keys.toml", list[str]()
    keys.write_text(f'[ann]\nkey = "{KEY}"\n')
    for mode in (0o600, 0o640, 0o604):
        keys.chmod(mode)
        with serving(environment, "--keys", str(keys)) as (_, process):
            process.send_signal(signal.SIGINT)
            said.append(process.communicate(timeout=PATIENCE)[1])

    noted = f"Note: others on this machine can read {keys}: chmod 600 {keys}\n"
    assert [one.count(noted) for one in said] == [0, 1, 1]


def test_a_killed_server_s_runs_are_found_again(
    environment: dict[str, str], cli: Cli, tmp_path: Path
) -> None:
    """By the same header, at another server; and its key's only place is free after the run."""
    del cli  # it waits for the worker
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[eve-{os.getpid()}]\nkey = "{KEY}"\nruns_at_once = 1\n')
    known = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": f"killed-{os.getpid()}"}
    with serving(environment, "--keys", str(keys)) as (place, process):
        address = f"http://{place}/v1/chat/completions"
        with httpx.stream("POST", address, json={**ASKED, "stream": True}, headers=known) as begun:
            run = begun.headers["Mull-Run-Id"]
            process.kill()
            process.wait(PATIENCE)
    with serving(environment, "--keys", str(keys)) as (place, _):
        address = f"http://{place}/v1/chat/completions"
        again = httpx.post(address, json=ASKED, headers=known, timeout=PATIENCE)
        del known["Idempotency-Key"]
        for _ in patiently():
            other = httpx.post(address, json=ASKED, headers=known, timeout=PATIENCE)
            if other.status_code != 429:
                break
            time.sleep(float(other.headers["Retry-After"]))

    assert (again.status_code, again.json()["id"]) == (200, run)
    assert (other.status_code, other.json()["choices"][0]["message"]["content"]) == (200, "129")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--host", EVERYWHERE],
            f"--host {EVERYWHERE}: without --keys it listens at 127.0.0.1 alone.",
        ),
        (["--keys", "/nowhere"], "--keys: /nowhere can't be read: No such file or directory."),
        (["--keys", "{short}"], "ann: key: expected a text of at least 16 characters"),
        (["--keys", "{broken}"], "broken, line 2: not TOML."),
        (["--keys", "{open}"], "open, the last line: not TOML."),
        (["--keys", "{latin}"], "latin, line 3: not UTF-8 text."),
        (["--keys", "{empty}"], "it has no key."),
        (["--keys", "{twice}"], "two keys are the same."),
        (["--keys", "{models}"], "ann.models: expected names such as mull/ask, and not ask"),
        (["--keys", "{local}"], "local can't be the name of a key; choose another."),
        (["--keys", "{unknown}"], "ann.wisdom: no such field"),
        (["--keys", "{number}"], "number: x: expected a table with key, or with sha256, its hash."),
        (
            ["--keys", "{neither}"],
            "neither: ann: expected a table with key, or with sha256, its hash.",
        ),
        (["--port", "{taken}"], "Address already in use."),
    ],
)
def test_what_it_refuses_to_begin_with(
    cli: Cli, tmp_path: Path, options: list[str], said: str
) -> None:
    """In one line that quotes no key."""
    files = {
        "short": '[ann]\nkey = "sesame"',
        "broken": '[ann]\nkey = sesame"',
        "open": f'[ann]\nkey = "{KEY}',
        "empty": "",
        "twice": f'[ann]\nkey = "{KEY}"\n[bob]\nkey = "{KEY}"',
        "models": f'[ann]\nkey = "{KEY}"\nmodels = ["ask"]',
        "local": f'[local]\nkey = "{KEY}"',
        "number": "x = 1",
        "neither": '[ann]\nmodels = ["mull/ask"]',
        "unknown": f'[ann]\nkey = "{KEY}"\nwisdom = 5',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin").write_bytes(b'[ann]\n\nkey = "\xe9"')
    with socket.create_server(("127.0.0.1", 0)) as other:
        known = {name: str(tmp_path / name) for name in (*files, "latin")}
        known["taken"] = str(other.getsockname()[1])
        done = cli("serve", *(one.format(**known) for one in options))

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "sesame" not in done.stderr
    assert KEY not in done.stderr
