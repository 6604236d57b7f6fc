"""How long tests wait, on a machine of any speed."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SCALE = float(os.environ.get("MULL_TEST_PATIENCE", "1"))
# Seconds after which a test gives up waiting for what must come: many times what that takes on two
# quiet cores, so that only what hangs is given up. A slow machine sets MULL_TEST_PATIENCE above 1.
PATIENCE = 240.0 * _SCALE
# Seconds of silence after which a worker process of a test's own counts as lost.
SILENCE = f"{5 * _SCALE:g}"
# Seconds that a test's fixtures, the test itself, and their end may each take.
MOST_SECONDS = 900.0 * _SCALE


def patiently(pause: float = 0.1) -> Iterator[None]:
    """Give one more try after each pause, in seconds, until the patience is over."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        yield
        time.sleep(pause)


class Stopwatch:
    """Seconds since it was made, less those in which something here waited for a core or a disk.

    So a bound holds to the full on a machine at rest, and no other work on it can break it. At most
    a minute is left out.
    """

    def __init__(self) -> None:
        self._begin, self._stalled = time.monotonic(), _stalled()

    @property
    def stalled(self) -> float:
        """The seconds that are left out."""
        return min(_stalled() - self._stalled, 60.0)

    @property
    def seconds(self) -> float:
        """The seconds until now."""
        return max(time.monotonic() - self._begin - self.stalled, 0.0) / _SCALE


def _stalled() -> float:
    """Return the seconds of pressure that the kernel has counted; 0 where it counts none."""
    total = 0
    for kind in ("cpu", "io"):
        with suppress(OSError):
            some = Path(f"/proc/pressure/{kind}").read_text("ascii").splitlines()[0]
            total += int(some.rpartition("total=")[2])
    return total / 1e6
