"""The processes of a run, as the machine sees them, and a worker whose threads are all busy."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activities.sandbox.backend import Backend, Launch
from activities.sandbox.bubblewrap import DEVICES, Bubblewrap
from activities.sandbox.port import Program
from activities.sandbox.sandbox import ProcessSandbox
from activities.sandbox.watcher import Disk
from mull.multipath.request import Limits
from tests.patience import PATIENCE, Stopwatch
from tests.sandbox import backends
from tests.sandbox.canaries import SECRET, Canaries, runs

SLEEP = "import os, time\nos.fork()\ntime.sleep(60)"
FORKS = """
import os, time
for _ in range(2): os.fork()
print(os.getuid(), flush=True)
time.sleep(0.3)
try:
    while os.wait(): pass
except ChildProcessError: pass
"""
SPAWN = """
import subprocess, threading
def spawn():
    for _ in range(50): subprocess.run(["/bin/true"], check=True)
threads = [threading.Thread(target=spawn) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
print("done")
"""
LIMITED = """
import asyncio, resource, sys
from tests.sandbox import backends
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 24, 1 << 24))
code = "import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_FSIZE))"
result = asyncio.run(backends.run(backends.build(sys.argv[1]), code))
print(result.status, result.stdout.text)
"""


@asynccontextmanager
async def _running(
    sandbox: ProcessSandbox, orphans: Callable[[], set[int]], count: int
) -> AsyncIterator[set[int]]:
    """Have a run with so many processes, the sandbox's own among them."""
    run = asyncio.create_task(backends.run(sandbox, SLEEP))
    while len(orphans()) < count and not run.done():
        await asyncio.sleep(0.01)
    try:
        yield orphans()
    finally:
        run.cancel()
        await asyncio.wait((run,))


async def test_environment_from_outside(
    sandbox: ProcessSandbox, orphans: Callable[[], set[int]], canaries: Canaries
) -> None:
    """No process of a run has the worker's environment, what starts the sandbox neither."""
    async with _running(sandbox, orphans, 3) as processes:
        found = [Path(f"/proc/{pid}/environ").read_bytes() for pid in processes]

    assert os.environ["MULL_CANARY"] == SECRET
    assert len(found) >= 3
    assert not any(SECRET.encode() in each for each in found)
    assert not canaries.faults()


async def test_first_for_the_kernel_to_kill(
    sandbox: ProcessSandbox, orphans: Callable[[], set[int]]
) -> None:
    """Where the machine is out of memory the programs go before the worker."""
    async with _running(sandbox, orphans, 4 - (sandbox.name == "landlock")) as processes:
        found = [Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in processes]

    launcher = 1 if sandbox.name == "bubblewrap" else 0
    assert found.count("1000\n") == len(found) - launcher >= 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change to another user")
async def test_user_of_each_run(sandbox: ProcessSandbox) -> None:
    """Of programs that run at once each has a user of its own, with all the processes allowed."""
    programs = [Program(code=FORKS, limits=Limits(processes=5)) for _ in range(3)]

    results = await asyncio.gather(*map(sandbox.run, programs))

    users = [set(each.stdout.text.split()) for each in results]
    assert [len(each.stdout.text.split()) for each in results] == [4, 4, 4]
    assert len(set.union(*users)) == 3


async def test_nothing_is_bound_to_be_written() -> None:
    """Bubblewrap binds nothing that can be written, which an earlier run could have prepared."""
    program = Program(code="")

    async with Bubblewrap.find().prepare(program, None, ThreadPoolExecutor(1)) as launch:
        words = launch.argv

    bound = {words[at + 1] for at, word in enumerate(words) if word == "--dev-bind"}
    assert "--ro-bind" in words
    assert not {"--bind", "--bind-try", "--bind-fd", "--dev-bind-try", "--dev"} & set(words)
    assert bound == {f"/dev/{name}" for name in DEVICES}


async def test_many_short_processes(sandbox: ProcessSandbox) -> None:
    """Processes that come and go are not taken for such as hide."""
    result = await backends.run(sandbox, SPAWN)

    assert (result.status, result.stdout.text) == ("ok", "done\n"), result.stderr.text


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_limits_of_the_worker(backend: str, root: Path) -> None:
    """Where the worker's own hard limits are lower, they hold."""
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, backend],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert ran.stdout == "ok (200, 200) (16777216, 16777216)\n\n", ran.stderr


THREADS = 2
# Each process is below the limit, and all together are not, which only the watcher sees.
BOMB = "import os, time\nos.fork()\nos.fork()\nx = b'x' * (30 << 20)\ntime.sleep(9)"


@pytest.fixture
async def taken() -> AsyncIterator[None]:
    """The event loop's own threads, all of them busy."""
    loop, done = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    busy = [loop.run_in_executor(None, done.wait, PATIENCE) for _ in range(THREADS)]
    yield
    done.set()
    await asyncio.gather(*busy)


@pytest.mark.usefixtures("taken")
async def test_limits_hold(sandbox: ProcessSandbox) -> None:
    """A limit that the watcher enforces holds all the same."""
    result = await backends.run(sandbox, BOMB, memory_mb=64, wall_seconds=8)

    assert result.status == "memory_limit"


class SlowDisk:
    """A backend whose look at the disk takes ten seconds."""

    def __init__(self, inner: Backend) -> None:
        self.name, self.version = inner.name, inner.version
        self._inner = inner

    @asynccontextmanager
    async def prepare(self, *given: Any) -> AsyncIterator[Launch]:
        """Prepare a run as the other does."""

        def look(_: int) -> Disk:
            self.looked.wait(PATIENCE)
            return 0, 0

        self.looked = threading.Event()
        async with self._inner.prepare(*given) as launch:
            yield replace(launch, disk=look)


@pytest.mark.parametrize(
    ("code", "limits", "status"),
    [
        (BOMB, {"memory_mb": 64}, "memory_limit"),
        ("import os\nos.fork()\nwhile True: 0", {"cpu_seconds": 0.5}, "cpu_limit"),
    ],
)
async def test_limits_do_not_wait_for_the_disk(
    sandbox: ProcessSandbox,
    orphans: Callable[[], set[int]],
    code: str,
    limits: dict[str, float],
    status: str,
) -> None:
    """However long it takes to look through a program's files, its other limits hold meanwhile."""
    slow = SlowDisk(sandbox._backend)
    run = asyncio.create_task(backends.run(ProcessSandbox(slow, Limits(), 1), code, **limits))
    while not orphans():
        await asyncio.sleep(0.01)
    while any(map(runs, orphans())):
        await asyncio.sleep(0.01)
    slow.looked.set()

    assert (await run).status == status


# Each limit is passed at once beneath folders that take long to look through.
DEEP = """
import os, time
begin = time.monotonic()
for _ in range(4_000):
    os.mkdir("d")
    os.chdir("d")
print(time.monotonic() - begin, flush=True)
"""


async def test_limits_in_deep_folders(sandbox: ProcessSandbox) -> None:
    """Thousands of folders in each other delay no limit."""
    watch = Stopwatch()
    result = await backends.run(sandbox, DEEP + BOMB, memory_mb=64, wall_seconds=60, cpu_seconds=60)

    assert result.status == "memory_limit"
    assert result.wall_seconds - float(result.stdout.text) - watch.stalled < 2


@pytest.mark.usefixtures("taken")
async def test_programs_do_not_wait(sandbox: ProcessSandbox) -> None:
    """A program is started, measured and cleared away at once all the same."""
    watch = Stopwatch()

    result = await backends.run(sandbox, "print(1)")

    assert (result.status, result.stdout.text) == ("ok", "1\n")
    assert watch.seconds < 5
