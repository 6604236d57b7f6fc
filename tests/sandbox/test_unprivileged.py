"""Bubblewrap where the worker is not root, as in most containers: a user namespace for each run."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

NOBODY = 65_534
PROGRAM = """
import asyncio, json, os
from tests.sandbox import backends
from tests.sandbox.canaries import descendants, open_descriptors

CODES = {
    "print": "import os; print(os.getuid(), os.path.exists('/proc/self'))",
    "forks": "import os\\nwhile True:\\n    try: os.fork()\\n    except OSError: pass",
    "init": "import os; os.kill(1, 9); os.kill(os.getppid(), 19); print('sent')",
    "disk": "open('x', 'wb').write(bytes(3 << 20))",
    "files": "n = 0\\nwhile True: open(str(n), 'w').close(); n += 1",
}

async def main():
    sandbox = backends.build("bubblewrap")
    before = len(open_descriptors())
    results = {
        name: await backends.run(sandbox, code, wall_seconds=1, disk_mb=2, processes=16)
        for name, code in CODES.items()
    }
    print(json.dumps({
        "results": {name: [each.status, each.stdout.text] for name, each in results.items()},
        "left": [len(open_descriptors()) - before, len(list(descendants(os.getpid())))],
    }))

asyncio.run(main())
"""


def _as_nobody(
    python: str, root: Path, *arguments: str
) -> "subprocess.CompletedProcess[bytes] | None":
    try:
        return subprocess.run(
            [python, *arguments],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={"PYTHONPATH": f"{root}:{sysconfig.get_path('purelib')}", "PATH": os.defpath},
            capture_output=True,
            timeout=60,
            check=False,
        )
    except OSError:
        return None


@pytest.fixture
def python(root: Path) -> str:
    """Return an interpreter that another user can run, with Mull in its reach."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; the other tests run as none already")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for each in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        tried = _as_nobody(each, root, "-c", "import pydantic, activities.sandbox.port")
        if tried is not None and tried.returncode == 0:
            return each
    pytest.skip("no interpreter that another user can run")


def test_unprivileged_worker(python: str, root: Path) -> None:
    """All limits hold, and nothing is left, without any right of the worker's."""
    done = _as_nobody(python, root, "-W", "error", "-c", PROGRAM)

    assert done is not None
    assert (done.returncode, done.stderr) == (0, b"")
    said = json.loads(done.stdout)
    assert said["results"] == {
        "print": ["ok", f"{NOBODY} False\n"],
        "forks": ["timeout", ""],
        "init": ["ok", "sent\n"],
        "disk": ["disk_limit", ""],
        "files": ["disk_limit", ""],
    }
    assert said["left"] == [0, 0]
