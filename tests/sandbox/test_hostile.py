"""Programs that try to get out, to stay, or to take everything: in each sandbox none does."""

import json
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from activities.sandbox.port import Result
from activities.sandbox.sandbox import ProcessSandbox
from mull.multipath.request import Limits
from tests.patience import Stopwatch
from tests.sandbox.backends import Unconfined
from tests.sandbox.canaries import Canaries, ipc_objects, left_open, open_descriptors
from tests.sandbox.hostile_programs import ATTEMPTS, FOLDER, Hostile, every

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
    assert all(path.exists() for path in paths)
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

    watch = Stopwatch()
    result = await sandbox.run(hostile.program(canaries.substitutes, files))

    stalled = watch.stalled
    said = f"{result.status}: {result.stdout.text[:2000]}\n{result.stderr.text[:2000]}"
    assert hostile.faults(result, canaries.faults(), stalled) == [], said
    assert orphans() == set()
    assert await left_open(opened) == set()
    assert ipc_objects() == shared
    assert Result.model_validate(json.loads(result.model_dump_json())) == result


def test_every_program_is_read() -> None:
    """The manifest has every file, and only those."""
    assert {path.name for path in FOLDER.glob("*.py")} == {
        ATTEMPTS,
        *(f"{name}.py" for name in HOSTILE),
    }


@pytest.mark.parametrize("wrong", [{"limit": {}}, {"limits": {"threads": 3}}, {"status": ["fine"]}])
def test_what_nobody_checks_is_refused(wrong: dict[str, Any]) -> None:
    """A limit, a status or a requirement that the tests don't know fails loudly."""
    with pytest.raises(ValidationError):
        Hostile.model_validate({**HOSTILE["os_exit0"].model_dump(), **wrong})


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("net_temporal_port", ["host: tcp connected"]),
        ("datagram_pair", ["host: datagram received", "printed: ESCAPED"]),
        ("read_worker_source", ["printed: ESCAPED"]),
        ("segfault", []),
        ("os_exit0", []),
    ],
)
async def test_unconfined(name: str, faults: list[str], canaries: Canaries) -> None:
    """Without confinement the suite finds what was reached."""
    sandbox = ProcessSandbox(Unconfined(), Limits(), 1)
    files = {"source_paths.txt": str(canaries.file)}

    result = await sandbox.run(HOSTILE[name].program(canaries.substitutes, files))

    assert HOSTILE[name].faults(result, canaries.faults()) == faults
