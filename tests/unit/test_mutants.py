"""The faults that `make mutants` plants can still be planted."""

import pytest

from bench.mutants import ROOT, Fault, faults


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.breaks.partition(":")[0])
def test_can_be_planted(fault: Fault) -> None:
    """The text to replace stands exactly once, something else takes its place, and tests see it."""
    assert fault.found(ROOT) is not None
    assert fault.old != fault.new
    assert [test for test in fault.tests if not (ROOT / test).is_file()] == []
