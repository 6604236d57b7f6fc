"""The index of one folder, by tantivy: its passages, and a record of each file.

The records are a manifest, stored as one more document, so that a commit always has both.

DamagedError        the index can't be opened, read or written: it is built again
"""

import errno
import hashlib
import json
import math
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tantivy
from tantivy import DocAddress, Filter, Occur, Query, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

from activities.documents.formats import format_of, read_document
from activities.documents.passages import Part
from activities.documents.retrieval import Progress
from activities.documents.roots import EXHAUSTED, Found, Signature, UnreadableError, Walked, read
from activities.documents.threads import CheckStopped, StoppedError
from reflection.multipath.state import Passage
from reflection.run import cut_encoded, encoded_size
from reflection.text import well_formed

WRITER_BYTES = 64_000_000
COMMIT_SECONDS = 5.0
ID_CHARACTERS = 12
SOURCE_BYTES = 1_000
ANALYZER = "mull"
# The key of the manifest, which no path's hash is.
MANIFEST = "manifest"

QUERY_CHARACTERS = 100_000
QUERY_TERMS = 64
NAME_WEIGHT = 0.5
# Equals are cut off in no fixed order, so that a search that ends among them is made wider.
SEARCH_WIDTHS = (1_000, 20_000, 1_000_000)
LONGEST_WORD = 60
# Scripts that write no spaces between words: each character is searched as a word.
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
CAMEL_CASE = re.compile(r"\b\w*[a-z0-9][A-Z]\w*\b")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# A signature that no file has, so that the file is looked at again.
NEVER = Signature(-1, 0, 0)
# The coarsest clock of a file system: two changes within it may bear the same time.
YOUNG_NANOSECONDS = 1_000_000_000
LEAST_FREE_BYTES = 16_000_000
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
# How the engine writes the number of a system's error.
ERROR_NUMBER = re.compile(r"\bcode: (\d+)|\(os error (\d+)\)")


class DamagedError(Exception):
    """The index can't be opened, read or written, and must be rebuilt."""


class Entry(NamedTuple):
    """A file as it was read: `reason` says why it could not be, "" where it could.

    `parts` are what was left out of it, each a reason and which part it is.
    """

    signature: Signature
    digest: str
    reason: str = ""
    parts: tuple[tuple[str, str], ...] = ()


Manifest = Mapping[str, Entry]


class Hit(NamedTuple):
    """A passage that was found. Passages with the same `copy` have the same text."""

    score: float
    file: int
    ordinal: int
    copy: int
    address: DocAddress


def _analyzer() -> TextAnalyzer:
    """Build what makes words: lower case, no accents, no English stop words, English stems.

    The stems of other languages' words come out alike in documents and queries.
    """
    return (
        TextAnalyzerBuilder(Tokenizer.simple())
        .filter(Filter.remove_long(LONGEST_WORD))
        .filter(Filter.lowercase())
        .filter(Filter.ascii_fold())
        .filter(Filter.stopword("english"))
        .filter(Filter.stemmer("english"))
        .build()
    )


def _schema() -> tantivy.Schema:
    """Describe a passage: `file` is a number of its path, `copy` of its text, `key` its path's."""
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("key", tokenizer_name="raw", index_option="basic")
    schema.add_text_field("words", tokenizer_name=ANALYZER, index_option="freq")
    schema.add_text_field("name", tokenizer_name=ANALYZER, index_option="freq")
    for number in ("file", "ordinal", "copy"):
        schema.add_unsigned_field(number, fast=True)
    schema.add_bytes_field("record", stored=True)
    return schema.build()


SCHEMA = _schema()
ANALYZE = _analyzer().analyze


@dataclass(frozen=True)
class Snapshot:
    """An index as of one commit, which stays as it is. Every method may raise DamagedError."""

    place: Path
    searcher: tantivy.Searcher
    manifest: Manifest
    generation: object

    def search(self, text: str, most: int) -> list[Hit]:
        """Rank passages of different texts by the words of any text, with BM25, the best first.

        At least `most` are returned where there are as many. Equals come in a fixed order.
        """
        with damage(self.place):
            # Terms are looked up as they are, so that no character of a query is an operator.
            queries = []
            for term in self._terms(text):
                queries.append(Query.term_query(SCHEMA, "words", term, "freq"))
                name = Query.term_query(SCHEMA, "name", term, "freq")
                queries.append(Query.boost_query(name, NAME_WEIGHT))
            if not queries:
                return []
            query = Query.boolean_query([(Occur.Should, term) for term in queries])
            for limit in SEARCH_WIDTHS:
                hits = self._ranked(query, limit)
                found = distinct(hits)
                # The cut must be below what is asked for.
                if len(hits) < limit or (
                    len(found) >= most and found[most - 1].score > hits[-1].score
                ):
                    break
            return found

    def every_passage(self) -> list[Hit]:
        """List passages of different texts in a fixed order."""
        with damage(self.place):
            return distinct(self._ranked(Query.all_query(), self.searcher.num_docs + 1))

    def passage(self, hit: Hit) -> Passage:
        """Read a passage that was found."""
        with damage(self.place):
            return Passage(**_record(self.searcher, hit.address), score=hit.score)

    def _terms(self, text: str) -> list[str]:
        """Choose at most 64 terms: those that are rare in the documents and frequent in the query.

        A term that is in no document is left out.
        """
        counts = Counter(ANALYZE(searchable(well_formed(text[:QUERY_CHARACTERS]))))
        total, weights = self.searcher.num_docs, {}
        for term, count in counts.items():
            found = max(self.searcher.doc_freq(name, term) for name in ("words", "name"))
            if found:
                weights[term] = (1 + math.log(count)) * math.log((total + 1) / found)
        return sorted(weights, key=lambda term: (-weights[term], term))[:QUERY_TERMS]

    def _ranked(self, query: Query, most: int) -> list[Hit]:
        found = self.searcher.search(query, most, count=False).hits
        addresses = [address for _, address in found]
        columns = [
            self.searcher.fast_field_values(name, addresses) for name in ("file", "ordinal", "copy")
        ]
        return ordered(
            Hit(round(score, 6), file, ordinal, copy, address)
            for (score, address), file, ordinal, copy in zip(found, *columns, strict=True)
            if file is not None  # as the manifest's is
        )


class Index:
    """An index in a folder, opened or made. Every method may raise DamagedError, and OSError."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with damage(place):
            self._index = tantivy.Index(SCHEMA, str(place))
            self._index.register_tokenizer(ANALYZER, _analyzer())
            self._index.config_reader("manual")
        self._snapshot: Snapshot | None = None

    def newest(self) -> Snapshot:
        """Return the latest commit, by any process."""
        seen = generation(self.place)
        if self._snapshot is None or self._snapshot.generation != seen:
            with damage(self.place):
                self._index.reload()
                searcher = self._index.searcher()
                self._snapshot = Snapshot(self.place, searcher, _read_manifest(searcher), seen)
        return self._snapshot

    def update(
        self, folder: str, walked: Walked, progress: Progress, check_stopped: CheckStopped
    ) -> Snapshot:
        """Index what is new, and commit every few seconds, so that a kill loses little.

        The caller makes sure that only one process does so at a time.
        """
        with damage(self.place):
            writer = self._index.writer(WRITER_BYTES, 1)
            try:
                writer.garbage_collect_files()  # of a writer that failed, or was killed
                manifest = dict(self.newest().manifest)
                _Update(writer, folder, manifest, check_stopped).run(walked, progress)
            finally:
                # Without this the writer holds the index's lock until it is garbage collected.
                writer.wait_merging_threads()
        return self.newest()


@dataclass
class _Update:
    """One update of an index, and the manifest that it makes."""

    writer: tantivy.IndexWriter
    folder: str
    manifest: dict[str, Entry]
    check_stopped: CheckStopped

    def run(self, walked: Walked, progress: Progress) -> None:
        """Bring the index to the state of the files."""
        for path in self.manifest.keys() - {found.path for found in walked.files}:
            self._forget(path)
        news = changed(walked, self.manifest)
        total = len(walked.files)
        known, committed = total - len(news), time.monotonic()
        for done, found in enumerate(news):
            self.check_stopped()
            progress(known + done, total)
            self._take_in(found)
            if time.monotonic() - committed > COMMIT_SECONDS:
                self._commit()
                committed = time.monotonic()
        progress(total, total)
        self._commit()

    def _take_in(self, found: Found) -> None:
        # A file that was just written may change again unseen: it is looked at once more.
        written = max(found.signature.modified, found.signature.changed)
        young = time.time_ns() - written < YOUNG_NANOSECONDS
        signature = NEVER if young else found.signature
        old = self.manifest.get(found.path)
        left_out: list[tuple[str, str]] = []
        try:
            content = read(found, self.folder)
            # A file's name decides how it is read.
            form = format_of(found.path, content).encode()
            digest = hashlib.sha256(form + b"\0" + content).hexdigest()[:32]
            if old is not None and old.digest == digest:
                self.manifest[found.path] = old._replace(signature=signature)
                return
            parts = read_document(
                found.path,
                content,
                self.check_stopped,
                lambda why, part: left_out.append((why, part)),
            )
        except UnreadableError as error:
            entry, parts = Entry(signature, "", str(error)), []
        else:
            entry = Entry(signature, digest, parts=tuple(left_out))
        if old is not None:
            self._forget(found.path)
        self._add(found.path, entry.digest, parts)
        self.manifest[found.path] = entry

    def _add(self, path: str, digest: str, parts: Sequence[Part]) -> None:
        """Add a file's passages. Their ids are made of the file's content and their place in it."""
        source = shortened(well_formed(path))
        for ordinal, part in enumerate(parts):
            text = well_formed(part.text)
            document = tantivy.Document()
            document.add_text("key", _key(path))
            document.add_text("words", searchable(text))
            document.add_text("name", searchable(source))
            document.add_unsigned("file", _number(os.fsencode(path)))
            document.add_unsigned("ordinal", ordinal)
            document.add_unsigned("copy", _number(text.encode()))
            name = f"{digest[:ID_CHARACTERS]}-{ordinal}"
            record = {**part._asdict(), "id": name, "source": source, "text": text}
            document.add_bytes("record", json.dumps(record).encode())
            self.writer.add_document(document)

    def _commit(self) -> None:
        self.writer.delete_documents_by_term("key", MANIFEST)
        document = tantivy.Document()
        document.add_text("key", MANIFEST)
        # In ASCII, which holds any file's name.
        document.add_bytes("record", json.dumps(self.manifest).encode("ascii"))
        self.writer.add_document(document)
        self.writer.commit()

    def _forget(self, path: str) -> None:
        self.writer.delete_documents_by_term("key", _key(path))
        del self.manifest[path]


def generation(place: Path) -> object:
    """Return a value that identifies a commit of an index; None if there is none."""
    with suppress(OSError):
        status = (place / "meta.json").stat()
        return status.st_ino, status.st_mtime_ns, status.st_size
    return None


def changed(walked: Walked, manifest: Manifest) -> list[Found]:
    """List the files to read: new ones, and those whose signature has changed."""
    return [
        found
        for found in walked.files
        if (entry := manifest.get(found.path)) is None or entry.signature != found.signature
    ]


def differs(walked: Walked, manifest: Manifest) -> bool:
    """Return True if any file is new, gone, or may have changed."""
    return len(walked.files) != len(manifest) or bool(changed(walked, manifest))


def ordered(hits: Iterable[Hit]) -> list[Hit]:
    """Rank by score, equals in a fixed order."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.file, hit.ordinal))


def distinct(ranking: Sequence[Hit]) -> list[Hit]:
    """Keep the first of the passages that have the same text."""
    return list({hit.copy: hit for hit in reversed(ranking)}.values())[::-1]


def searchable(text: str) -> str:
    """Add what the analyzer would not find: the words of camelCase, and those without spaces."""
    if not text.isascii():
        text = UNSPACED.sub(r" \g<0> ", text)
    joined = CAMEL_CASE.findall(text) if HUMP.search(text) else []
    return " ".join([text, *(HUMP.sub(" ", word) for word in joined)]) if joined else text


def shortened(source: str) -> str:
    """Keep the end of a path that takes over 1,000 bytes: the file's own name is there."""
    if encoded_size(source) <= SOURCE_BYTES:
        return source
    return "…" + cut_encoded(source[::-1], SOURCE_BYTES - len("…".encode()))[::-1]


def _read_manifest(searcher: tantivy.Searcher) -> Manifest:
    found = searcher.search(Query.term_query(SCHEMA, "key", MANIFEST, "basic"), 1).hits
    record = _record(searcher, found[0][1]) if found else {}
    return {
        path: Entry(Signature(*signature), digest, reason, tuple((why, of) for why, of in parts))
        for path, (signature, digest, reason, parts) in record.items()
    }


def _record(searcher: tantivy.Searcher, address: DocAddress) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(bytes(searcher.doc(address)["record"][0]))
    return record


def _key(path: str) -> str:
    """Name a path in the index, whatever its bytes are."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def _number(content: bytes) -> int:
    """Make a number of 60 bits of a content."""
    return int(hashlib.sha256(content).hexdigest()[:15], 16)


@contextmanager
def damage(place: Path) -> Iterator[None]:
    """Turn whatever tantivy raises, its panics too, into DamagedError; or OSError.

    The latter where the process may open no more files, or the disk is full or read-only. The
    engine's own threads tell nobody of that, so that the room on the disk is looked at.
    """
    try:
        yield
    except (DamagedError, StoppedError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        said = ERROR_NUMBER.search(str(error))
        number = int(said[1] or said[2]) if said else getattr(error, "errno", None)
        if number not in EXHAUSTED | UNWRITABLE:
            full = place.exists() and shutil.disk_usage(place).free < LEAST_FREE_BYTES
            if not full:
                raise DamagedError(str(error)) from error
            number = errno.ENOSPC
        raise OSError(number, os.strerror(number)) from error
