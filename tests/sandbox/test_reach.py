"""Ending what a user has left running, and what comes of it where that fails."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from activities.sandbox import landlock, users
from activities.sandbox.backend import base_python
from activities.sandbox.port import SandboxError

USER = 62_998
SLEEPING = (
    "import os, sys, time; os.setresuid(*[int(sys.argv[1])] * 3); "
    "print('ready', flush=True); time.sleep(60)"
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def left() -> Iterator[subprocess.Popen[bytes]]:
    """A process that a program has left running."""
    command = [base_python(), "-I", "-S", "-c", SLEEPING, str(USER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


@needs_root
def test_ends_what_is_left(left: subprocess.Popen[bytes]) -> None:
    """Everything that the user has is killed."""
    users.end_all_of(USER)

    assert left.wait(5) == -9


@needs_root
@pytest.mark.usefixtures("left")
def test_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it does not end in time it is the sandbox's error, and its folder is deleted."""
    monkeypatch.setattr(users, "_KILL_SECONDS", 0)
    folder = landlock.make_folders(USER)

    with pytest.raises(SandboxError, match="as user 62998 did not end in 0 s"):
        landlock._clear(USER, folder)

    assert not folder.written.top.exists()
