"""Which sandbox is chosen, and that none is where none holds."""

from collections.abc import Callable

import pytest

from activities.sandbox import selftest
from activities.sandbox.backend import Backend
from activities.sandbox.landlock import Landlock
from activities.sandbox.port import Program, SandboxError
from activities.sandbox.selftest import NoSandboxError, choose, examine
from mull.multipath.request import Limits
from tests.sandbox.backends import Unconfined

CHECKS = ["python", "network", "files", "environment", "processes", "system calls"]
CHECKS += ["memory", "time", "output", "disk"]


def _absent() -> Backend:
    raise SandboxError("it is not installed")


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have only these backends."""
    monkeypatch.delenv("MULL_SANDBOX", raising=False)
    return lambda **backends: monkeypatch.setattr(selftest, "BACKENDS", backends)


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
async def test_passes(name: str) -> None:
    """Each backend passes every check on a machine that has it."""
    found = await examine(name, Limits())

    assert {each: passed for each, passed, _ in found.findings} == dict.fromkeys(CHECKS, True)


async def test_chooses_the_first_that_passes(only: Callable[..., None]) -> None:
    """One that can't be had is passed over, and stays in the table with why."""
    only(bubblewrap=_absent, landlock=Landlock)

    absent, chosen = await choose()

    assert chosen.sandbox is not None
    result = await chosen.sandbox.run(Program(code="print(1)"))
    assert (result.stdout.text, result.backend) == ("1\n", "landlock")
    assert absent.trouble == "present: it is not installed"
    assert chosen.described.startswith("landlock ABI ")


async def test_unconfined_is_refused(only: Callable[..., None]) -> None:
    """A backend that confines nothing fails each check that something must be out of reach."""
    only(unconfined=Unconfined)

    with pytest.raises(NoSandboxError, match="so no code is run") as caught:
        await choose()

    (found,) = caught.value.examined
    failed = {name for name, passed, _ in found.findings if not passed}
    assert failed >= {"network", "files", "environment", "processes"}


async def test_no_other_than_the_wanted(
    only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one is forced by the environment, no other is tried in its place."""
    only(bubblewrap=_absent, landlock=Landlock)
    monkeypatch.setenv("MULL_SANDBOX", "bubblewrap")

    with pytest.raises(NoSandboxError) as caught:
        await choose()

    assert [each.name for each in caught.value.examined] == ["bubblewrap"]


async def test_unknown_name(only: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that there is not is named, with those that there are."""
    only(bubblewrap=_absent, landlock=_absent)
    monkeypatch.setenv("MULL_SANDBOX", "gvisor")

    with pytest.raises(ValueError, match="gvisor is not a sandbox: use bubblewrap or landlock"):
        await choose()
