"""The time-outs of calls, stated together: client < attempt < whole."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from mull.connection import silence
    from mull.request import CALL_SECONDS, THINKING_TOKENS, call_seconds

# Giving up a worker too early loses a call that may be made only once. So a worker with such a call
# may be silent for this many times as long.
ONLY_CALL_SILENCE = 2
AFTER_A_LOSS = timedelta(seconds=0.1)
CLIENT_MARGIN = timedelta(seconds=15)
# The worker itself ends such a call; the margin is for a worker that was lost.
BOUNDED_MARGIN = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=60)
QUEUE = timedelta(hours=1)
LOCAL = timedelta(seconds=10)
# A first index of 10,000 files takes under a minute on two idle cores: ten times that for a folder
# of 50,000, for PDFs, or for a busy machine. An attempt that ends too early loses seconds: the
# next one goes on from what was kept.
INDEXING = timedelta(minutes=10)
# As long as a search waits for another worker that writes the same index.
INDEX_LOCK = timedelta(seconds=60)
# Starting MCP servers, and listing their tools: a worker waits 15 s for those of a server. A turn
# of a minute has time left for an answer, also where no worker lists any.
STARTING = timedelta(seconds=20)
# Making a sandbox, and clearing it away, on a machine that is busy.
SANDBOX = timedelta(seconds=30)


def call_times(
    client_seconds: float | None,
    max_attempts: int,
    *limits: int | None,
    usual: float = CALL_SECONDS,
) -> dict[str, Any]:
    """Nest the time-outs of a model's call. The activity counts its attempts, without the 429s.

    Without `client_seconds` they follow from its limits of tokens. The worker sets a limit that is
    None: then that of a model that thinks is assumed.
    """
    if client_seconds is None:
        longest = (call_seconds(limit or THINKING_TOKENS, usual) for limit in limits or (None,))
        client_seconds = max(longest)
    times = work_times(client_seconds, max_attempts)
    times["retry_policy"].maximum_attempts = 0
    # An error brings its own wait (activities/language_model/port.py), but for a lost worker's.
    times["retry_policy"].initial_interval = AFTER_A_LOSS
    return times


def work_times(client_seconds: float, max_attempts: int) -> dict[str, Any]:
    """Nest the time-outs around a client's, in seconds, as the SDK's options of an activity.

    The attempt outlasts the client by a margin, in which the call waits for its turn. The whole
    has room for every attempt, with the longest wait before it (a server's Retry-After is cut to
    that) and an hour in the queue.
    """
    attempt = timedelta(seconds=client_seconds) + CLIENT_MARGIN
    return {
        "start_to_close_timeout": attempt,
        "schedule_to_close_timeout": (attempt + LONGEST_WAIT) * max_attempts + QUEUE,
        # A worker that hangs for longer loses its calls too: they are made, and paid for, again.
        "heartbeat_timeout": timedelta(seconds=silence())
        * (1 if max_attempts > 1 else ONLY_CALL_SILENCE),
        "retry_policy": RetryPolicy(
            initial_interval=timedelta(seconds=1),
            backoff_coefficient=2.0,
            maximum_interval=timedelta(seconds=30),
            maximum_attempts=max_attempts,
            non_retryable_error_types=["PayloadsTooLarge"],
        ),
    }


def retrieval_times(max_attempts: int) -> dict[str, Any]:
    """Nest the time-outs of a search: the first one of a folder also indexes it."""
    return work_times((INDEX_LOCK + INDEXING).total_seconds(), max_attempts)


def test_times(wall_seconds: float, max_attempts: int) -> dict[str, Any]:
    """Nest the time-outs of a test of code that may run for so many seconds."""
    return work_times(wall_seconds + SANDBOX.total_seconds(), max_attempts)


def bounded_times(seconds: float, max_attempts: int) -> dict[str, Any]:
    """Nest the time-outs of a call that holds up a turn: all its attempts share these seconds."""
    whole = timedelta(seconds=seconds) + BOUNDED_MARGIN
    times = work_times(seconds, max_attempts)
    return {**times, "start_to_close_timeout": whole, "schedule_to_close_timeout": whole}
