"""A folder of documents that a test writes, and its retriever."""

import zlib
from collections.abc import Sequence
from pathlib import Path

from activities.documents.folder import FolderRetriever
from activities.documents.retrieval import Progress, Retrieval, RetrievalTask, unwatched
from activities.documents.roots import Roots


class Documents:
    """The folder `docs` under a root that is allowed, beside a cache of its own."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "root"
        self.folder = self.root / "docs"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cache = base / "cache"
        self.retriever = self.worker()

    def worker(self, lock_seconds: float = 20) -> FolderRetriever:
        """Build a retriever as another worker would, which knows nothing of the first."""
        return FolderRetriever(Roots([str(self.root)]), self.cache, lock_seconds)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    async def find(
        self, prompt: str, passages: int = 8, docs: str = "docs", progress: Progress = unwatched
    ) -> Retrieval:
        task = RetrievalTask(prompt=prompt, docs=docs, passages=passages)
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
