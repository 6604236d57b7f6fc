"""Measure retrieval: the time for 10,000 made-up files, and the recall of 40 labelled questions.

    .venv/bin/python -m bench.retrieval [recall]

Prints seconds and files a second for the first index, the time of a check that finds nothing new,
and the median and 95th percentile of a query. The files are 6 kB each, of 20,000 made-up words
with natural frequencies; a query has 20 words of one passage.

Then prints how many questions find their passage first, and among the first five: 14 are about
examples/documents and 26 about notes of one line, among 600 made-up notes of the same words.
`recall` measures only this.
"""

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random
from statistics import quantiles
from time import perf_counter

from activities.documents.folder import FolderRetriever
from activities.documents.retrieval import RetrievalTask
from activities.documents.roots import Roots, walk

FILES, FOLDERS, WORDS, QUERIES = 10_000, 100, 20_000, 500
PARAGRAPHS, PARAGRAPH_WORDS = 10, 80
MADE_UP_NOTES = 600


def write_files(folder: Path, chance: Random) -> list[str]:
    """Write the files, and return the words of each folder's last file."""
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
    """Index the folder and search it, and print the times."""
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
    """Time one retrieval as an activity does it, with its checks."""
    task = RetrievalTask(prompt=" ".join(chance.choices(text.split(), k=20)), docs=".", passages=8)
    started = perf_counter()
    found = await retriever.retrieve(task)
    assert len(found.passages) == 8
    return perf_counter() - started


def write_notes(folder: Path, chance: Random) -> list[tuple[str, str]]:
    """Write the examples, the notes and made-up notes; return each question with its file."""
    here = Path(__file__).parent
    labelled = json.loads((here / "questions.json").read_text(encoding="utf-8"))
    shutil.copytree(here.parent / "examples" / "documents", folder, dirs_exist_ok=True)
    questions = [(question, name) for question, name in labelled["examples"]]
    texts = [text for _, text in labelled["notes"]]
    for number, (question, text) in enumerate(labelled["notes"]):
        (folder / f"note-{number}.txt").write_text(text, encoding="utf-8")
        questions.append((question, f"note-{number}.txt"))
    words = " ".join(texts).split()
    for number in range(MADE_UP_NOTES):
        text = " ".join(chance.choices(words, k=chance.randint(10, 30)))
        (folder / f"made-up-{number}.txt").write_text(text, encoding="utf-8")
    return questions


async def measure_recall(folder: Path, cache: Path, questions: list[tuple[str, str]]) -> None:
    """Print the share of questions whose file is found first, and among the first five."""
    retriever = FolderRetriever(Roots([str(folder)]), cache)
    ranks = []
    for question, name in questions:
        task = RetrievalTask(prompt=question, docs=".", passages=5)
        found = [passage.source for passage in (await retriever.retrieve(task)).passages]
        ranks.append(found.index(name) if name in found else len(found))
    first, five = sum(rank == 0 for rank in ranks), sum(rank < 5 for rank in ranks)
    print(f"recall: {first} of {len(ranks)} first, {five} among the first five")


def main() -> None:
    """Run the selected measurements."""
    with tempfile.TemporaryDirectory() as made:
        base, chance = Path(made), Random(0)
        for name in ("documents", "notes"):
            (base / name).mkdir()
        if "recall" not in sys.argv:
            last = write_files(base / "documents", chance)
            asyncio.run(measure(base / "documents", base / "cache", last, chance))
        questions = write_notes(base / "notes", Random(0))
        asyncio.run(measure_recall(base / "notes", base / "cache", questions))


if __name__ == "__main__":
    main()
