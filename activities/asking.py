"""One call of a model from an activity: with a heartbeat, and its errors in Temporal's terms."""

from datetime import timedelta
from typing import NoReturn

from temporalio.exceptions import ApplicationError

from activities.heartbeat import heartbeating
from activities.language_model import (
    LanguageModel,
    ModelCall,
    ModelError,
    ModelReply,
    PermanentModelError,
    SampleError,
    TransientModelError,
)

TASK_QUEUE = "mull-llm"


async def ask(model: LanguageModel, call: ModelCall) -> ModelReply:
    """Make one call from within an activity.

    Raises SampleError as it is, and ApplicationError for every other ModelError, non-retryable
    where no call like it can work.
    """
    async with heartbeating():
        try:
            return await model.complete(call)
        except SampleError:
            raise
        except ModelError as error:
            _raise_for_temporal(error)


def _raise_for_temporal(error: ModelError) -> NoReturn:
    wait = error.retry_after if isinstance(error, TransientModelError) else None
    raise ApplicationError(
        str(error),
        type=error.kind,
        non_retryable=isinstance(error, PermanentModelError),
        next_retry_delay=timedelta(seconds=wait) if wait is not None else None,
    ) from None
