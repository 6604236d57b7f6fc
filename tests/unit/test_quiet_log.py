"""What a worker's log leaves out."""

import asyncio
import logging
import warnings

import pytest

from worker import is_worth_reading, silence_ordinary


@pytest.mark.parametrize(
    ("message", "error", "left_out"),
    [
        ("Completing activity as failed", asyncio.CancelledError("Activity cancelled"), True),
        ("Completing activity as failed", ValueError("x"), False),
        ("Completing activity as failed", None, False),
        ("Exception handling failed", asyncio.CancelledError(), False),
    ],
)
def test_a_cancelled_call_is_no_trouble(
    message: str, error: BaseException | None, left_out: bool
) -> None:
    """Calls in flight end so whenever a run ends before them; all else is logged."""
    known = (type(error), error, None) if error else None
    record = logging.LogRecord("temporalio.activity", 30, "x.py", 1, message, (), known)

    assert is_worth_reading(record) is not left_out


def test_a_late_cancel_is_no_trouble() -> None:
    """The SDK's warning of one is left out, and no other warning."""
    activities = logging.getLogger("temporalio.activity")
    before = list(activities.filters)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        silence_ordinary()
        warnings.warn("Cannot find activity to cancel for token b'x'", stacklevel=1)
        warnings.warn("another", stacklevel=1)
    for each in [each for each in activities.filters if each not in before]:
        activities.removeFilter(each)

    assert [str(each.message) for each in seen] == ["another"]
