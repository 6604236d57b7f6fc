"""A worker and its sandbox: what it serves with one, and without."""

import os
import re
import signal
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from activities.sandbox.port import Program, Result
from commands.embedded import Place
from mull.connection import connect
from tests import callers
from tests.e2e.conftest import started
from tests.patience import PATIENCE

LOG = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
# The same worker on a machine on which no backend can be had.
BARE = (
    "import sys, worker; from activities.sandbox import selftest; selftest.BACKENDS = {};"
    "worker.end_process(worker.main(sys.argv[1:]))"
)


def log_of(worker: "subprocess.Popen[str]") -> list[str]:
    lines: list[str] = []
    with worker:
        for line in worker.stderr or ():
            lines.append(line)
            if " serving " in line:
                worker.send_signal(signal.SIGTERM)
    return lines


REMEDY = "no sandbox passes its self-test, so no code is run"
LIMITS = "MULL_SANDBOX_LIMITS"
# What is started, with which variables, the exit code, how many lines are said, and what in these.
STARTS: list[tuple[list[str], dict[str, str], int, int | None, tuple[str, ...]]] = [
    (["worker.py", "--queues", "code"], {}, 0, None,
     ("sandbox: (bubblewrap|landlock) ", "serving mull-code at ADDRESS")),
    (["-c", BARE, "--queues", "mull,code"], {}, 0, None,
     (f"mull-code is not served: {REMEDY}", "--queues mull,llm", "serving mull at ADDRESS")),
    (["-c", BARE, "--queues", "code"], {}, 1, 1, (f"^Error: {REMEDY}",)),
    (["worker.py", "--queues", "code"], {"MULL_SANDBOX": "chroot"}, 2, 1,
     ("MULL_SANDBOX=chroot is not a sandbox: use bubblewrap or landlock",)),
    (["worker.py", "--queues", "code"], {LIMITS: '{"wall": 1}'}, 2, 1,
     (f"{LIMITS}: wall: no such field",)),
    (["worker.py", "--queues", "code"], {LIMITS: '{"disk_mb": 0}'}, 2, 1,
     (f"{LIMITS}: disk_mb: ",)),
]  # fmt: skip


@pytest.mark.parametrize(
    "start", STARTS, ids=["tested", "the rest", "nothing", "backend", "name", "number"]
)
def test_how_a_worker_of_code_starts(place: Place, start: Any) -> None:
    """It names its sandbox; without one it serves the rest, or says what to do and ends."""
    command, variables, code, lines, said = start
    environment = {**os.environ, "TEMPORAL_ADDRESS": place.address, **variables}
    worker = started(*command, environment=environment, **LOG)

    log = log_of(worker)

    assert worker.returncode == code
    assert lines in (None, len(log))
    for each in said:
        assert re.search(each.replace("ADDRESS", place.address), "".join(log))


async def test_mounted_secrets_are_the_worker_s_and_no_program_s(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spans: InMemorySpanExporter,
) -> None:
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
    environment = {**os.environ, "MULL_SECRETS": str(tmp_path)}
    worker = started("worker.py", "--queues", "code", environment=environment, **LOG)
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
