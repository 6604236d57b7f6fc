"""A folder of documents that a test writes, and its retriever."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from activities.documents import Progress, Retrieval, RetrievalTask, unwatched
from activities.retrieval.meaning.embedding import Embedder
from activities.retrieval.retriever import FolderRetriever
from activities.retrieval.roots import Roots


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
        return FolderRetriever(Roots([str(self.root)]), self.cache, embedder, lock_seconds)

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
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * at} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    return _assembled(objects)


def _assembled(objects: Sequence[str]) -> bytes:
    body, places = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()
