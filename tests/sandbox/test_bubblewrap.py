"""What a program sees of the machine under bubblewrap, and who it is there."""

import os
import sys
from pathlib import Path

import pytest

from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.packages import visible
from activities.sandbox.port import SandboxError
from activities.sandbox.sandbox import ProcessSandbox
from tests.sandbox import backends

TRY = """
import os
def attempt(name, act):
    try: print(name, act())
    except OSError as error: print(name, type(error).__name__)
"""


@pytest.fixture
def sandbox() -> ProcessSandbox:
    return backends.build("bubblewrap")


ABSENT = [
    *("/etc/hostname", "/etc/passwd", "/etc/resolv.conf", "/proc/self/environ", "/proc/1/mem"),
    *("/sys", "/run", "/var", "/home", "/usr/local", "/usr/src", "/usr/share/doc", "/dev/tty"),
    *(__file__, sys.executable),
]
READ_ONLY = ["/", "/usr", "/usr/lib", "/dev", "/proc"]
READ_ONLY += ["/packages", "/packages/numpy", "/python/bin"]
HIDDEN = [str(each) for each in visible().hidden]
DISK = f"""{TRY}
for folder in ('.', '/tmp', '/dev/shm'):
    attempt(folder, lambda: open(folder + '/x', 'wb').write(bytes(1500 * 1024)))
"""
POOLS = """
import multiprocessing as m
if __name__ == '__main__':
    for kind in ('fork', 'spawn'):
        with m.get_context(kind).Pool(2) as pool: print(pool.map(abs, [-1, 2]))
"""
SEEN = {
    "nothing but Python and the system's programs": (
        f"import os; print([each for each in {ABSENT} if os.path.exists(each)])",
        "[]\n",
    ),
    "nothing that is installed for the interpreter itself": (
        f"import os; print([os.listdir(each) for each in {HIDDEN}])",
        f"{[[] for _ in HIDDEN]}\n",
    ),
    "one size of all that is written to, shared memory too": (
        DISK,
        ". 1536000\n/tmp OSError\n/dev/shm OSError\n",
    ),
    "pools of processes, which share semaphores": (POOLS, "[1, 2]\n[1, 2]\n"),
}


@pytest.mark.parametrize(("code", "seen"), SEEN.values(), ids=SEEN)
async def test_what_a_program_sees(sandbox: ProcessSandbox, code: str, seen: str) -> None:
    """Of the machine it sees little, and what it needs works."""
    result = await backends.run(sandbox, code, disk_mb=2 if code == DISK else 64)

    assert result.stdout.text == seen, result.stderr.text
    assert HIDDEN


async def test_read_only(sandbox: ProcessSandbox) -> None:
    """Nothing can be written but in the program's own folders."""
    code = TRY + (
        f"for folder in {READ_ONLY}:\n"
        "    attempt('made', lambda: open(folder + '/x', 'w').close())\n"
    )

    result = await backends.run(sandbox, code)

    made = result.stdout.text.splitlines()
    assert len(made) == len(READ_ONLY)
    assert set(made) <= {"made OSError", "made PermissionError"}


async def test_first_process_is_out_of_reach(sandbox: ProcessSandbox) -> None:
    """No signal reaches the sandbox's first process, nor stops it."""
    code = TRY + (
        "for number in (2, 9, 15, 17, 19):\n    attempt(number, lambda: os.kill(1, number))\n"
    )

    result = await backends.run(sandbox, code)

    assert result.status == "ok"
    assert len(result.stdout.text.splitlines()) == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change to another user")
async def test_own_user(sandbox: ProcessSandbox) -> None:
    """As root each program is a user of its own, without a group or a way back."""
    code = TRY + ("print(os.getresuid(), os.getgroups())\nattempt('root', lambda: os.setuid(0))\n")

    result = await backends.run(sandbox, code)

    uids, root = result.stdout.text.splitlines()
    assert uids.startswith("(62")
    assert uids.endswith(" []")
    assert root == "root PermissionError"


def test_binary_that_does_not_run(tmp_path: Path) -> None:
    """A bubblewrap that does not run is the sandbox's own fault."""
    with pytest.raises(SandboxError, match="does not run"):
        Bubblewrap(tmp_path / "bwrap")


async def test_launch_that_fails(tmp_path: Path) -> None:
    """Where no sandbox can be made there is an error that says why, and no result."""
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo bwrap 1 && exit\necho no >&2\nexit 1\n"
    )
    broken.chmod(0o755)
    sandbox = ProcessSandbox(Bubblewrap(broken), backends.CEILING, at_once=1)

    with pytest.raises(SandboxError, match="bubblewrap did not start: no"):
        await backends.run(sandbox, "print(1)")


async def test_system_binary_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's bubblewrap is taken before that of the package."""
    system = tmp_path / "bwrap"
    system.write_text("#!/bin/sh\necho bubblewrap 9.8.7\n")
    system.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert Bubblewrap.find().version == "9.8.7"
