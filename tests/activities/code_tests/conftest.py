import pytest

from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.port import Sandbox
from activities.sandbox.sandbox import ProcessSandbox
from mull.multipath.request import Limits


@pytest.fixture(scope="session")
def bubblewrap() -> Bubblewrap:
    """What the sandbox runs programs in."""
    return Bubblewrap.find()


@pytest.fixture
def sandbox(bubblewrap: Bubblewrap) -> Sandbox:
    """A real sandbox, as a worker has it, that runs four programs at once."""
    return ProcessSandbox(bubblewrap, Limits(), at_once=4)
