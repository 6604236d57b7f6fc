"""Measure retrieval: 10,000 made-up files are indexed, and searched 500 times.

    .venv/bin/python -m bench.retrieval

Prints seconds and files a second for the first index, the seconds of a check that finds nothing
new, and milliseconds at the median and the 95th percentile for a query. The files are 6 kB each,
of 20,000 made-up words as frequent as words are; a query has 20 words of one passage.
"""

import asyncio
import tempfile
from pathlib import Path
from random import Random
from statistics import quantiles
from time import perf_counter

from activities.documents import RetrievalTask
from activities.retrieval.index.walk import walk
from activities.retrieval.retriever import FolderRetriever
from activities.retrieval.roots import Roots

FILES, FOLDERS, WORDS, QUERIES = 10_000, 100, 20_000, 500
PARAGRAPHS, PARAGRAPH_WORDS = 10, 80


def write_files(folder: Path, chance: Random) -> list[str]:
    """Write the files, and return the words of the last of each folder."""
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(WORDS)]
    weights = [1 / rank for rank in range(1, WORDS + 1)]
    texts = []
    for index in range(FILES):
        drawn = chance.choices(words, weights, k=PARAGRAPHS * PARAGRAPH_WORDS)
        rows = [" ".join(drawn[at : at + 10]) for at in range(0, len(drawn), 10)]
        text = "\n".join(row if at % 8 else f"\n## {row}\n" for at, row in enumerate(rows))
        path = folder / f"part{index % FOLDERS}" / f"page{index}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        texts.append(text)
    return texts[-FOLDERS:]


async def measure(folder: Path, cache: Path, texts: list[str], chance: Random) -> None:
    """Index the folder and search it, and print what each took."""
    retriever = FolderRetriever(Roots([str(folder)]), cache)
    started = perf_counter()
    first = await retriever.retrieve(RetrievalTask(prompt="first", docs=".", passages=8))
    seconds = perf_counter() - started
    assert first.searched == FILES
    print(f"index: {seconds:.1f} s for {FILES:,} files, {FILES / seconds:,.0f} files/s")
    started = perf_counter()
    walk(str(folder), lambda: None)
    print(f"check of all files: {(perf_counter() - started) * 1e3:.0f} ms")
    times = [await query(retriever, chance.choice(texts), chance) for _ in range(QUERIES)]
    cuts = quantiles(times, n=20)
    print(f"query: p50 {cuts[9] * 1e3:.1f} ms, p95 {cuts[18] * 1e3:.1f} ms")


async def query(retriever: FolderRetriever, text: str, chance: Random) -> float:
    """Time one retrieval as an activity makes it, with what checks it makes."""
    task = RetrievalTask(prompt=" ".join(chance.choices(text.split(), k=20)), docs=".", passages=8)
    started = perf_counter()
    found = await retriever.retrieve(task)
    assert len(found.passages) == 8
    return perf_counter() - started


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        documents = Path(made) / "documents"
        documents.mkdir()
        made_up = Random(0)
        last = write_files(documents, made_up)
        asyncio.run(measure(documents, Path(made) / "cache", last, made_up))
