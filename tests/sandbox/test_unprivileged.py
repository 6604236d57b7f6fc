"""Each sandbox where the worker is not root, as in most containers."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.sandbox import workers

NOBODY = 65_534
# Lays the interpreter where another user can reach it, though it lies in a folder of root's own.
AS_NOBODY = """
mount --bind "$1" "$3"
mount -t tmpfs -o mode=755 none "$2"
mkdir -p "$1"
mount --bind "$3" "$1"
shift 3
exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set=-all \\
    --inh-caps=-all "$@"
"""
PROGRAM = """
import asyncio, json, os
from tests.sandbox import backends
from tests.sandbox.canaries import descendants, open_descriptors

CODES = {
    "print": "import os; print(os.getuid(), os.path.exists('/proc/self'))",
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
            timeout=PATIENCE,
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
        "init": ["ok", "sent\n"],
        "disk": ["disk_limit", ""],
        "files": ["disk_limit", ""],
    }
    assert said["left"] == [0, 0]


# What a program could only do to a worker whose user it has, and what hides from such a one.
OUTWITTING = (
    "kill_everything",
    "limits_of_others",
    "signal_by_file",
    "signals_to_first",
    "ptrace_others",
    "proc_environ",
    "capabilities",
    "fork_bomb",
    "fork_count",
    "thread_bomb",
    "daemon_close_fds",
    "daemon",
    "stop_all",
    "leftovers",
    "tmp_fill",
    "socket_pairs",
    "files_under_way",
    "own_descriptors",
    "hardly_mapped_file",
    "unreadable",
)


def _as_another(command: list[str], root: Path, shown: Path) -> list[str]:
    """Return a command that runs one as nobody, its interpreter laid where nobody can reach it."""
    base = Path(sys.base_prefix)
    top = Path("/", base.parts[1])
    if top in {Path("/usr"), *root.parents, *Path(sys.executable).parents}:
        return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command]
    folders = map(str, (base, top, shown))
    return ["unshare", "--mount", "sh", "-ec", AS_NOBODY, "sh", *folders, *command]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_without_root(backend: str, root: Path, tmp_path: Path) -> None:
    """For a worker without any privilege, whose user the program has too, the same holds."""
    command = workers.command("-Werror", "-B", "hostile", backend, *OUTWITTING)
    environment = workers.environment(root, Path("/var/tmp"))  # noqa: S108 - it may be written by any

    ran = subprocess.run(
        _as_another(command, root, tmp_path),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    if ran.returncode and "Permission denied" in ran.stderr + ran.stdout:
        pytest.skip("no Python that another user could run")
    assert ran.stderr == ""
    said = json.loads(ran.stdout)
    assert said == {"user": NOBODY, "faults": {name: [] for name in OUTWITTING}, "left": []}
