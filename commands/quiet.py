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
    """Leave out calls in flight at a run's end, a late cancel, and what LiteLLM's types warn of."""
    logging.getLogger("temporalio.activity").addFilter(lambda record: not ordinary(record))
    for said in ("Cannot find activity to cancel", "Items? .* on TypedDict class"):
        warnings.filterwarnings("ignore", said, UserWarning)
