"""Every number in the README and the docs comes from a command here.

Two ways are compared by the ratios of pairs of consecutive runs, which other load on the machine
affects alike, and by the quartiles of these ratios.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from temporalio.client import Client


@asynccontextmanager
async def server() -> AsyncIterator["Client"]:
    """Run a development server of its own, with its database in a file, and yield a client."""
    # Not at the top: the SDK's sandbox imports this package with the bare workflows.
    from commands.embedded import Place, free_port, temporal

    with tempfile.TemporaryDirectory() as folder:
        place = Place(free_port(), free_port(), Path(folder, "temporal.db"))
        async with temporal(place, Path(folder, "log")) as (_, client):
            yield client


class Quartiles(NamedTuple):
    """The first quartile, the median and the third quartile of some values."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        """Format the median, then the other two."""
        return f"{self.median:.2f} (quartiles {self.low:.2f} to {self.high:.2f})"


def quartiles(values: Sequence[float]) -> Quartiles:
    """Find the quartiles of one value or more, interpolated between two."""
    # The library refuses a single one.
    known = values if len(values) > 1 else [*values, *values]
    return Quartiles(*statistics.quantiles(known, n=4, method="inclusive"))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Quartiles:
    """Find the quartiles of the ratios of paired runs."""
    return quartiles([one / other for one, other in zip(ours, theirs, strict=True)])


def parser(about: str | None, rounds: int) -> argparse.ArgumentParser:
    """Take the options of every comparison."""
    given = argparse.ArgumentParser(description=about and about.partition("\n")[0])
    given.add_argument("--rounds", type=int, default=rounds, help="pairs of runs")
    given.add_argument("--busy", action="store_true", help="keep each core busy with other work")
    return given


# It ends by itself if the benchmark is killed.
BUSY = "import os\nwhile os.getppid() == {}: sum(range(100_000))"


@contextmanager
def busy(wanted: bool) -> Iterator[list[int]]:
    """Keep each core of this process busy, by a process of its own; yield their ids."""
    command = [sys.executable, "-I", "-S", "-c", BUSY.format(os.getpid())]
    cores = sorted(os.sched_getaffinity(0)) if wanted else []
    others = [subprocess.Popen(command) for _ in cores]
    try:
        for other, core in zip(others, cores, strict=True):
            os.sched_setaffinity(other.pid, {core})
        yield [other.pid for other in others]
    finally:
        for other in others:
            other.kill()
            other.wait()


def resident_mb(process: int | str = "self") -> int:
    """Read the resident memory of a process, by its id, in MB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024
