"""Nothing of a run stays behind: processes, zombies, mounts, files, descriptors."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from activities.sandbox.backend import SandboxProcess
from activities.sandbox.port import Program
from activities.sandbox.sandbox import ProcessSandbox, build_settings
from activities.sandbox.watcher import Watch
from tests.patience import PATIENCE, Stopwatch
from tests.sandbox import backends, workers
from tests.sandbox.canaries import adopt_orphans, descendants, left_open, open_descriptors, runs

BACKENDS = ("bubblewrap", "landlock")
AS_PROCESS_ONE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def _can_be_process_one() -> bool:
    try:
        tried = subprocess.run([*AS_PROCESS_ONE, "true"], capture_output=True, check=False)
    except OSError:
        return False
    return tried.returncode == 0


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it holds within so many seconds."""
    watch = Stopwatch()
    while watch.seconds < seconds:
        if condition():
            return True
        await asyncio.sleep(0.01)
    return condition()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("process_one", "count"), [(False, 20), (True, 100)])
def test_many_runs(backend: str, process_one: bool, count: int, root: Path, tmp_path: Path) -> None:
    """After many runs in a row all is as after the first, also where the worker is process 1."""
    if process_one and not _can_be_process_one():
        pytest.skip("no namespace of processes can be made here")
    command = workers.command("-Werror", "many", backend, str(count))
    command[:0] = AS_PROCESS_ONE if process_one else ()
    environment = workers.environment(root, tmp_path)

    done = subprocess.run(
        command, env=environment, capture_output=True, timeout=PATIENCE, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    said = json.loads(done.stdout)
    assert said["after"] == said["before"]
    assert said["before"]["processes"] == []
    assert said["statuses"] == ["ok", "ok", "exited_early", "ok", "timeout"] * (count // 5)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_killed_worker(backend: str, root: Path, tmp_path: Path) -> None:
    """When a worker is killed, all that it runs is gone within a second."""
    adopt_orphans()
    worker = subprocess.Popen(  # noqa: ASYNC220 - it is waited for in bounded time
        workers.command("endless", backend, "2"),
        env=workers.environment(root, tmp_path),
        stdout=subprocess.PIPE,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"running\n"
    tree = list(descendants(worker.pid))

    worker.kill()
    gone = await _until(lambda: not any(map(runs, tree)), 1)

    worker.wait()
    worker.stdout.close()
    _reap(tree)
    assert len(tree) >= 2 * workers.TREE
    assert gone


async def test_cancelled_run(sandbox: ProcessSandbox, orphans: Callable[[], set[int]]) -> None:
    """A cancellation ends the whole tree within a second, before it goes on."""
    before = open_descriptors()
    run = asyncio.create_task(backends.run(sandbox, workers.FORKS))
    assert await _until(lambda: len(orphans()) >= workers.TREE, 10)
    watch = Stopwatch()

    run.cancel()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert watch.seconds < 1
    assert orphans() == set()
    assert await left_open(before) == set()


@pytest.mark.parametrize("look", ["measure", "measure_disk"])
async def test_no_look_outlasts_its_run(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """Once a run is over no thread still measures it, or has a file of it open."""
    looking: set[int] = set()

    def slowly(_: Watch, first: int) -> None:
        looking.add(first)
        time.sleep(0.3)
        looking.discard(first)

    monkeypatch.setattr(Watch, look, slowly)
    run = asyncio.create_task(backends.run(sandbox, workers.ENDLESS))
    assert await _until(lambda: bool(looking), 10)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert looking == set()


@pytest.mark.parametrize("seconds", [0, 0.002, 0.01, 0.02, 0.03, 0.05])
async def test_run_cancelled_early(
    sandbox: ProcessSandbox, orphans: Callable[[], set[int]], seconds: float
) -> None:
    """A cancellation while a run is being started leaves nothing either."""
    await backends.run(sandbox, "print(1)")
    before = open_descriptors()
    run = asyncio.create_task(backends.run(sandbox, workers.FORKS))
    await asyncio.sleep(seconds)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert orphans() == set()
    # What was open before may be closed meanwhile: a socket of an earlier test, for one.
    assert open_descriptors() - before == set()


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_cancelled_at_every_early_moment(
    backend: str, root: Path, tmp_path: Path, orphans: Callable[[], set[int]]
) -> None:
    """A worker that adopts no orphans leaves none to process 1, not as a zombie either."""
    command = workers.command("cancelled", backend, "80")
    environment = workers.environment(root, tmp_path)

    done = subprocess.run(command, env=environment, capture_output=True, timeout=200, check=False)
    left = orphans()
    _reap(list(left))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"[]\n", b"")
    assert left == set()


async def test_hello_of_a_run_that_is_over() -> None:
    """It is not answered: the number of the closed lifeline may be another file's by then."""
    program = Program(code=workers.ENDLESS)
    async with backends.Unconfined().prepare() as launch:
        process = SandboxProcess(launch, build_settings(program, launch), 1_000, 1_000)
        lifeline, (read, write) = process._lifeline, os.pipe()
        process.release()
        os.dup2(write, lifeline)

        process._read_status(b"hello\n")
        for each in (write, lifeline):
            os.close(each)
        await process.exited

        assert os.read(read, 1) == b""
        os.close(read)
        process.close()


@pytest.mark.parametrize("nested", [False, True])
async def test_a_number_given_to_another_process(nested: bool) -> None:
    """What ended without a hello is looked for no more: its number may be another's by then."""
    program = Program(code=workers.ENDLESS)
    idle = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with subprocess.Popen(idle) as other:  # noqa: ASYNC220 - it is killed below
        async with backends.Unconfined().prepare() as usual:
            launch = replace(usual, argv=("false",), nested=nested)
            process = SandboxProcess(launch, build_settings(program, launch), 1_000, 1_000)
            await process.exited
            process._process.pid = os.getpid() if nested else other.pid

            process.reap_first()
            process.close()

        survived = other.poll() is None and runs(other.pid)
        other.kill()
    assert survived


async def test_killed_first_process(
    sandbox: ProcessSandbox, orphans: Callable[[], set[int]]
) -> None:
    """Where the kernel kills the sandbox's processes the run is killed by a signal, and over."""
    begin = time.monotonic()
    await backends.run(sandbox, "print(1)")
    took = time.monotonic() - begin
    run = asyncio.create_task(backends.run(sandbox, "import time\ntime.sleep(60)"))
    assert await _until(lambda: len(orphans()) >= 2, 10)
    # The program itself has to be under way: many times what a whole run takes here and now.
    await asyncio.sleep(max(1, 5 * took))

    for pid in orphans():
        with contextlib.suppress(ProcessLookupError):  # the first one takes the others with it
            os.kill(pid, signal.SIGKILL)
    result = await asyncio.wait_for(run, PATIENCE)

    assert (result.status, result.signal) == ("killed_by_signal", signal.SIGKILL)
    assert not any(map(runs, orphans()))
    _reap(list(orphans()))


def _reap(pids: list[int]) -> None:
    """Take orphans in, and end those that a failing test would wait for."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            os.waitpid(pid, os.WNOHANG)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
