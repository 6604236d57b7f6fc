import os
from pathlib import Path

import pytest

from activities.documents import RetrievalError
from activities.retrieval.roots import Roots
from tests.activities.retrieval.documents import Documents


async def test_nothing_is_allowed_by_default() -> None:
    """Without MULL_DOCUMENTS every folder is refused, by the name of what must be set."""
    roots = Roots.from_environment({})

    with pytest.raises(RetrievalError) as raised:
        roots.resolve("/")

    assert str(raised.value) == (
        "no folder may be searched: set MULL_DOCUMENTS, where the worker runs, to the folders that "
        "it may read"
    )


def test_roots_are_separated_as_paths_are(tmp_path: Path) -> None:
    """MULL_DOCUMENTS names several folders, and a relative one is looked for under each."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / "notes").mkdir(parents=True)
    value = os.pathsep.join([str(tmp_path / "a"), "", str(tmp_path / "b")])

    found = Roots.from_environment({"MULL_DOCUMENTS": value}).resolve("notes")

    assert found == str((tmp_path / "b" / "notes").resolve())


@pytest.mark.parametrize("docs", ["docs", "./docs/", "docs/../docs", "{root}/docs", "{root}", "."])
def test_what_lies_under_a_root_is_allowed(documents: Documents, docs: str) -> None:
    """A folder may be named relative to a root, by its whole path, and be the root itself."""
    roots = Roots([str(documents.root)])

    found = roots.resolve(docs.format(root=documents.root))

    assert found in {str(documents.root.resolve()), str(documents.folder.resolve())}


@pytest.mark.parametrize(
    "docs",
    ["/etc", "../outside", "docs/../../outside", "{base}/outside", "{root}-twin", "leads-out", "/"],
)
def test_what_leads_out_is_refused(documents: Documents, docs: str) -> None:
    """Dots, links, whole paths and similar names that lead out are refused by name alone."""
    (documents.base / "outside").mkdir()
    (documents.base / "root-twin").mkdir()
    (documents.root / "leads-out").symlink_to(documents.base / "outside")
    asked = docs.format(root=documents.root, base=documents.base)

    with pytest.raises(RetrievalError) as raised:
        Roots([str(documents.root)]).resolve(asked)

    assert str(raised.value) == (
        f'the folder "{asked}" is not under one that MULL_DOCUMENTS allows on the worker'
    )


@pytest.mark.parametrize(
    "docs",
    [
        ".aws",
        "docs/.aws",
        "docs/.aws/inner",
        "docs/.none",
        "{root}/docs/.aws",
        "docs/node_modules",
        "docs/../docs/.aws/.",
        "shown",
        ".shown",
    ],
)
def test_what_is_hidden_is_refused(documents: Documents, docs: str) -> None:
    """A folder below a root with a hidden part is refused, links resolved, and be there none."""
    for name in (".aws", "docs/.aws/inner", "docs/node_modules"):
        (documents.root / name).mkdir(parents=True)
    (documents.root / "shown").symlink_to(documents.root / ".aws")
    (documents.root / ".shown").symlink_to(documents.folder)
    asked = docs.format(root=documents.root)

    with pytest.raises(RetrievalError) as raised:
        Roots([str(documents.root)]).resolve(asked)

    assert str(raised.value) == (
        f'the folder "{asked}" is hidden, or of installed packages: neither is searched'
    )


@pytest.mark.parametrize("docs", [".", "inner", "{root}", "{root}/inner"])
def test_a_root_may_be_hidden(documents: Documents, docs: str) -> None:
    """What the operator names is allowed with all below it, though it lies in what is hidden."""
    root = documents.root / ".notes"
    (root / "inner").mkdir(parents=True)

    found = Roots([str(documents.root), str(root)]).resolve(docs.format(root=root))

    assert found in {str(each.resolve()) for each in (documents.root, root, root / "inner")}


@pytest.mark.parametrize(
    ("docs", "line"),
    [
        ("none", 'the worker has no folder "none"'),
        ("docs/none/deeper", 'the worker has no folder "docs/none/deeper"'),
        ("docs/note.txt", '"docs/note.txt" is a file: name the folder that it is in'),
        ("a\0b", 'the folder "a␀b" is not under one that MULL_DOCUMENTS allows on the worker'),
        ("x" * 5_000, None),
        ("\udcff", None),
    ],
)
async def test_what_is_no_folder_is_named_as_it_was_given(
    documents: Documents, docs: str, line: str | None
) -> None:
    """A missing folder, a file, or a name that can be none is an error on one line."""
    documents.write("note.txt", "a note")

    with pytest.raises(RetrievalError) as raised:
        Roots([str(documents.root)]).resolve(docs)

    said = str(raised.value)
    said.encode()
    assert said == (line or said)
    assert len(said) < 600
    assert "\n" not in said
    assert str(documents.base) not in said
