"""Disks that are full: the worker's own, and the one under the server's database."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.runs import REQUESTS, lasting
from tests.chaos.stage import Stage
from tests.conftest import begin, until
from tests.patience import PATIENCE


class Disk:
    """A file system of its own, of some megabytes, which can be filled."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        if mounted.returncode:
            pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
        self.folder, self._filler = folder, folder / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def empty(self) -> None:
        self._filler.unlink()

    def unmount(self) -> None:
        """Take the file system away, also while somebody has a file of it open."""
        command = ["umount", "--lazy", str(self.folder)]
        subprocess.run(command, check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "disk", 64)
    yield disk
    disk.unmount()


async def test_a_worker_whose_disk_is_full(disk: Disk, tmp_path: Path) -> None:
    """Spans and sandbox do without it; a search waits until there is room for its index."""
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "double.md").write_text("To double a number, multiply it by two.")
    own = {
        "TMPDIR": str(disk.folder),
        "MULL_CACHE": str(disk.folder / "cache"),
        "MULL_DOCUMENTS": str(documents),
    }
    workflow, request = REQUESTS["agent"]
    searching = {**request, "docs": str(documents)}
    kinds = ["ask", "agent", "turn"]
    async with Stage(tmp_path) as stage:
        await stage.serve("", **own)
        expected = await stage.runs(kinds, "undisturbed")
        searched = lasting(await (await begin(stage.client, searching, workflow)).result())
        stage.kill_workers()
        shutil.rmtree(disk.folder / "cache")
        disk.fill()
        await stage.serve("", "--traces", str(disk.folder / "spans"), **own)
        ended = await asyncio.wait_for(stage.runs(kinds, "full"), PATIENCE)
        handle = await begin(stage.client, searching, workflow)

        async def failed() -> str:
            pending = (await handle.describe()).raw_description.pending_activities
            return "".join(each.last_failure.message for each in pending)

        said = await until(failed)
        disk.empty()
        found = lasting(await asyncio.wait_for(handle.result(), PATIENCE))

    assert ended == expected
    assert "full" in said
    assert found == searched


async def test_a_server_whose_disk_is_full(disk: Disk) -> None:
    """Runs stand still while nothing can be recorded, and then end alike."""
    async with Stage(disk.folder) as stage:
        await stage.serve()
        expected = await stage.runs(REQUESTS, "undisturbed")
        runs = asyncio.create_task(stage.runs(REQUESTS, "full"))
        await asyncio.sleep(1)
        disk.fill()
        await asyncio.sleep(4)
        disk.empty()
        ended = await asyncio.wait_for(runs, PATIENCE)

    assert ended == expected
