import pytest

from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.port import Sandbox
from activities.sandbox.sandbox import ProcessSandbox
from mull.multipath.request import Limits


@pytest.fixture
def sandbox() -> Sandbox:
    """A real sandbox, as a worker has it, that runs four programs at once."""
    return ProcessSandbox(Bubblewrap.find(), Limits(), at_once=4)
