"""What `doctor` says of the sandboxes that were tried."""

import pytest

from activities.sandbox.selftest import Examined, Finding
from commands.doctor.installation import failed, limits_checks, passed, sandbox_checks
from commands.doctor.table import Check

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

    assert (only.state, "bubblewrap or landlock" in only.said) == ("wrong", True)


@pytest.mark.parametrize(
    ("given", "state", "said"),
    [
        ('{"wal_seconds": 3}', "wrong", "MULL_SANDBOX_LIMITS: wal_seconds: no such field"),
        ('{"disk_mb": 0}', "wrong", "MULL_SANDBOX_LIMITS: disk_mb: "),
        ("3 s", "wrong", "MULL_SANDBOX_LIMITS: "),
        ('{"wall_seconds": 3}', "ok", "at most wall_seconds 3, cpu_seconds 10, memory_mb 512"),
    ],
)
def test_limits_are_looked_at_as_a_worker_reads_them(given: str, state: str, said: str) -> None:
    """What a worker refuses at its start is wrong here."""
    [only] = limits_checks({"MULL_SANDBOX_LIMITS": given})

    assert (only.name, only.state) == ("limits", state)
    assert only.said.startswith(said)


def test_without_limits_nothing_is_said_of_them() -> None:
    """The worker's own hold then."""
    assert limits_checks({}) == []


def test_what_is_refused_is_said_with_its_limit() -> None:
    """The self-test's short words are written out."""
    memory = Finding("memory", True, "256 MB of 64 are refused")
    found = Examined("landlock", "ABI 7", None, (memory,))

    assert passed(found)[1].said == "256 MB are refused where the limit is 64 MB"
