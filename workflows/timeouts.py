"""Every time-out of a call, stated together: client < attempt < whole."""

from datetime import timedelta
from typing import Any, NamedTuple

from temporalio.common import RetryPolicy

HEARTBEAT = timedelta(seconds=10)
CLIENT_MARGIN = timedelta(seconds=15)
LONGEST_WAIT = timedelta(seconds=60)
QUEUE = timedelta(hours=1)
LOCAL = timedelta(seconds=10)
# A first index of 10,000 files takes under a minute on two idle cores: ten times that for a folder
# of 50,000, for PDFs, or for a busy machine. An attempt that ends too early loses seconds: the
# next one goes on from what was kept.
INDEXING = timedelta(minutes=10)
# As long as a search waits for another worker that writes the same index.
INDEX_LOCK = timedelta(seconds=60)
# As long as passages are embedded in one search, and the call of a model that is under way then.
EMBEDDING = timedelta(seconds=60)
# Making a sandbox, and clearing it away, on a machine that is busy.
SANDBOX = timedelta(seconds=30)


class CallTimes(NamedTuple):
    """The times of one model call, from the client's outwards, and how it is retried.

    The attempt outlasts the client by a margin. The whole has room for every attempt, with the
    longest wait before it (a server's Retry-After is cut to that) and an hour in the queue.
    """

    attempt: timedelta
    whole: timedelta
    heartbeat: timedelta
    retry: RetryPolicy

    @property
    def options(self) -> dict[str, Any]:
        """The same as the SDK's options of an activity."""
        return {
            "start_to_close_timeout": self.attempt,
            "schedule_to_close_timeout": self.whole,
            "heartbeat_timeout": self.heartbeat,
            "retry_policy": self.retry,
        }


def call_times(client_seconds: float, max_attempts: int) -> CallTimes:
    """Nest the time-outs around a client's time-out, in seconds, and a number of attempts."""
    attempt = timedelta(seconds=client_seconds) + CLIENT_MARGIN
    return CallTimes(
        attempt=attempt,
        whole=(attempt + LONGEST_WAIT) * max_attempts + QUEUE,
        heartbeat=HEARTBEAT,
        retry=RetryPolicy(
            initial_interval=timedelta(seconds=1),
            backoff_coefficient=2.0,
            maximum_interval=timedelta(seconds=30),
            maximum_attempts=max_attempts,
            non_retryable_error_types=["PayloadsTooLarge"],
        ),
    )


def retrieval_times(client_seconds: float, max_attempts: int) -> CallTimes:
    """Nest the time-outs of a search: the first one of a folder also indexes it.

    `client_seconds` bound a call of the embedding model: one for the prompt, and one that may
    begin when the time for embedding is all but over.
    """
    work = INDEX_LOCK + INDEXING + EMBEDDING
    return call_times(work.total_seconds() + 2 * client_seconds, max_attempts)


def test_times(wall_seconds: float, max_attempts: int) -> CallTimes:
    """Nest the time-outs of a test of code that may run for so many seconds."""
    return call_times(wall_seconds + SANDBOX.total_seconds(), max_attempts)
