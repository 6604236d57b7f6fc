import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from activities.sandbox.sandbox import ProcessSandbox
from tests.sandbox import backends
from tests.sandbox.canaries import SECRET, Canaries, adopt_orphans, descendants


@pytest.fixture(scope="session", params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> ProcessSandbox:
    """A real sandbox, as a worker has it, with each backend."""
    return backends.build(request.param)


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canaries]:
    """What no program may reach; the worker's environment has the secret, too."""
    monkeypatch.setenv("MULL_CANARY", SECRET)
    canaries = Canaries(tmp_path)
    yield canaries
    canaries.close()


@pytest.fixture
def orphans() -> Callable[[], set[int]]:
    """Return the processes that were started since, whoever their parent is."""
    adopt_orphans()
    before = set(descendants(os.getpid()))
    return lambda: set(descendants(os.getpid())) - before
