"""What the sandbox's first process is told: the program, its place and its limits."""

import resource
from typing import Any

from activities.sandbox.port import Program
from activities.sandbox.running.backend import MODULES, Launch, module
from activities.sandbox.watching.watch import MIB
from reflection.multipath.request import Limits

OPEN_FILES = 256


def lower(asked: Limits, ceiling: Limits) -> Limits:
    """Return the lower of each two limits."""
    return Limits(
        **{name: min(getattr(asked, name), getattr(ceiling, name)) for name in Limits.model_fields}
    )


def build_settings(program: Program, limits: Limits, launch: Launch) -> dict[str, Any]:
    """Say, in values that marshal carries, all that `inside/` has to know."""
    files = {path: _bytes(text) for path, text in program.files.items()}
    if program.code is not None:
        files["main.py"] = _bytes(program.code)
    return {
        "modules": {name: module(name) for name in (*MODULES, *launch.modules)},
        "argv": program.command or ("python", "main.py"),
        "files": files,
        "input": _bytes(program.input),
        "work": launch.work,
        "uid": launch.uid,
        "env": _environment(launch),
        "rlimits": _rlimits(limits),
        **launch.settings,
    }


def _bytes(text: str) -> bytes:
    """Encode half characters, too, which JSON lets through: the program sees that they are none."""
    return text.encode("utf-8", "surrogatepass")


def _environment(launch: Launch) -> dict[str, str]:
    return {
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
    }


def _rlimits(limits: Limits) -> tuple[tuple[int, tuple[int, int]], ...]:
    cpu = int(limits.cpu_seconds) + 1
    memory, disk = limits.memory_mb * MIB, limits.disk_mb * MIB
    return (
        (resource.RLIMIT_CORE, (0, 0)),
        (resource.RLIMIT_CPU, (cpu, cpu + 1)),
        (resource.RLIMIT_DATA, (memory, memory)),
        # Page tables of memory that is only reserved are not data; this bounds them.
        (resource.RLIMIT_AS, (memory + 4_096 * MIB, memory + 4_096 * MIB)),
        (resource.RLIMIT_FSIZE, (disk, disk)),
        (resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES)),
        (resource.RLIMIT_NPROC, (limits.processes, limits.processes)),
        (resource.RLIMIT_MSGQUEUE, (0, 0)),
        (resource.RLIMIT_MEMLOCK, (0, 0)),
    )
