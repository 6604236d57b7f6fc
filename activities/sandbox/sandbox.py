"""The sandbox: runs every program in a backend, as a tree of processes."""

import asyncio
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from signal import SIGKILL
from typing import Any

from activities.sandbox.backend import Backend, Launch, SandboxProcess, compiled, uninterrupted
from activities.sandbox.limits import Ending, claimed_uid, classify, lower, rlimits
from activities.sandbox.port import Program, Result, SandboxError, Status
from activities.sandbox.watcher import Watch
from mull.multipath.request import Limits

START_SECONDS = 20.0
KILL_SECONDS, AGAIN_SECONDS = 10.0, 0.05
# One measures a run's memory and CPU, one its disk, one clears up after it.
THREADS_PER_RUN = 3


class ProcessSandbox:
    """Runs programs in a backend, `at_once` together, within their limits and its ceiling."""

    def __init__(self, backend: Backend, ceiling: Limits, at_once: int) -> None:
        self.name = backend.name
        self.at_once = at_once
        self._backend = backend
        self._ceiling = ceiling
        self._room = asyncio.Semaphore(at_once)
        # Only a free thread can enforce a limit.
        self._threads = ThreadPoolExecutor(THREADS_PER_RUN * at_once, "mull-sandbox")

    async def run(self, program: Program) -> Result:
        """Run a program to its end or to a limit. Raises SandboxError."""
        limits = lower(program.limits, self._ceiling)
        program = program.model_copy(update={"limits": limits})
        async with self._room:
            with claimed_uid() as uid:
                try:
                    async with self._backend.prepare(program, uid, self._threads) as launch:
                        return await self._run(program, launch)
                # Python raises RuntimeError when it can't start a thread.
                except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                    raise SandboxError(f"{self.name}: {error}") from error

    async def _run(self, program: Program, launch: Launch) -> Result:
        limits, settings = program.limits, build_settings(program, launch)
        process = SandboxProcess(launch, settings, program.keep_bytes, limits.output_bytes)
        watch = Watch(limits, launch.disk, self._threads)
        try:
            await self._started(process)
            begin = time.monotonic()
            fired = await _until_end(process, watch, limits.wall_seconds)
            wall = time.monotonic() - begin
            await _ended(process)
            fired = fired or await self._seen_at_end(process, watch)
        finally:
            await uninterrupted(_cleared(process, watch))
        # Without a report, the kernel or the program killed the first process.
        ending = process.ending or Ending(signal=SIGKILL, mark="running")
        if not fired and ending.mark in ("", "broken"):
            raise SandboxError(f"{self.name} could not confine the program: {ending.detail}")
        cpu = max(watch.cpu_seconds, ending.cpu_seconds)
        # The code that it asked for, before the kernel cut it, or the interpreter's own failure.
        code = ending.code or ending.exit_code
        return Result(
            status=classify(fired, ending, cpu, limits),
            exit_code=None if fired or ending.signal else code,
            signal=ending.signal,
            stdout=process.stdout.output(),
            stderr=process.stderr.output(),
            wall_seconds=wall,
            cpu_seconds=cpu,
            peak_memory_bytes=max(watch.memory_bytes, ending.memory_bytes),
            backend=self.name,
            limits=limits,
        )

    async def _started(self, process: SandboxProcess) -> None:
        await asyncio.wait(
            (process.started, process.exited),
            timeout=START_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not process.started.done():
            said = process.stderr.output().text.strip()[-500:]
            raise SandboxError(f"{self.name} did not start: {said or 'no answer in time'}")

    async def _seen_at_end(self, process: SandboxProcess, watch: Watch) -> Status | None:
        """Name a limit that the program passed after the last measurement."""
        if process.flooded.done():
            return "output_limit"
        assert process.first is not None  # noqa: S101 - it said hello before it started
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, watch.measure_disk, process.first)


async def _until_end(process: SandboxProcess, watch: Watch, wall_seconds: float) -> Status | None:
    """Wait until the program ends or passes a limit, and name that limit."""
    assert process.first is not None  # noqa: S101 - as above
    watch.begin(process.first)
    ends: list[asyncio.Future[Any]] = [process.exited, process.flooded, *watch.looks]
    done, _ = await asyncio.wait(ends, timeout=wall_seconds, return_when=asyncio.FIRST_COMPLETED)
    watch.over.set()
    if process.flooded in done:
        return "output_limit"
    if process.exited in done:
        return None
    return next((look.result() for look in watch.looks if look in done), "timeout")


async def _ended(process: SandboxProcess) -> None:
    """Let the first process end what still runs, and read the rest of the output."""
    process.release()
    await asyncio.wait((process.exited,), timeout=process.patience)
    for _ in range(50):
        if process.all_read:
            return
        await asyncio.sleep(0.01)


async def _cleared(process: SandboxProcess, watch: Watch) -> None:
    """End all processes, and then the threads that look at them, whatever happened."""
    try:
        process.release()
        await asyncio.wait((process.exited,), timeout=process.patience)
        until = time.monotonic() + KILL_SECONDS
        while not process.exited.done() and time.monotonic() < until:
            # Repeat it, since the first process may not have begun yet.
            process.kill_first()
            await asyncio.wait((process.exited,), timeout=AGAIN_SECONDS)
        process.kill()
        await asyncio.wait((process.exited,), timeout=KILL_SECONDS)
        process.reap_first()
    finally:
        process.close()
        await watch.end()


def build_settings(program: Program, launch: Launch) -> dict[str, Any]:
    """Build the settings for `inside/`, from values that marshal can carry."""
    files = {path: _bytes(text) for path, text in program.files.items()}
    if program.code is not None:
        files["main.py"] = _bytes(program.code)
    return {
        "modules": {name: compiled(name) for name in launch.modules},
        "argv": program.command or ("python", "main.py"),
        "files": files,
        "input": _bytes(program.input),
        "work": launch.work,
        "uid": launch.uid,
        "env": {
            "HOME": launch.work,
            "LOGNAME": "sandbox",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PATH": launch.path,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "PYTHONPATH": launch.packages,
            "PWD": launch.work,
            "TMPDIR": launch.scratch,
            "USER": "sandbox",
        },
        "rlimits": rlimits(program.limits),
        **launch.settings,
    }


def _bytes(text: str) -> bytes:
    """Encode lone surrogates too, which JSON lets through; the program will see them as invalid."""
    return text.encode("utf-8", "surrogatepass")
