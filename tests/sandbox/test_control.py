"""What the suite of hostile programs says where nothing confines them; harmless ones alone."""

import asyncio
import subprocess
import sys

import pytest

from activities.sandbox.port import Output, Program, Result
from activities.sandbox.sandbox import ProcessSandbox
from reflection.multipath.request import Limits
from tests.sandbox.canaries import Canaries
from tests.sandbox.hostile_programs import every
from tests.sandbox.unconfined import Unconfined

HOSTILE = every()


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
