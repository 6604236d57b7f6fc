"""What the SDK says of ordinary events as if they were trouble, and nobody needs to read."""

import asyncio
import logging
import warnings


def ordinary(record: logging.LogRecord) -> bool:
    """Tell whether a record is of an activity that ended because it was cancelled."""
    error = record.exc_info[1] if record.exc_info else None
    cancelled = isinstance(error, asyncio.CancelledError)
    return cancelled and str(record.msg).startswith("Completing activity as failed")


def silence_ordinary() -> None:
    """Keep two things out of the log: calls in flight at the end of a run, and a late cancel."""
    logging.getLogger("temporalio.activity").addFilter(lambda record: not ordinary(record))
    warnings.filterwarnings("ignore", "Cannot find activity to cancel", UserWarning)
