"""What `doctor` says of the sandboxes that were tried."""

import pytest

from activities.sandbox.selftest import Examined, Finding
from commands.doctor.check import Check
from commands.doctor.looking.sandbox import failed, passed, sandbox_checks

NETWORK = Finding("network", True, "neither TCP nor a local socket can be reached")
FILES = Finding("files", False, "it ended with ok reached")


def test_each_check_of_the_chosen_sandbox_is_shown() -> None:
    """A row for the sandbox, and one for each thing that it was tried with."""
    found = Examined("landlock", "ABI 7", None, (NETWORK,))

    assert passed(found) == [
        Check("sandbox", "landlock", "ok", "ABI 7 passes its self-test"),
        Check("sandbox", "network", "ok", "neither TCP nor a local socket can be reached"),
    ]


def test_what_a_sandbox_failed_is_named() -> None:
    """It is no more than a warning where another one takes its place."""
    found = Examined("bubblewrap", "0.11.0", None, (NETWORK, FILES))

    assert failed([found], "warning") == [
        Check("sandbox", "bubblewrap", "warning", "files: it ended with ok reached")
    ]


async def test_a_sandbox_that_is_not_there_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that the variable can't have is said with those that it can."""
    monkeypatch.setenv("MULL_SANDBOX", "jail")

    [only] = await sandbox_checks()

    assert (only.state, "bubblewrap and landlock" in only.said) == ("wrong", True)
