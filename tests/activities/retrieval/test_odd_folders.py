"""Folders that are not what they seem, or change while they are read."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.activities.retrieval.documents import Documents

ROOT = Path(__file__).parents[3]
PEAK = """
import asyncio, resource, sys
from pathlib import Path
from tests.activities.retrieval.documents import Documents
documents = Documents(Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = asyncio.run(documents.find("apple"))
print(*found.left_out)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("make", [lambda _: None, lambda each: each.write("a.png", b"\0")])
async def test_nothing_that_can_be_searched(
    documents: Documents, make: Callable[[Documents], object]
) -> None:
    """A folder that is empty, or has no text, is searched in vain, and a warning says so."""
    make(documents)

    found = await documents.find("anything")

    assert found.passages == ()
    assert found.warnings == ('the folder "docs" has no file that can be searched',)


async def test_links_that_lead_nowhere(documents: Documents) -> None:
    """Links in a circle are left out, and one to a folder above it is not followed twice."""
    documents.write("inner/a.txt", "apple")
    (documents.folder / "one").symlink_to("two")
    (documents.folder / "two").symlink_to("one")
    (documents.folder / "inner" / "up").symlink_to("..")

    found = await documents.find("apple")

    assert [each.source for each in found.passages] == ["inner/a.txt"]
    assert found.left_out == ("can't be read (2): one, two",)


async def test_what_is_no_file_is_never_opened(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pipes and sockets are left out, however they are called, and nobody waits for them."""
    documents.write("a.txt", "apple")
    os.mkfifo(documents.folder / "pipe.pdf")
    monkeypatch.chdir(documents.folder)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.txt")

        found = await documents.find("apple")

    assert found.left_out == ("no files (2): pipe.pdf, socket.txt",)


async def test_folders_deeper_than_a_path_can_say(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies too deep to be named is left out, and all above it is searched."""
    documents.write("a.txt", "apple")
    monkeypatch.chdir(documents.folder)
    for level in range(25):
        Path("x" * 200).mkdir()
        os.chdir("x" * 200)
        Path(f"{level}.txt").write_text(f"apple {level}")

    found = await documents.find("apple", passages=20)

    assert (found.searched, len(found.passages)) == (20, 20)
    assert "can't be read (1): xxx" in found.left_out[0]


def remove(path: Path) -> None:
    path.unlink()


def replace_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_a_link_out(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def grow(path: Path) -> None:
    os.truncate(path, 200_000_000)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (remove, "can't be read"),
        (replace_by_a_pipe, "no files"),
        (replace_by_a_folder, "no files"),
        (replace_by_a_link_out, "can't be read"),
        (grow, "over 20 MB"),
    ],
)
async def test_a_file_that_changes_before_it_is_read(
    documents: Documents, change: Callable[[Path], None], reason: str
) -> None:
    """A file that is another thing by the time it is read is left out by what it is then."""
    documents.write("a.txt", "apple")
    path = documents.write("b.txt", "apple too")

    def change_now(done: int, _total: int) -> None:
        if done == 0:
            change(path)

    found = await documents.find("apple", progress=change_now)

    assert [each.source for each in found.passages] == ["a.txt"]
    assert found.left_out == (f"{reason} (1): b.txt",)


async def test_a_file_that_is_written_after_it_was_read_is_read_again(
    documents: Documents,
) -> None:
    """What was read of a file before its last change does not stay."""
    path = documents.write("a.txt", "apple")

    def change_now(done: int, _total: int) -> None:
        if done == 1:
            path.write_text("quince")

    before = await documents.find("apple", progress=change_now)
    after = await documents.sources("apple"), await documents.sources("quince")

    assert [each.source for each in before.passages] == ["a.txt"]
    assert after == ([], ["a.txt"])


def test_a_file_of_200_mb_takes_no_memory(documents: Documents) -> None:
    """A worker's memory does not grow with a file that it leaves out."""
    documents.write("small.txt", "apple")
    os.truncate(documents.write("large.txt", "apple"), 200_000_000)

    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(documents.base)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    left_out, megabytes = done.stdout.splitlines()
    assert left_out == "over 20 MB (1): large.txt"
    assert int(megabytes) < 60
