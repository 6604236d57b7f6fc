"""Programs that try to get out, to stay, or to take everything: in each sandbox none does."""

import json
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from activities.sandbox.port import Result
from activities.sandbox.sandbox import ProcessSandbox
from tests.sandbox.canaries import Canaries, ipc_objects, left_open, open_descriptors
from tests.sandbox.hostile_programs import every

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
