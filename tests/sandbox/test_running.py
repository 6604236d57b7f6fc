"""What comes of a program: every status, what is measured, and what is kept of its output."""

import asyncio
import signal
import time
from typing import Any

import pytest

from activities.sandbox.backend import Kept
from activities.sandbox.limits import Ending, classify, most_at_once, parse_ending
from activities.sandbox.port import Program, Status
from activities.sandbox.sandbox import ProcessSandbox
from mull.multipath.request import Limits
from mull.text import encoded_size
from tests.patience import Stopwatch
from tests.sandbox import backends

FORKS = "import os\nfor _ in range(3): os.fork()\n"
FILES = "n = 0\nwhile True: open(str(n), 'w').close(); n += 1"
# Pages that are shared, which the kernel's limits don't count.
SHARED = "import mmap\nx = mmap.mmap(-1, 90 << 20)\ny = mmap.mmap(-1, 90 << 20)\nx[:] = y[:]"
# Memory that is only read has no pages of its own, but each 2 MiB of it a page of tables.
TABLES = """
import mmap, os
for _ in range(4): os.fork()
size = 3 << 30
x = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)
for at in range(0, size, 2 << 20): x[at]
"""
DELETED = "import os\nclass A:\n  def __del__(self, e=os._exit): e(5)\na = A()"
SLEEP = "\nimport time; time.sleep(9)"


@pytest.mark.parametrize(
    ("code", "limits", "status", "exit_code", "number"),
    [
        ("print(1)", {}, "ok", 0, None),
        ("import sys; sys.exit()", {}, "ok", 0, None),
        ("exit(3)", {}, "error", 3, None),
        ("import sys; sys.exit(256)", {}, "error", 256, None),
        ("import sys; sys.exit(10**50)", {}, "error", 1, None),
        ("import sys; sys.exit(True)", {}, "error", 1, None),
        ("import sys; sys.exit(None)", {}, "ok", 0, None),
        ("import sys; sys.exit(-1)", {}, "error", -1, None),
        ("import threading as t; t.Thread(target=exit, args=(3,)).start()", {}, "ok", 0, None),
        (DELETED, {}, "error", 5, None),
        ("import os; os.close(1); print(1)", {}, "error", 120, None),
        ("import atexit, os; atexit.register(os._exit, 0)", {}, "exited_early", 0, None),
        ("import os; os.execv('/bin/echo', ['echo', 'done'])", {}, "exited_early", 0, None),
        ("raise SystemExit('why')", {}, "error", 1, None),
        ("1/0", {}, "error", 1, None),
        ("import os; os._exit(0)", {}, "exited_early", 0, None),
        ("import os; os._exit(7)", {}, "error", 7, None),
        ("import os\nif os.fork(): os.wait(); os._exit(0)", {}, "exited_early", 0, None),
        ("import os; os.closerange(3, 9999)", {}, "ok", 0, None),
        ("import os; os.kill(os.getpid(), 9)", {}, "killed_by_signal", None, signal.SIGKILL),
        ("import os; os.abort()", {}, "killed_by_signal", None, signal.SIGABRT),
        ("while True: 0", {"wall_seconds": 0.2}, "timeout", None, None),
        ("import os; os.kill(os.getpid(), 19)", {"wall_seconds": 0.2}, "timeout", None, None),
        ("import threading as t; t.Event().wait()", {"wall_seconds": 0.2}, "timeout", None, None),
        ("while True: 0", {"cpu_seconds": 0.3}, "cpu_limit", None, None),
        (FORKS + "while True: 0", {"cpu_seconds": 0.5}, "cpu_limit", None, None),
        ("x = bytearray(80 << 20)", {"memory_mb": 64}, "memory_limit", 1, None),
        ("x = [[0] * 999 for _ in range(10**6)]", {"memory_mb": 64}, "memory_limit", 1, None),
        # Each is below the limit, and all together are not.
        (FORKS + "x = b'x' * (20 << 20)" + SLEEP, {"memory_mb": 64}, "memory_limit", None, None),
        (SHARED + SLEEP, {"memory_mb": 128}, "memory_limit", None, None),
        (TABLES + SLEEP, {"memory_mb": 64}, "memory_limit", None, None),
        ("print('x' * 2000)", {"output_bytes": 1000}, "output_limit", None, None),
        ("import os\nwhile True: os.write(2, b'x' * 999)", {}, "output_limit", None, None),
        ("open('x', 'wb').write(bytes(3 << 20))", {"disk_mb": 2}, "disk_limit", 1, None),
        (FILES, {"disk_mb": 1}, "disk_limit", None, None),
    ],
)  # fmt: skip
async def test_status(
    sandbox: ProcessSandbox,
    code: str,
    limits: dict[str, Any],
    status: str,
    exit_code: int | None,
    number: int | None,
) -> None:
    """Whatever a program does, there is a result, which says what came of it."""
    result = await backends.run(sandbox, code, **limits)

    assert (result.status, result.exit_code, result.signal) in (
        (status, exit_code, number),
        # Where the watcher sees it first, the program did not come to an end.
        (status if status in ("memory_limit", "disk_limit") else None, None, None),
    )


async def test_processes_are_limited(sandbox: ProcessSandbox) -> None:
    """No more processes and threads are there at once than the limit allows."""
    code = (
        "import os, time\nn = 0\n"
        "try:\n  while os.fork(): n += 1\n"
        "except OSError: print(n)\nelse: time.sleep(9)"
    )

    result = await backends.run(sandbox, code, processes=8)

    assert result.status == "ok"
    assert 1 <= int(result.stdout.text) < 8


async def test_measures(sandbox: ProcessSandbox) -> None:
    """Seconds and memory are those of all the program's processes together."""
    code = (
        "import os, time\n"
        "pid = os.fork()\n"
        "x = b'x' * (30 << 20)\n"
        "end = time.process_time() + 0.3\n"
        "while time.process_time() < end: 0\n"
        "if pid: os.wait()\n"
    )

    result = await backends.run(sandbox, code)

    assert result.status == "ok"
    assert 0.6 <= result.cpu_seconds < 1.2
    assert result.wall_seconds >= 0.3
    assert 60 << 20 < result.peak_memory_bytes < 100 << 20


async def test_lower_limits_hold(sandbox: ProcessSandbox) -> None:
    """Of the request's limits and the worker's the lower ones hold, and are in the result."""
    ceiling = Limits(wall_seconds=0.2, memory_mb=4_096)
    bounded = ProcessSandbox(sandbox._backend, ceiling, at_once=1)

    result = await backends.run(bounded, "while True: 0", wall_seconds=50, memory_mb=64)

    assert result.status == "timeout"
    assert (result.limits.wall_seconds, result.limits.memory_mb) == (0.2, 64)


async def test_background_processes_end(sandbox: ProcessSandbox) -> None:
    """A run is over when its first process is, whatever that left in the background."""
    code = "import os, time\nif os.fork() == 0: time.sleep(60)\nprint('done')"

    result = await backends.run(sandbox, code)

    assert (result.status, result.stdout.text) == ("ok", "done\n")
    assert result.wall_seconds < 60


async def test_runs_at_once(sandbox: ProcessSandbox) -> None:
    """Eight programs run at once, each by itself; more wait for room."""
    code = "import os, sys, time\ntime.sleep(0.3)\nopen('x', 'x').close()\nprint(sys.stdin.read())"
    programs = [Program(code=code, input=str(each)) for each in range(10)]
    begin, watch = time.monotonic(), Stopwatch()

    results = await asyncio.gather(*map(sandbox.run, programs))

    assert [each.stdout.text for each in results] == [f"{number}\n" for number in range(10)]
    assert {each.status for each in results} == {"ok"}
    assert time.monotonic() - begin > 0.6
    assert watch.seconds < 3


@pytest.mark.parametrize(
    ("megabytes", "most"), [(32, True), (1_000_000_000, False)], ids=["small", "huge"]
)
def test_room(megabytes: int, most: bool) -> None:
    """There is room for one run at least, and for as many as fit into half of the memory."""
    ceiling = Limits.model_construct(memory_mb=megabytes, disk_mb=1)

    room = most_at_once(ceiling)

    assert (room > 1) is most
    assert room >= 1


LIMITS = Limits(cpu_seconds=2)
DONE: dict[str, Any] = {"exit_code": 0, "mark": "done"}


@pytest.mark.parametrize(
    ("fired", "ending", "cpu_seconds", "expected"),
    [
        (None, DONE, 0.1, "ok"),
        (None, {"exit_code": 0, "mark": "executed"}, 0.1, "ok"),
        (None, {"exit_code": 3, "mark": "executed"}, 0.1, "error"),
        (None, {"exit_code": 0, "mark": "running"}, 0.1, "exited_early"),
        (None, {"exit_code": 3, "mark": "running"}, 0.1, "error"),
        (None, {**DONE, "exit_code": 1, "code": 1}, 0.1, "error"),
        # The kernel cuts 256 to 0, and Python says 120 where it could not write its output.
        (None, {**DONE, "exit_code": 0, "code": 256}, 0.1, "error"),
        (None, {**DONE, "exit_code": 120, "code": 0}, 0.1, "error"),
        (None, {**DONE, "exit_code": 1, "code": 1, "cause": "memory"}, 0.1, "memory_limit"),
        (None, {**DONE, "exit_code": 1, "code": 1, "cause": "full"}, 0.1, "disk_limit"),
        (None, {"exit_code": 1, "mark": "full", "cause": "full"}, 0.1, "disk_limit"),
        (None, {"signal": signal.SIGSEGV, "mark": "running"}, 0.1, "killed_by_signal"),
        (None, {"signal": signal.SIGSEGV, "mark": "done"}, 0.1, "killed_by_signal"),
        (None, {"signal": signal.SIGKILL, "mark": "running"}, 0.1, "killed_by_signal"),
        (None, {"signal": signal.SIGKILL, "mark": "running"}, 2.0, "cpu_limit"),
        (None, {"signal": signal.SIGXCPU, "mark": "running"}, 0.0, "cpu_limit"),
        (None, {"signal": signal.SIGXFSZ, "mark": "executed"}, 0.1, "disk_limit"),
        ("timeout", DONE, 9.0, "timeout"),
        ("output_limit", DONE, 0.1, "output_limit"),
        ("memory_limit", {"signal": signal.SIGKILL}, 9.0, "memory_limit"),
    ],
)
def test_classification(
    fired: Status | None, ending: dict[str, Any], cpu_seconds: float, expected: Status
) -> None:
    """What the sandbox ended a program for goes first, then a signal, a limit, the exit code."""
    end = Ending(**ending)

    assert classify(fired, end, cpu_seconds, LIMITS) == expected


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (
            ["0", "0", "0.250000", "9000", b"done 256 memory".hex()],
            Ending(0, None, 0.25, 9_216_000, "done", 256, "memory", "256 memory"),
        ),
        (
            ["-1", "9", "0.000000", "0", b"running ".hex()],
            Ending(None, 9, mark="running", cause="running"),
        ),
    ],
)
def test_report(words: list[str], ending: Ending) -> None:
    """A report has the exit code that was asked for beside the kernel's; none after a signal."""
    assert parse_ending(words) == ending


@pytest.mark.parametrize("words", [[], ["0"], ["0", "0", "x", "0", "-"], ["0", "0", "0", "0", "q"]])
def test_report_that_is_none(words: list[str]) -> None:
    """What is no report is refused, so that nothing is made up from it."""
    with pytest.raises(ValueError, match=r"."):
        parse_ending(words)


def kept(data: bytes, most: int, chunk: int = 7) -> Kept:
    all_of_it = Kept(most)
    for start in range(0, len(data), chunk):
        all_of_it.add(data[start : start + chunk])
    return all_of_it


@pytest.mark.parametrize(
    ("data", "head", "tail"),
    [
        (b"", "", ""),
        (b"0123456789", "0123456789", ""),
        (b"01234-56789", "01234", "56789"),
        (b"01234" + b"-" * 1000 + b"56789", "01234", "56789"),
        # A character that the cut goes through is left out on either side.
        ("0123é-----é789".encode(), "0123", "é789"),
        ("01234-----😀78".encode(), "01234", "78"),
        (b"a\xffb", "a\\xffb", ""),
    ],
)
def test_ends(data: bytes, head: str, tail: str) -> None:
    """What fits is kept whole, and else as much of the beginning as of the end."""
    output = kept(data, 10).output()

    assert (output.head, output.tail, output.size) == (head, tail, len(data))


@pytest.mark.parametrize("data", [b"\0" * 100, b"\xff" * 100, b"\0" * 60, b"\0" * 5000])
def test_size_as_json(data: bytes) -> None:
    """However a byte is written in JSON, no more is kept than was asked for."""
    output = kept(data, 100).output()

    assert encoded_size(output.head) + encoded_size(output.tail) <= 100
    assert output.head
    assert output.tail


def test_memory() -> None:
    """However much is printed, only what is kept is held."""
    all_of_it = kept(b"x" * 1_000_000, 1_000, chunk=65_536)

    assert len(all_of_it._head) + len(all_of_it._tail) == 1_000
