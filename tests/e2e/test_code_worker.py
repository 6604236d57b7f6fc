"""A worker and its sandbox: what it serves with one, and without."""

import os
import signal
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from activities.sandbox.port import Program, Result
from commands.embedded import Place
from mull.connection import connect
from tests import callers
from tests.patience import PATIENCE

# The same worker on a machine on which no backend can be had.
BARE = (
    "import sys, worker; from activities.sandbox import selftest; selftest.BACKENDS = {};"
    "worker.end_process(worker.main(sys.argv[1:]))"
)
REMEDY = "no sandbox passes its self-test, so no code is run"


def started(place: Place, root: Path, command: list[str], **more: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "TEMPORAL_ADDRESS": place.address, **more}
    return subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        cwd=root,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def log_of(worker: "subprocess.Popen[str]") -> list[str]:
    """Read the log until the worker serves, or ends; then stop it."""
    lines: list[str] = []
    with worker:
        for line in worker.stderr or ():
            lines.append(line)
            if " serving " in line:
                worker.send_signal(signal.SIGTERM)
    return lines


def test_a_code_worker_names_its_sandbox(place: Place, root: Path) -> None:
    """A worker of code tests its sandbox first, says which it is, and serves the queue."""
    worker = started(place, root, ["worker.py", "--queues", "code"])

    log = "".join(log_of(worker))

    assert worker.returncode == 0
    assert "sandbox: bubblewrap " in log or "sandbox: landlock " in log
    assert f"serving mull-code at {place.address}" in log


def test_without_a_sandbox_the_rest_is_served(place: Place, root: Path) -> None:
    """A worker that is told to serve everything serves all but code, and says what to do."""
    worker = started(place, root, ["-c", BARE, "--queues", "mull,code"])

    log = "".join(log_of(worker))

    assert worker.returncode == 0
    assert f"mull-code is not served: {REMEDY}" in log
    assert "--queues mull,llm" in log
    assert f"serving mull at {place.address}" in log


def test_without_a_sandbox_code_alone_is_not_served(place: Place, root: Path) -> None:
    """A worker that is told to serve nothing but code ends with 1, and says what to do."""
    worker = started(place, root, ["-c", BARE, "--queues", "code"])

    log = log_of(worker)

    assert worker.returncode == 1
    assert len(log) == 1
    assert log[0].startswith(f"Error: {REMEDY}")


@pytest.mark.parametrize(
    ("variable", "given", "said"),
    [
        (
            "MULL_SANDBOX",
            "chroot",
            "MULL_SANDBOX=chroot is not a sandbox: use bubblewrap or landlock",
        ),
        ("MULL_SANDBOX_LIMITS", '{"wall": 1}', "MULL_SANDBOX_LIMITS: wall: no such field"),
        ("MULL_SANDBOX_LIMITS", '{"disk_mb": 0}', "MULL_SANDBOX_LIMITS: disk_mb: "),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(
    place: Place, root: Path, variable: str, given: str, said: str
) -> None:
    """What is wrong with the sandbox's settings is named before anything is served."""
    worker = started(place, root, ["worker.py", "--queues", "code"], **{variable: given})

    log = log_of(worker)

    assert worker.returncode == 2
    assert len(log) == 1
    assert said in log[0]


async def test_mounted_secrets_are_the_worker_s_and_no_program_s(
    place: Place,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spans: InMemorySpanExporter,
) -> None:
    """The worker encrypts with a key that it read from a file; a program finds none of them."""
    del spans
    some = b64encode(bytes(range(32))).decode()
    keys = {name: f"{name}-1:{some}" for name in ("main", "code")}
    (tmp_path / "MULL_ENCRYPTION_KEYS").write_text(keys["code"])
    (tmp_path / "SOME_TOKEN").write_text("hidden-value")
    monkeypatch.setenv("TEMPORAL_ADDRESS", place.address)
    code = f"""import os, pathlib
print(dict(os.environ))
for path in ("{tmp_path}/SOME_TOKEN", "/proc/self/environ", "/proc/1/environ"):
    try: print(pathlib.Path(path).read_text())
    except OSError as error: print(type(error).__name__)
"""
    worker = started(
        place, root, ["worker.py", "--queues", "code"],
        MULL_SECRETS=str(tmp_path),
    )  # fmt: skip
    monkeypatch.setenv("MULL_ENCRYPTION_KEYS", ",".join(keys.values()))
    try:
        client = await connect()
        result = await callers.call(client, "run_code", "mull-code", Program(code=code), Result)
    finally:
        worker.terminate()
        worker.communicate(timeout=PATIENCE)

    assert "FileNotFoundError" in result.stdout.text or "PermissionError" in result.stdout.text
    assert "hidden-value" not in result.stdout.text
    assert keys["code"] not in result.stdout.text
