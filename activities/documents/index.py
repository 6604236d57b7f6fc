"""The index of one folder, in one SQLite file: a record of each file, and its passages.

Its functions raise sqlite3.Error: `lacks_resources` tells a full disk, say, from a damaged file.
"""

import hashlib
import json
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from activities.documents.formats import format_of, read_document
from activities.documents.retrieval import CheckStopped, Progress
from activities.documents.roots import Found, UnreadableError, Walked, read_bytes
from mull.multipath.parts import Passage
from mull.text import cut_encoded, encoded_size, well_formed

# A passage's row is its file's row times this, and its number in the file.
ROWS = 1 << 20
TABLES = """
CREATE TABLE IF NOT EXISTS files (
    id INTEGER PRIMARY KEY, path BLOB UNIQUE, signature, digest, left_out
);
CREATE VIRTUAL TABLE IF NOT EXISTS passages USING fts5(
    first_line UNINDEXED, last_line UNINDEXED, page UNINDEXED, text, parts, name,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
"""
# The words of a file's name count half.
RANKED = """
SELECT passages.rowid, bm25(passages, 0, 0, 0, 1, 1, 0.5) AS score, path, digest
FROM passages JOIN files ON files.id = passages.rowid / 1048576
WHERE passages MATCH ? ORDER BY score, path, passages.rowid
"""
# A query of its own, so that sorting thousands of passages does not carry their texts.
READ = "SELECT first_line, last_line, page, text FROM passages WHERE rowid = ?"
CACHE_KILOBYTES = 64_000
# How long to wait for another process that commits.
BUSY_SECONDS = 30.0
COMMIT_SECONDS = 5.0
ID_CHARACTERS = 12
SOURCE_BYTES = 1_000

QUERY_CHARACTERS = 100_000
QUERY_WORDS = 64
CONSIDERED_WORDS = 2_000
# For one query. Beyond that, leave out the words that are in most passages: they say least about
# where an answer is, and take longest.
SCORED_PASSAGES = 10_000
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then "  # noqa: SIM905 - a column of thirty strings says no more
    "there these they this to was will with".split()
)
WORD = re.compile(r"[^\W_]+")
# Scripts that write no spaces between words: each character is searched as a word.
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
CAMEL_CASE = re.compile(r"\b\w*[a-z0-9][A-Z]\w*\b")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# The coarsest clock of a file system: two changes within it may have the same time.
YOUNG_NANOSECONDS = 1_000_000_000
# The machine lacks something, or another process holds it: the file itself is not damaged.
LACKING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)


def lacks_resources(error: sqlite3.Error) -> bool:
    """Return True if the machine caused an error; otherwise the index is damaged."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in LACKING


@contextmanager
def opened(place: Path) -> Iterator[sqlite3.Connection]:
    """Open an index, or make it. Changes that are not committed at the end are undone."""
    with closing(sqlite3.connect(place, BUSY_SECONDS)) as database:
        database.execute(f"PRAGMA cache_size = -{CACHE_KILOBYTES}")
        database.executescript(TABLES)
        yield database


class Entry(NamedTuple):
    """A file when it was read: its row, its signature then, and a digest of its content."""

    id: int
    signature: str
    digest: str


def _entries(database: sqlite3.Connection) -> dict[str, Entry]:
    rows = database.execute("SELECT path, id, signature, digest FROM files")
    return {os.fsdecode(path): Entry(*entry) for path, *entry in rows}


def is_current(database: sqlite3.Connection, walked: Walked) -> bool:
    """Return True if the index has these files, all unchanged."""
    known = {path: entry.signature for path, entry in _entries(database).items()}
    return known == {found.path: found.signature for found in walked.files}


def update(
    database: sqlite3.Connection,
    folder: str,
    walked: Walked,
    progress: Progress,
    check_stopped: CheckStopped,
) -> None:
    """Index new and changed files, and commit every few seconds, so that a kill loses little.

    The caller ensures that only one process does this at a time.
    """
    known = _entries(database)
    for path in known.keys() - {found.path for found in walked.files}:
        _forget(database, known[path])
    pairs = [(found, known.get(found.path, Entry(0, "", ""))) for found in walked.files]
    news = [(found, old) for found, old in pairs if found.signature != old.signature]
    committed = time.monotonic()
    for done, (found, old) in enumerate(news, len(pairs) - len(news)):
        check_stopped()
        progress(done, len(pairs))
        _index_file(database, folder, found, old, check_stopped)
        if time.monotonic() - committed > COMMIT_SECONDS:
            database.commit()
            committed = time.monotonic()
    progress(len(pairs), len(pairs))
    database.commit()


def _index_file(
    database: sqlite3.Connection, folder: str, found: Found, old: Entry, check_stopped: CheckStopped
) -> None:
    # A file that was just written may change again unseen: read it once more the next time.
    signature = "" if time.time_ns() - found.written < YOUNG_NANOSECONDS else found.signature
    left_out: list[tuple[str, str]] = []
    try:
        content = read_bytes(found.path, folder)
        # A file's name decides how it is read.
        form = format_of(found.path, content).encode()
        digest = hashlib.sha256(form + b"\0" + content).hexdigest()[:32]
        if digest == old.digest:
            database.execute("UPDATE files SET signature = ? WHERE id = ?", [signature, old.id])
            return
        parts = read_document(
            found.path, content, check_stopped, lambda why, part: left_out.append((why, part))
        )
    except UnreadableError as error:
        digest, parts, left_out = "", [], [(str(error), "")]
    _forget(database, old)
    entry = [os.fsencode(found.path), signature, digest, json.dumps(left_out)]
    row = database.execute("INSERT INTO files VALUES (NULL, ?, ?, ?, ?)", entry).lastrowid or 0
    name = source_of(found.path)
    name = f"{name} {_word_parts(name)}"
    for ordinal, part in enumerate(parts, row * ROWS):
        text = well_formed(part.text)
        place = [ordinal, part.first_line, part.last_line, part.page]
        database.execute(
            "INSERT INTO passages (rowid, first_line, last_line, page, text, parts, name) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [*place, text, _word_parts(text), name],
        )


def _forget(database: sqlite3.Connection, entry: Entry) -> None:
    rows = [entry.id * ROWS, (entry.id + 1) * ROWS - 1]
    database.execute("DELETE FROM passages WHERE rowid BETWEEN ? AND ?", rows)
    database.execute("DELETE FROM files WHERE id = ?", [entry.id])


def search(database: sqlite3.Connection, prompt: str, most: int) -> list[Passage]:
    """Rank passages of different texts by the words of any prompt, with BM25, the best first.

    Equals come in a fixed order.
    """
    # See one state of the index, even if another process commits meanwhile.
    database.execute("BEGIN")
    # In quotes, so that the characters of a prompt are not read as operators.
    query = " OR ".join(f'"{word}"' for word in _query_words(database, prompt))
    found: dict[str, Passage] = {}
    for row, score, path, digest in database.execute(RANKED, [query]) if query else ():
        first, last, page, text = database.execute(READ, [row]).fetchone()
        passage = Passage(
            id=f"{digest[:ID_CHARACTERS]}-{row % ROWS}",
            source=source_of(os.fsdecode(path)),
            first_line=first,
            last_line=last,
            score=round(-score, 9),
            text=text,
            page=page,
        )
        found.setdefault(text, passage)
        if len(found) == most:
            break
    return list(found.values())


def _query_words(database: sqlite3.Connection, prompt: str) -> list[str]:
    """Choose at most 64 words: those that are rare in the documents and frequent in the prompt.

    Together they are in about 10,000 passages at most.
    """
    text = well_formed(prompt[:QUERY_CHARACTERS])
    words = Counter(word.lower() for word in WORD.findall(f"{text} {_word_parts(text)}"))
    for word in STOP_WORDS:
        del words[word]
    counted = "SELECT count(*) FROM (SELECT 1 FROM passages WHERE passages MATCH ? LIMIT ?)"
    counts = {
        word: database.execute(counted, [f'"{word}"', SCORED_PASSAGES]).fetchone()[0]
        for word, _ in words.most_common(CONSIDERED_WORDS)
    }
    found = sorted(
        (word for word in counts if counts[word]), key=lambda w: (counts[w] / words[w], w)
    )
    chosen: list[str] = []
    scored = 0
    for word in found[:QUERY_WORDS]:
        scored += counts[word]
        if chosen and scored > SCORED_PASSAGES:
            break
        chosen.append(word)
    return chosen


def source_of(path: str) -> str:
    """Show a path; of a path of over 1,000 bytes, show the end, which has the file's own name."""
    source = well_formed(path)
    if encoded_size(source) <= SOURCE_BYTES:
        return source
    return "…" + cut_encoded(source[::-1], SOURCE_BYTES - len("…".encode()))[::-1]


def _word_parts(text: str) -> str:
    """List the words that SQLite does not see: in camelCase, and in scripts without spaces."""
    parts = [] if text.isascii() else UNSPACED.findall(text)
    if HUMP.search(text):
        parts += [HUMP.sub(" ", word) for word in CAMEL_CASE.findall(text)]
    return " ".join(parts)
