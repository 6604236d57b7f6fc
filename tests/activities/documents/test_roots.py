"""Which folders are allowed, and which of their files are read."""

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from activities.documents.retrieval import RetrievalError, TransientRetrievalError
from activities.documents.roots import Roots, UnreadableError, read_bytes, walk
from mull.text import terminal_safe
from tests.activities.documents.documents import Documents


def test_roots_are_separated_as_paths_are(tmp_path: Path) -> None:
    """MULL_DOCUMENTS names the folders, none by default; a relative one is looked for in each."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / "notes").mkdir(parents=True)
    value = os.pathsep.join([str(tmp_path / "a"), "", str(tmp_path / "b")])

    found = Roots.from_environment({"MULL_DOCUMENTS": value}).resolve("notes")
    with pytest.raises(RetrievalError, match="no folder may be searched: set MULL_DOCUMENTS"):
        Roots.from_environment({}).resolve("/")

    assert found == str((tmp_path / "b" / "notes").resolve())


OUTSIDE = 'the folder "{}" is not under one that MULL_DOCUMENTS allows on the worker'
HIDDEN = 'the folder "{}" is hidden, or holds installed packages: neither is searched'
MISSING = 'there is no folder "{}" on the worker\'s machine'
REFUSED = {
    OUTSIDE: "/etc /none/there ../none ../outside docs/../../outside "
    "{base}/outside {root}-twin leads-out / a\0b",
    HIDDEN: ".aws docs/.aws docs/.aws/inner docs/.none {root}/docs/.aws docs/node_modules "
    "docs/../docs/.aws/. shown .shown",
    MISSING: "none docs/none/deeper \udcff " + "x" * 5_000,
    '"{}" is a file: name the folder that it is in': "docs/note.txt",
}


@pytest.mark.parametrize(
    ("docs", "line"), [(docs, line) for line, rows in REFUSED.items() for docs in rows.split()]
)
def test_what_is_refused(documents: Documents, docs: str, line: str) -> None:
    """What leads out, by dots, links, whole paths or similar names, and what is hidden is refused.

    So is what is missing or no folder, on one line that shows the name as it was given.
    """
    (documents.base / "outside").mkdir()
    (documents.base / "root-twin").mkdir()
    (documents.root / "leads-out").symlink_to(documents.base / "outside")
    for name in (".aws", "docs/.aws/inner", "docs/node_modules"):
        (documents.root / name).mkdir(parents=True)
    (documents.root / "shown").symlink_to(documents.root / ".aws")
    (documents.root / ".shown").symlink_to(documents.folder)
    documents.write("note.txt", "a note")
    asked = docs.format(root=documents.root, base=documents.base)

    with pytest.raises(RetrievalError) as raised:
        Roots([str(documents.root)]).resolve(asked)

    said = str(raised.value)
    said.encode()
    assert said == line.format(terminal_safe(asked, 200))
    assert "\n" not in said


@pytest.mark.parametrize(
    ("docs", "found"),
    [
        *[("docs", "docs"), ("./docs/", "docs"), ("docs/../docs", "docs"), ("{root}/docs", "docs")],
        *[("{root}", ""), (".", ""), ("inner", ".notes/inner"), ("{root}/.notes", ".notes")],
        ("{root}/.notes/inner", ".notes/inner"),
    ],
)
def test_what_lies_under_a_root_is_allowed(documents: Documents, docs: str, found: str) -> None:
    """A folder is named relative to a root or by its whole path, and may be the root itself.

    What the operator names is allowed with all below it, though it lies in what is hidden.
    """
    root, hidden = documents.root, documents.root / ".notes"
    (hidden / "inner").mkdir(parents=True)

    resolved = Roots([str(root), str(hidden)]).resolve(docs.format(root=root))

    assert resolved == str((root / found).resolve())


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


@pytest.mark.parametrize(
    ("target", "reason"),
    [("../../inner", "links that lead out"), (".aws", "links to hidden or installed files")],
)
def test_a_folder_that_became_a_link_is_not_followed(
    documents: Documents, target: str, reason: str
) -> None:
    """A file is read where it was found, not where a link that came since leads."""
    documents.write("inner/a.txt", "apple")
    folder = str(documents.folder.resolve())
    [found] = walk(folder, lambda: None).files
    (documents.folder / "inner").rename(documents.base / "moved")
    documents.write(f"{target}/a.txt", "secret")
    (documents.folder / "inner").symlink_to(target)

    with pytest.raises(UnreadableError, match=reason):
        read_bytes(found.path, folder)


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


def make(folder: Path, name: str, what: str) -> None:
    """Make a text, or what `binary`, `pipe`, `socket`, `large` and `-> target` say."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.path.relpath(path))
    elif what.startswith("-> "):
        path.symlink_to(what[3:])
    elif what == "large":
        path.touch()
        os.truncate(path, 200_000_000)
    else:
        path.write_bytes(b"\0\1\2" if what == "binary" else what.encode())


UNKEPT = (
    "the worker can't keep an index of the documents (Permission denied): set MULL_CACHE, where it "
    "runs, to a folder that it may write and that has room, or allow its process more open files"
)
HIDDEN_FILES = dict.fromkeys(
    (".git/a", ".venv/lib/a", "node_modules/a", "a/__pycache__/a", ".env"), "apple"
)
FOLDERS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "what is no text": (
        dict.fromkeys(("a.png", "b.zip", "e.pdf"), "apple")
        | dict.fromkeys(("c.txt", "d.dat"), "binary"),
        ("a broken PDF (1): e.pdf", "no text (4): a.png, b.zip, c.txt and 1 more"),
    ),
    "hidden and installed": (HIDDEN_FILES, ()),
    "links out": (
        {"../secret/key": "apple", "file.txt": "-> ../secret/key", "folder": "-> ../secret"},
        ("links that lead out (2): file.txt, folder",),
    ),
    "links to what is not shown": (
        dict.fromkeys((".aws/key", "node_modules/pear/read.txt"), "apple")
        | {"shown": "-> .aws", "shown.txt": "-> .aws/key", "pear": "-> node_modules/pear"},
        ("links to hidden or installed files (3): pear, shown, shown.txt",),
    ),
    "links within, above and in a circle": (
        {"known": "-> .", "one": "-> two", "two": "-> one", "gone": "-> nowhere", "in/up": "-> .."},
        ("can't be read (3): gone, one, two",),
    ),
    "what is too large": ({"large.txt": "large"}, ("over 20 MB (1): large.txt",)),
    "not regular files": (
        {"pipe.pdf": "pipe", "socket.txt": "socket"},
        ("not regular files (2): pipe.pdf, socket.txt",),
    ),
    "a name that acts on a terminal": ({"\x1b[2J.png": "binary"}, ("no text (1): ␛[2J.png",)),
}


@pytest.mark.parametrize(("content", "left_out"), FOLDERS.values(), ids=FOLDERS)
async def test_what_is_left_out_of_a_folder(
    documents: Documents,
    monkeypatch: pytest.MonkeyPatch,
    content: dict[str, str],
    left_out: tuple[str, ...],
) -> None:
    """Files are left out by reason, counted, with three names of each; the others are searched."""
    monkeypatch.chdir(documents.folder)
    documents.write("real/good.txt", "an apple")
    for name, what in content.items():
        make(documents.folder, name, what)

    found = await documents.find("apple")

    assert [passage.source for passage in found.passages] == ["real/good.txt"]
    assert found.left_out == left_out
    assert (found.searched, found.warnings) == (1, ())


async def test_nothing_that_can_be_searched(documents: Documents) -> None:
    """A folder that is empty, or has no text, is searched in vain, and a warning says so."""
    empty = await documents.find("anything")
    make(documents.folder, "a.png", "binary")
    binary = await documents.find("anything")

    for found in (empty, binary):
        assert (found.passages, found.searched) == ((), 0)
        assert found.warnings == ('the folder "docs" has no file that can be searched',)


def replaced(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Put something else in a file's place."""

    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (Path.unlink, "can't be read"),
    "a pipe": (replaced(os.mkfifo), "not regular files"),
    "a folder": (replaced(Path.mkdir), "not regular files"),
    "a link": (replaced(lambda path: path.symlink_to("/etc/hostname")), "can't be read"),
    "large": (lambda path: os.truncate(path, 200_000_000), "over 20 MB"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
async def test_a_file_that_changes_before_it_is_read(
    documents: Documents, change: Callable[[Path], object], reason: str
) -> None:
    """A file that is another thing by the time it is read is left out by what it is then."""
    documents.write("a.txt", "apple")
    path = documents.write("b.txt", "apple too")

    def change_now(done: int, _total: int) -> None:
        if done == 0:
            change(path)

    found = await documents.find("apple", progress=change_now)

    assert [passage.source for passage in found.passages] == ["a.txt"]
    assert found.left_out == (f"{reason} (1): b.txt",)


async def test_a_file_that_is_written_after_it_was_read_is_read_again(documents: Documents) -> None:
    """What was read of a file before its last change does not stay."""
    path = documents.write("a.txt", "apple")

    def change_now(done: int, _total: int) -> None:
        if done == 1:
            path.write_text("quince")

    await documents.find("apple", progress=change_now)

    assert await documents.sources("apple") == []
    assert await documents.sources("quince") == ["a.txt"]


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


@pytest.mark.parametrize(
    ("closed", "line"),
    [("folder", 'the folder "docs" can\'t be read: permission denied'), ("cache", UNKEPT)],
)
async def test_folders_without_permission(unprivileged: Documents, closed: str, line: str) -> None:
    """Without permission for the documents or the cache the error says so, and shows no path."""
    unprivileged.write("a.txt", "an apple")
    unprivileged.cache.mkdir()
    getattr(unprivileged, closed).chmod(0o000)

    with pytest.raises(RetrievalError) as raised:
        await unprivileged.find("apple")

    assert isinstance(raised.value, TransientRetrievalError) == (closed == "cache")
    assert str(raised.value) == line
