"""One writer of an index at a time, among all processes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from activities.retrieval.threads import Going

LOOK_SECONDS = 0.1


@contextmanager
def locked(path: Path, seconds: float, going: Going) -> Iterator[bool]:
    """Hold a file's lock, and yield True; or False where another holds it for so many seconds.

    The system lets go of it when the process that holds it dies. `going` is called while waiting,
    and may raise.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _wait(descriptor, monotonic() + seconds, going)
    finally:
        os.close(descriptor)


def _wait(descriptor: int, end: float, going: Going) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            going()
            if monotonic() >= end:
                return False
            sleep(LOOK_SECONDS)
        else:
            return True
