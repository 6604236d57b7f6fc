import shutil

import pytest
import tantivy

from activities.documents import TransientRetrievalError
from tests.activities.retrieval.documents import Documents


async def test_an_index_without_its_manifest_is_made_again(documents: Documents) -> None:
    """A writer that was killed between its two files leaves nothing twice and nothing out."""
    documents.write("a.txt", "apple")
    await documents.find("apple")
    [manifest] = documents.cache.rglob("manifest.json")
    older = manifest.read_bytes()
    documents.write("b.txt", "apple too")
    await documents.find("apple")
    manifest.write_bytes(older)
    documents.retriever = documents.worker()

    found = await documents.sources("apple")

    assert sorted(found) == ["a.txt", "b.txt"]


DAMAGES = {
    "meta": ("meta.json", b"{nope"),
    "meta gone": ("meta.json", None),
    "manifest": ("manifest.json", b'{"commit": 1, "files": {"a.txt": [1]}}'),
    "store": ("*.store", b""),
    "terms": ("*.term", b"\0" * 400),
    "postings gone": ("*.idx", None),
}


@pytest.mark.parametrize(("pattern", "content"), DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_index_is_built_anew(
    documents: Documents, pattern: str, content: bytes | None
) -> None:
    """An index whose files are cut, lost or overwritten costs a search the time to build it."""
    documents.write("a.txt", "apple")
    await documents.find("apple")
    for file in list(documents.cache.rglob(pattern)):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
    documents.retriever = documents.worker()

    found = await documents.find("apple")

    assert [each.source for each in found.passages] == ["a.txt"]


async def test_an_index_of_another_shape_is_built_anew(documents: Documents) -> None:
    """An index that other code has made, with other fields, is made again and not searched."""
    documents.write("a.txt", "apple")
    await documents.find("apple")
    [index] = documents.cache.rglob("index")
    shutil.rmtree(index)
    index.mkdir()
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("title", stored=True)
    tantivy.Index(schema.build(), str(index))
    documents.retriever = documents.worker()

    found = await documents.find("apple")

    assert [each.source for each in found.passages] == ["a.txt"]


async def test_a_cache_that_is_no_folder(documents: Documents) -> None:
    """Where a file is in the cache's place, the error says which variable to set."""
    documents.write("a.txt", "apple")
    documents.cache.write_text("a file")

    with pytest.raises(TransientRetrievalError, match="set MULL_CACHE"):
        await documents.find("apple")
