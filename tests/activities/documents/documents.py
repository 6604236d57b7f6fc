"""A folder of documents that a test writes, its retriever, and an embedding model."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from activities.documents.folder import FolderRetriever
from activities.documents.retrieval import (
    Embedded,
    Embedder,
    Progress,
    Retrieval,
    RetrievalTask,
    unwatched,
)
from activities.documents.roots import Roots
from activities.language_model.layers import ObservedEmbedder
from reflection.run import Spending


class Documents:
    """The folder `docs` under a root that is allowed, beside a cache of its own."""

    def __init__(self, base: Path, embedder: Embedder | None = None) -> None:
        self.base = base
        self.root = base / "root"
        self.folder = self.root / "docs"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cache = base / "cache"
        self.retriever = self.worker(embedder)

    def worker(self, embedder: Embedder | None = None, lock_seconds: float = 20) -> FolderRetriever:
        """Build a retriever as another worker would, which knows nothing of the first."""
        observed = None if embedder is None else ObservedEmbedder(embedder)
        return FolderRetriever(Roots([str(self.root)]), self.cache, observed, lock_seconds)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    async def find(
        self,
        prompt: str,
        passages: int = 8,
        docs: str = "docs",
        progress: Progress = unwatched,
        **fields: Any,
    ) -> Retrieval:
        task = RetrievalTask(prompt=prompt, docs=docs, passages=passages, **fields)
        return await self.retriever.retrieve(task, progress)

    async def sources(self, prompt: str, passages: int = 8) -> list[str]:
        return [each.source for each in (await self.find(prompt, passages)).passages]


def pdf(pages: Sequence[str]) -> bytes:
    """Write a PDF with one line of text on each page."""
    return drawing([shown(text) for text in pages])


def shown(text: str) -> bytes:
    """Write what draws a line of text."""
    return f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET\n".encode()


def drawing(pages: Sequence[bytes], form: bytes = b"", fonts: int = 1) -> bytes:
    """Write a PDF of pages that draw this, each compressed; `/X Do` draws the form in a page."""
    named = b" ".join(b"/F%d 3 0 R" % number for number in range(1, fonts + 1))
    fonts_named = b"/Font << %s >>" % named
    kids = b" ".join(b"%d 0 R" % (5 + 2 * at) for at in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        _stream(form, b"/Type /XObject /Subtype /Form /Resources << %s >>" % fonts_named),
    ]
    for at, drawn in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << %s /XObject << /X 4 0 R >> >> >>" % (6 + 2 * at, fonts_named)
        )
        objects.append(_stream(drawn))
    return _assembled(objects)


def _stream(content: bytes, described: bytes = b"") -> bytes:
    packed = zlib.compress(content)
    return b"<< %s /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (
        described,
        len(packed),
        packed,
    )


def _assembled(objects: Sequence[bytes]) -> bytes:
    body, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(body))
    return b"%sxref\n0 %d\n0000000000 65535 f \n%s%s" % (body, size, table, trailer)


MODEL = "house/embedding"


FRUIT = {"apple", "pear", "fruit", "quince"}


PRICED = Spending(calls=1, input_tokens=10, output_tokens=0, cached_tokens=0, cost_usd=0.001)


class ScriptedEmbedder:
    """Embed a text by whether it is of fruit; fail with `errors` first, each at a call.

    Each call costs `spending`.
    """

    def __init__(self, *errors: BaseException | None, spending: Spending = PRICED) -> None:
        self.errors = list(errors)
        self.spending = spending
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str], model: str, timeout_seconds: float) -> Embedded:
        assert (model, timeout_seconds) == (MODEL, 120.0)
        self.batches.append(list(texts))
        if self.errors and (error := self.errors.pop(0)):
            raise error
        vectors = [
            [3.0, 4.0] if FRUIT & set(text.lower().split()) else [0.0, 2.0] for text in texts
        ]
        return Embedded(vectors, self.spending, "house")
