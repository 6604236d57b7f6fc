"""Programs that try to get out, to stay, or to take everything: in each sandbox none does."""

import asyncio
import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from activities.sandbox.port import Output, Program, Result
from activities.sandbox.sandbox import ProcessSandbox
from reflection.multipath.request import Limits
from tests.sandbox.backends import Unconfined
from tests.sandbox.canaries import Canaries, ipc_objects, left_open, open_descriptors
from tests.sandbox.hostile_programs import ATTEMPTS, FOLDER, MANIFESTS, Hostile, every

HOSTILE = every()


def _worker_files(root: Path, canaries: Canaries) -> str:
    packages = Path(sysconfig.get_path("purelib"))
    paths = (
        root / "worker.py",
        root / "activities/sandbox/inside/init.py",
        packages / "temporalio/__init__.py",
        packages / "litellm/__init__.py",
        canaries.file,
    )
    assert all(each.exists() for each in paths)
    return "\n".join(map(str, paths))


@pytest.mark.parametrize("name", HOSTILE)
async def test_contained(
    name: str,
    sandbox: ProcessSandbox,
    canaries: Canaries,
    orphans: Callable[[], set[int]],
    root: Path,
) -> None:
    """A hostile program comes to what its manifest says, and nothing of it is left."""
    hostile = HOSTILE[name]
    files = {"source_paths.txt": _worker_files(root, canaries)}
    opened, shared = open_descriptors(), ipc_objects()

    result = await sandbox.run(hostile.program(canaries.substitutes, files))

    said = f"{result.status}: {result.stdout.text[:2000]}\n{result.stderr.text[:2000]}"
    assert hostile.faults(result, canaries.faults()) == [], said
    assert orphans() == set()
    assert await left_open(opened) == set()
    assert ipc_objects() == shared
    assert Result.model_validate(json.loads(result.model_dump_json())) == result


def listed() -> list[dict[str, Any]]:
    return [
        each
        for name in MANIFESTS
        for each in json.loads((FOLDER / name).read_text("utf-8"))["programs"]
    ]


def test_every_program_is_read() -> None:
    """Each id and each file stands in the manifests once, and each file is in them."""
    files = [each["file"] for each in listed()]

    assert len(every()) == len(files) == len(set(files))
    assert {path.name for path in FOLDER.glob("*.py")} - {ATTEMPTS} == set(files)


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        (None, {"limit": {}}),
        ("limits", {"threads": 3}),
        ("limits", {"wall_seconds": 3}),
        ("required", {"no_files": True}),
        ("required", {"contained": False}),
        ("required", {"no_survivors": False}),
        ("required", {"host_checks": ["no_mounts"]}),
    ],
)
def test_what_nobody_checks_is_refused(part: str | None, wrong: dict[str, Any]) -> None:
    """A limit, a requirement or a check of the host that the tests don't know fails loudly."""
    known = listed()[0]
    Hostile.model_validate(known)

    with pytest.raises(ValidationError):
        Hostile.model_validate(
            {**known, **wrong}
            if part is None
            else {
                **known,
                part: {**known[part], **wrong},
            }
        )


def test_the_limits_of_a_program_are_those_that_it_runs_with() -> None:
    """Seconds are cut to what a test takes, and the rest is as the manifest has it."""
    limits = {"wall_s": 4, "cpu_s": 1, "memory_mb": 128, "disk_mb": 2, "fsize_mb": 4_096}

    made = Hostile.model_validate({**listed()[0], "limits": limits}).program({}, {}).limits

    assert (made.wall_seconds, made.cpu_seconds, made.memory_mb, made.disk_mb) == (0.5, 1, 128, 2)


class Plain:
    """Runs a program as anybody would, and judges it by its exit code."""

    name = "plain"

    async def run(self, program: Program) -> Result:
        """Run it in this machine's Python."""
        command = [sys.executable, "-I", "-c", program.code or ""]
        ran = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, check=False, timeout=20
        )
        return Result(
            status="ok" if ran.returncode == 0 else "error",
            exit_code=ran.returncode,
            signal=None,
            stdout=_output(ran.stdout),
            stderr=_output(ran.stderr),
            wall_seconds=0.0,
            cpu_seconds=0.0,
            peak_memory_bytes=0,
            backend=self.name,
            limits=program.limits,
        )


def _output(data: bytes) -> Output:
    return Output(head=data.decode(errors="backslashreplace"), tail="", size=len(data))


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("os_exit0", ["status: ok"]),
        ("forge_marker", ["status: ok"]),
        ("segfault", ["status: error"]),
        ("kills_itself", ["status: error"]),
        ("executes_another", ["status: ok"]),
        ("syntax_error", []),
        ("exit0_error_text", []),
        ("exit_text", []),
        ("binary_stdout", []),
        ("closed_stdout", []),
    ],
)
async def test_plain_python(name: str, faults: list[str]) -> None:
    """Judged by its exit code, code that ends itself early passes for code that is done."""
    result = await Plain().run(HOSTILE[name].program({}, {}))

    assert HOSTILE[name].faults(result) == faults


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("net_temporal_port", ["host: tcp connected"]),
        ("datagram_pair", ["host: datagram received", "printed: ESCAPED"]),
        ("read_worker_source", ["printed: ESCAPED"]),
        ("os_exit0", []),
    ],
)
async def test_unconfined(name: str, faults: list[str], canaries: Canaries) -> None:
    """Without confinement the suite finds what was reached."""
    sandbox = ProcessSandbox(Unconfined(), Limits(), 1)
    files = {"source_paths.txt": str(canaries.file)}

    result = await sandbox.run(HOSTILE[name].program(canaries.substitutes, files))

    assert HOSTILE[name].faults(result, canaries.faults()) == faults
