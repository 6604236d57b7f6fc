"""Landlock and what goes with it, and ending what a user has left running."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.sandbox import landlock, limits
from activities.sandbox.packages import base_python
from activities.sandbox.port import SandboxError
from tests.patience import PATIENCE
from tests.sandbox import backends

INSIDE = Path(__file__).parents[2] / "activities/sandbox/inside"
BEGIN = f"""
import errno, os, signal, sys, time
sys.path.insert(0, {str(INSIDE)!r})
import confinement

def attempt(name, act):
    try:
        act()
        print(name, "done", flush=True)
    except OSError as error:
        print(name, errno.errorcode[error.errno], flush=True)

"""
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def _run(code: str, *arguments: str) -> list[str]:
    command = [sys._base_executable, "-I", "-c", BEGIN + code, *arguments]  # type: ignore[attr-defined]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ran.stderr == ""
    return ran.stdout.splitlines()


RESTRICTED = """
kept, shown, hidden = sys.argv[1:]
confinement.prctl(confinement.NO_NEW_PRIVILEGES, 1)
rules = {kept: confinement.KEEP, shown: confinement.USE, "/nowhere": confinement.USE}
confinement.restrict({**rules, "/dev/null": confinement.DEVICE})
attempt("write kept", lambda: open(kept + "/new", "w").close())
attempt("rename kept", lambda: os.rename(kept + "/new", kept + "/renamed"))
attempt("read shown", lambda: open(shown + "/file").close())
attempt("write shown", lambda: open(shown + "/file", "a").close())
attempt("delete shown", lambda: os.unlink(shown + "/file"))
attempt("truncate shown", lambda: os.truncate(shown + "/file", 0))
attempt("read hidden", lambda: open(hidden + "/file").close())
attempt("list hidden", lambda: os.listdir(hidden))
attempt("link hidden", lambda: os.link(hidden + "/file", kept + "/linked"))
attempt("follow hidden", lambda: (os.symlink(hidden + "/file", kept + "/s"), open(kept + "/s")))
attempt("read proc", lambda: open("/proc/self/status").close())
attempt("write null", lambda: open("/dev/null", "w").close())
attempt("signal parent", lambda: os.kill(os.getppid(), 0))
attempt("signal itself", lambda: os.kill(os.getpid(), 0))
"""


def test_files_by_rule(tmp_path: Path) -> None:
    """A process reads and writes what its rules allow, and nothing beside."""
    folders = [tmp_path / each for each in ("kept", "shown", "hidden")]
    for each in folders:
        each.mkdir()
        (each / "file").write_text("text")

    lines = _run(RESTRICTED, *map(str, folders))

    assert lines == [
        "write kept done",
        "rename kept done",
        "read shown done",
        "write shown EACCES",
        "delete shown EACCES",
        "truncate shown EACCES",
        "read hidden EACCES",
        "list hidden EACCES",
        "link hidden EXDEV",
        "follow hidden EACCES",
        "read proc EACCES",
        "write null done",
        "signal parent EPERM",
        "signal itself done",
    ]


BOMB = """
confinement.prctl(confinement.NO_NEW_PRIVILEGES, 1)
assert confinement.keep_signals_in()
confinement.prctl(confinement.SUBREAPER, 1)

def flee():
    confinement.restrict({"/usr": confinement.USE})
    attempt("signal keeper", lambda: os.kill(os.getppid(), 0))
    os.setsid()
    while True:
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            pass

for _ in range(3):
    if os.fork() == 0:
        flee()
time.sleep(0.2)
os.kill(-1, signal.SIGKILL)
killed = 0
while True:
    try:
        os.wait()
        killed += 1
    except ChildProcessError:
        break
print("killed", killed > 3, flush=True)
attempt("signal parent", lambda: os.kill(os.getppid(), 0))
"""


def test_one_kill_ends_everything_inside() -> None:
    """A kill of every process, from within a domain, ends all that was started in it at once."""
    assert _run(BOMB) == ["signal keeper EPERM"] * 3 + ["killed True", "signal parent EPERM"]


BECOMES = """
if sys.argv[1] == "reads":
    confinement.prctl(confinement.KEEP_CAPABILITIES, 1)
os.setgroups([])
os.setresgid(62999, 62999, 62999)
os.setresuid(62999, 62999, 62999)
confinement.set_capabilities(reading=sys.argv[1] == "reads")
confinement.prctl(confinement.NO_NEW_PRIVILEGES, 1)
print(os.getresuid(), os.getresgid(), os.getgroups())
attempt("read", lambda: open(sys.argv[2] + "/file").close())
attempt("write", lambda: open(sys.argv[2] + "/file", "a").close())
attempt("back", lambda: os.setuid(0))
confinement.set_capabilities(reading=False)
attempt("read", lambda: open(sys.argv[2] + "/file").close())
"""


@AS_ROOT
@pytest.mark.parametrize(("word", "read"), [("reads", "done"), ("not", "EACCES")])
def test_becomes_another_user(tmp_path: Path, word: str, read: str) -> None:
    """Another user has no privilege of root's, but to read where that is asked for."""
    tmp_path.chmod(0o700)
    (tmp_path / "file").write_text("text")

    lines = _run(BECOMES, word, str(tmp_path))

    assert lines == [
        "(62999, 62999, 62999) (62999, 62999, 62999) []",
        f"read {read}",
        "write EACCES",
        "back EPERM",
        "read EACCES",
    ]


async def test_disk_at_the_end() -> None:
    """A program that is done before anybody looks has passed the limit all the same."""
    sandbox = backends.build("landlock")
    code = "for n in range(8): open(str(n), 'wb').write(bytes(1 << 20))"

    assert (await backends.run(sandbox, code, disk_mb=2)).status == "disk_limit"


USER = 62_998
SLEEPING = (
    "import os, sys, time; os.setresuid(*[int(sys.argv[1])] * 3); "
    "print('ready', flush=True); time.sleep(60)"
)


@pytest.fixture
def left() -> Iterator[subprocess.Popen[bytes]]:
    """A process that a program has left running."""
    command = [base_python(), "-I", "-S", "-c", SLEEPING, str(USER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


@AS_ROOT
def test_ends_what_is_left(left: subprocess.Popen[bytes]) -> None:
    """Everything that the user has is killed."""
    limits.end_all_of(USER)

    assert left.wait(PATIENCE) == -9


@AS_ROOT
@pytest.mark.usefixtures("left")
def test_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it does not end in time it is the sandbox's error, and its folder is deleted."""
    monkeypatch.setattr(limits, "_KILL_SECONDS", 0)
    # It could be done before anybody looks.
    monkeypatch.setattr(limits, "_KILL_ALL", "import time; time.sleep(600)")
    folder = landlock.make_folders(USER)

    with pytest.raises(SandboxError, match="as user 62998 did not end in 0 s"):
        landlock._clear(USER, folder)

    assert not folder.written.top.exists()
