"""What `deploy/install.sh` makes and refuses, and what docs/deploy.md has one type after it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from commands.embedded import free_port
from tests.deploy.conftest import DEPLOY, ROOT

# An interpreter whose environments have a pip of these few lines, which loads nothing.
PIP = """
import os, sys
given = sys.argv[1:]
if "wheel" in given:
    place = given[given.index("--wheel-dir") + 1]
    os.makedirs(place)
    open(os.path.join(place, "mull-0.1.0.whl"), "w").close()
if "--python" in given:
    names = ["mull", "mull-worker"] if given[-1].endswith(".whl") else ["hf", "litellm", "pytest"]
    folder = os.path.dirname(given[given.index("--python") + 1])
    for name in names:
        with open(os.path.join(folder, name), "w") as file:
            os.chmod(file.fileno(), 0o755)
            file.write("#!/bin/sh\\necho " + name)
"""
INTERPRETER = """#!/bin/sh -eu
[ "$2" = venv ] || exec {python} "$@"
for place in "$@"; do :; done
{python} -m venv --without-pip "$place"
cd "$place"/lib/python3*/site-packages
mkdir pip
cp {pip} pip/__main__.py
"""
DOCUMENTED = re.findall(
    r"^ {4}(curl .*?readyz.*?--yes)$",
    (ROOT / "docs/deploy.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture
def anywhere() -> Iterator[Path]:
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def install(python: Path | str, prefix: Path, *kind: str) -> "subprocess.CompletedProcess[str]":
    """Run the script."""
    return subprocess.run(
        ["/bin/sh", str(DEPLOY / "install.sh"), str(prefix), *kind],
        env={**os.environ, "PYTHON": str(python)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def relocated(folder: Path) -> Path:
    """Copy the interpreter, so that its home is a folder."""
    base = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    shutil.copy((base / "bin" / version).resolve(), folder / "bin" / version)
    (folder / "lib" / version).symlink_to(base / "lib" / version)
    return folder / "bin" / version


@pytest.mark.parametrize("kind", ["everything", "code"])
def test_what_is_installed_has_two_programs(anywhere: Path, kind: str) -> None:
    """Those of other packages, and development tools, are on nobody's path."""
    (anywhere / "pip.py").write_text(PIP)
    python = anywhere / "python"
    base = relocated(anywhere / "base")
    python.write_text(INTERPRETER.format(python=base, pip=anywhere / "pip.py"))
    python.chmod(0o755)

    ran = install(python, anywhere / "mull", kind)

    assert (ran.returncode, ran.stderr) == (0, "")
    programs = sorted(path.name for path in (anywhere / "mull/bin").iterdir())
    assert programs == ["mull", "mull-worker"]
    said = subprocess.run([anywhere / "mull/bin/mull-worker"], capture_output=True, check=True)
    assert said.stdout == b"mull-worker\n"


@pytest.mark.parametrize("place", ["private", "/home", "/root"])
def test_an_interpreter_that_a_worker_can_t_run_is_refused(anywhere: Path, place: str) -> None:
    """In one line, and before anything is made: below a home folder, or one that is closed."""
    parent = anywhere if place == "private" else Path(place)
    if not os.access(parent, os.W_OK):
        pytest.skip(f"{parent} can't be written")
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        if place != "private":
            Path(folder).chmod(0o755)
        python = relocated(Path(folder, "python"))
        linked = anywhere / "python3"
        linked.symlink_to(python)

        ran = install(linked, anywhere / "mull")

    assert ran.returncode == 1
    assert ran.stderr.startswith("Error: ")
    assert ran.stderr.count("\n") == 1
    assert f"can't reach {folder if place == 'private' else place}:" in ran.stderr
    assert not (anywhere / "mull").exists()


class Probe(BaseHTTPRequestHandler):
    """Is ready at the second time that it is asked."""

    asked: ClassVar[int] = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(200 if self.asked > 1 and self.path == "/readyz" else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "never ready"])
def test_a_version_becomes_current_once_its_workers_are_ready(tmp_path: Path, ready: bool) -> None:
    """The documented command waits for every worker, though not for ever."""
    [documented] = DOCUMENTED
    ports = sorted(free_port() for _ in range(4))
    assert {f"808{number}" for number in (1, 2, 3, 4)} == set(
        re.findall(r"--health 127\.0\.0\.1:(\d+)", "".join(
            path.read_text("utf-8") for path in (DEPLOY / "systemd").glob("*.env")
        ))
    )  # fmt: skip
    listed = "{" + ",".join(map(str, ports)) + "}"
    command = documented.replace("[8081-8084]", listed).replace("--retry 120", "--retry 3")
    temporal = tmp_path / "temporal"
    temporal.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\n')
    temporal.chmod(0o755)
    handlers: list[type[Probe]] = [type("Worker", (Probe,), {}) for _ in ports]
    servers = [
        ThreadingHTTPServer(("127.0.0.1", p), h) for p, h in zip(ports, handlers, strict=True)
    ]
    answering = servers[: 4 if ready else 3]
    for server in answering:
        Thread(target=server.serve_forever, daemon=True).start()
    if not ready:
        servers[3].server_close()
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    ran = subprocess.run(["/bin/sh", "-c", command], env=environment, check=False)
    for server in answering:
        # Its thread would go on without its socket, at full speed.
        server.shutdown()
        server.server_close()

    assert (ran.returncode == 0) == ready
    assert (tmp_path / "said").exists() == ready
    assert min(handler.asked for handler in handlers[: len(answering)]) == 2
    if ready:
        assert "set-current-version --deployment-name mull" in (tmp_path / "said").read_text()
