import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.documents import RetrievalError, TransientRetrievalError
from activities.retrieval.index.walk import read, walk
from activities.retrieval.reading.lines import UnreadableError
from tests.activities.retrieval.documents import Documents


@pytest.fixture
def unprivileged() -> Iterator[Documents]:
    """Documents of a process that permissions hold back, as they never do root."""
    base = Path(tempfile.mkdtemp())
    user = os.geteuid()
    if user == 0:
        os.chown(base, 65534, 65534)
        os.seteuid(65534)
    yield Documents(base)
    os.seteuid(user)
    shutil.rmtree(base)


async def test_an_empty_folder_has_no_passages(documents: Documents) -> None:
    """Nothing is found in a folder without files, and that is no error."""
    found = await documents.find("anything")

    assert (found.passages, found.files, found.searched, found.left_out) == ((), 0, 0, ())


async def test_what_can_not_be_read_is_named(documents: Documents) -> None:
    """Files are left out by reason, counted, with three names of each; the others are searched."""
    documents.write("good.txt", "an apple")
    for name in ("a.png", "b.zip", "c.txt", "d.dat"):
        documents.write(name, b"\0\1\2 apple")
    documents.write("broken.pdf", "apple")
    (documents.folder / "gone.txt").symlink_to(documents.folder / "nowhere.txt")
    os.mkfifo(documents.folder / "pipe.txt")

    found = await documents.find("apple")

    assert [each.source for each in found.passages] == ["good.txt"]
    assert (found.files, found.searched) == (8, 1)
    assert found.left_out == (
        "a broken PDF (1): broken.pdf",
        "can't be read (1): gone.txt",
        "no files (1): pipe.txt",
        "no text (4): a.png, b.zip, c.txt and 1 more",
    )


async def test_a_large_file_is_left_out_unread(documents: Documents) -> None:
    """A file of 200 MB costs nothing but its name."""
    documents.write("small.txt", "an apple")
    with documents.write("large.txt", "an apple").open("r+") as large:
        large.truncate(200_000_000)

    found = await documents.find("apple")

    assert found.left_out == ("over 20 MB (1): large.txt",)
    assert [each.source for each in found.passages] == ["small.txt"]


async def test_hidden_and_installed_files_are_no_documents(documents: Documents) -> None:
    """What begins with a dot, and packages that were installed, are not counted even."""
    for folder in (".git", ".venv/lib", "node_modules/pear", "a/__pycache__"):
        documents.write(f"{folder}/apple.txt", "apple")
    documents.write(".env", "apple")

    found = await documents.find("apple")

    assert (found.passages, found.files, found.left_out) == ((), 0, ())


async def test_links_are_followed_within_the_folder_alone(documents: Documents) -> None:
    """Links to files and folders outside are left out; those inside lead to what is shown there."""
    outside = documents.root / "secret"
    outside.mkdir()
    (outside / "key.txt").write_text("apple secret")
    documents.write("real/inside.txt", "apple inside")
    documents.write(".aws/credentials", "apple hidden")
    documents.write("node_modules/pear/read.txt", "apple installed")
    (documents.folder / "file.txt").symlink_to(outside / "key.txt")
    (documents.folder / "folder").symlink_to(outside)
    (documents.folder / "shown").symlink_to(documents.folder / ".aws")
    (documents.folder / "shown.txt").symlink_to(documents.folder / ".aws" / "credentials")
    (documents.folder / "pear").symlink_to(documents.folder / "node_modules" / "pear")
    (documents.folder / "known").symlink_to(documents.folder / "real")
    (documents.folder / "loop").symlink_to(documents.folder)

    found = await documents.find("apple")

    assert [each.source for each in found.passages] == ["real/inside.txt"]
    assert found.left_out == (
        "links that lead out (2): file.txt, folder",
        "links to what is hidden or installed (3): pear, shown, shown.txt",
    )


def test_a_folder_that_became_a_link_is_not_followed(documents: Documents) -> None:
    """A file is read where it was found, not where a link that came since leads."""
    documents.write("inner/a.txt", "apple")
    folder = str(documents.folder.resolve())
    [found] = walk(folder, lambda: None).files
    outside = documents.base / "inner"
    (documents.folder / "inner").rename(documents.base / "moved")
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    (documents.folder / "inner").symlink_to(outside)

    with pytest.raises(UnreadableError, match="links that lead out"):
        read(found, folder)


def test_a_folder_that_became_a_link_to_a_hidden_one_is_not_followed(documents: Documents) -> None:
    """A file is not read where a link that came since leads to what is hidden."""
    documents.write("inner/a.txt", "apple")
    documents.write(".aws/a.txt", "secret")
    folder = str(documents.folder.resolve())
    [found] = walk(folder, lambda: None).files
    (documents.folder / "inner").rename(documents.base / "moved")
    (documents.folder / "inner").symlink_to(documents.folder / ".aws")

    with pytest.raises(UnreadableError, match="links to what is hidden or installed"):
        read(found, folder)


async def test_long_paths_are_shortened(documents: Documents) -> None:
    """A passage's source takes at most 1,000 bytes: of a longer path its end, with the name."""
    path = "/".join(["é" * 100] * 8) + "/a.txt"
    documents.write(path, "an apple")

    [found] = (await documents.find("apple")).passages

    assert 990 < len(found.source.encode()) <= 1_000
    assert found.source.startswith("…é")
    assert path.endswith(found.source[1:])


async def test_names_of_any_bytes_are_searched(documents: Documents) -> None:
    """A file whose name is no UTF-8 is found, under a name that any text may hold."""
    path = os.fsencode(documents.folder) + b"/caf\xe9.txt"
    Path(os.fsdecode(path)).write_text("an apple")

    found = await documents.find("apple")

    assert [each.source for each in found.passages] == ["caf\ufffd.txt"]
    assert found.model_dump_json()


async def test_control_characters_in_names_are_shown_as_pictures(documents: Documents) -> None:
    """A name can't act on the terminal that shows what was left out."""
    documents.write("\x1b[2J.png", b"\0")

    found = await documents.find("apple")

    assert found.left_out == ("no text (1): ␛[2J.png",)


async def test_permissions(unprivileged: Documents) -> None:
    """A file and a folder that may not be read are left out, and noticed when they may."""
    unprivileged.write("open.txt", "an apple")
    unprivileged.write("closed.txt", "closed apple").chmod(0)
    unprivileged.write("locked/inner.txt", "inner apple").parent.chmod(0)

    before = await unprivileged.find("apple")
    (unprivileged.folder / "closed.txt").chmod(0o600)
    (unprivileged.folder / "locked").chmod(0o700)
    after = await unprivileged.find("apple")

    assert before.left_out == (
        "can't be read (1): closed.txt",
        "folders that can't be read (1): locked",
    )
    assert (before.searched, after.searched, after.left_out) == (1, 3, ())


async def test_a_folder_that_may_not_be_read(unprivileged: Documents) -> None:
    """A folder without permission is an error that names it as it was given."""
    unprivileged.folder.chmod(0)

    with pytest.raises(RetrievalError) as raised:
        await unprivileged.find("apple")

    assert str(raised.value) == 'the folder "docs" can\'t be read: permission denied'


async def test_a_cache_that_may_not_be_written(unprivileged: Documents) -> None:
    """Where no index can be kept the error says which variable to set, and shows no path."""
    unprivileged.write("a.txt", "an apple")
    unprivileged.cache.mkdir(mode=0o500)

    with pytest.raises(TransientRetrievalError) as raised:
        await unprivileged.find("apple")

    assert str(raised.value) == (
        "the worker can't keep an index of the documents (Permission denied): set MULL_CACHE, "
        "where it runs, to a folder that it may write and that has room"
    )
