"""The sandbox that runs programs in a backend, a process tree for each."""

import asyncio
import subprocess
import time
from collections.abc import Awaitable
from signal import SIGKILL

from activities.sandbox.port import Program, Result, SandboxError, Status
from activities.sandbox.running.backend import Backend, Launch, Place
from activities.sandbox.running.classification import Ending, classify
from activities.sandbox.running.process import Run
from activities.sandbox.running.settings import build_settings, lower
from activities.sandbox.running.slots import Slots
from activities.sandbox.running.threads import Threads
from activities.sandbox.watching.watch import Watch
from reflection.multipath.request import Limits

START_SECONDS = 20.0
KILL_SECONDS = 10.0


class ProcessSandbox:
    """Runs programs in a backend, so many at once, within the lower of their limits and its own."""

    def __init__(self, backend: Backend, ceiling: Limits, at_once: int) -> None:
        self.name = backend.name
        self.at_once = at_once
        self._backend = backend
        self._ceiling = ceiling
        self._slots = Slots(at_once)
        self._threads = Threads(at_once)

    async def run(self, program: Program) -> Result:
        """Run a program to its end or to a limit. Raises SandboxError."""
        limits = lower(program.limits, self._ceiling)
        async with self._slots.take() as uid:
            place = Place(uid, limits, program.packages, self._threads)
            try:
                async with self._backend.prepare(place) as launch:
                    return await self._run(program, limits, launch)
            except (OSError, subprocess.SubprocessError) as error:
                raise SandboxError(f"{self.name}: {error}") from error

    async def _run(self, program: Program, limits: Limits, launch: Launch) -> Result:
        settings = build_settings(program, limits, launch)
        run = Run(launch, settings, program.keep_bytes, limits.output_bytes)
        watch = Watch(limits, launch.disk, self._threads)
        try:
            await self._started(run)
            begin = time.monotonic()
            fired = await _until_end(run, watch, limits.wall_seconds)
            wall = time.monotonic() - begin
            await _ended(run)
            fired = fired or await self._seen_at_end(run, watch)
        finally:
            await uninterrupted(_cleared(run))
        return self._result(run, watch, fired, limits, wall)

    async def _started(self, run: Run) -> None:
        await asyncio.wait(
            (run.started, run.exited), timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if not run.started.done():
            said = run.stderr.output().text.strip()[-500:]
            raise SandboxError(f"{self.name} did not start: {said or 'no answer in time'}")

    async def _seen_at_end(self, run: Run, watch: Watch) -> Status | None:
        """Name a limit that was passed in the last moment, after the last look."""
        if run.flooded.done():
            return "output_limit"
        assert run.first is not None  # noqa: S101 - it greeted before it started
        return "disk_limit" if await self._threads.call(watch.is_full, run.first) else None

    def _result(
        self, run: Run, watch: Watch, fired: Status | None, limits: Limits, wall: float
    ) -> Result:
        # Without a report the first process was killed, and by the kernel or the program alone.
        ending = run.ending or Ending(signal=SIGKILL, mark="running")
        if not fired and ending.mark in ("", "broken"):
            raise SandboxError(f"{self.name} could not confine the program: {ending.detail}")
        cpu = max(watch.cpu_seconds, ending.cpu_seconds)
        # What it asked for, which the kernel has cut, or how the interpreter failed after that.
        code = ending.code or ending.exit_code
        return Result(
            status=classify(fired, ending, cpu, limits),
            exit_code=None if fired or ending.signal else code,
            signal=ending.signal,
            stdout=run.stdout.output(),
            stderr=run.stderr.output(),
            wall_seconds=wall,
            cpu_seconds=cpu,
            peak_memory_bytes=max(watch.memory_bytes, ending.memory_bytes),
            backend=self.name,
            limits=limits,
        )


async def _until_end(run: Run, watch: Watch, wall_seconds: float) -> Status | None:
    """Wait for the end of the program, or for the first limit that it passes."""
    assert run.first is not None  # noqa: S101 - as above
    watching = asyncio.ensure_future(watch.until_over(run.first))
    try:
        done, _ = await asyncio.wait(
            (run.exited, run.flooded, watching),
            timeout=wall_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        watching.cancel()
    if run.flooded in done:
        return "output_limit"
    if run.exited in done:
        return None
    return watching.result() if watching in done else "timeout"


async def _ended(run: Run) -> None:
    """End what still runs, by its own first process, and read what was printed to the end."""
    run.release()
    await asyncio.wait((run.exited,), timeout=run.patience)
    for _ in range(50):
        if run.silent:
            return
        await asyncio.sleep(0.01)


async def _cleared(run: Run) -> None:
    """Leave nothing of the processes behind, whatever happened."""
    try:
        run.release()
        await asyncio.wait((run.exited,), timeout=run.patience)
        if not run.exited.done():
            run.kill()
            await asyncio.wait((run.exited,), timeout=KILL_SECONDS)
        run.bury()
    finally:
        run.close()


async def uninterrupted(work: Awaitable[None]) -> None:
    """Wait for something to end though this task be cancelled, which then holds."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
