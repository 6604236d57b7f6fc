"""The index of one folder on disk, by tantivy."""

import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import tantivy

from activities.retrieval.bounds import SOURCE_BYTES
from activities.retrieval.index.damage import DamagedError, damage
from activities.retrieval.index.manifest import Manifest, read_manifest, write_manifest
from activities.retrieval.index.words import analyzer, searchable
from activities.retrieval.reading.passages import Part
from reflection.run import cut_encoded, encoded_size
from reflection.text import well_formed

WRITER_BYTES = 64_000_000
MANIFEST = "manifest.json"
ANALYZER = "mull"
ID_CHARACTERS = 12


class Stored(NamedTuple):
    """A passage as the index gives it back."""

    id: str
    source: str
    part: Part


def build_schema() -> tantivy.Schema:
    """Describe a passage: what it is found by, and what is given back.

    `copy` is a number of its text, `file` one of its path, `ordinal` its place in the file.
    """
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("key", tokenizer_name="raw", index_option="basic")
    schema.add_text_field("words", tokenizer_name=ANALYZER, index_option="freq")
    schema.add_text_field("name", tokenizer_name=ANALYZER, index_option="freq")
    for number in ("file", "ordinal", "copy"):
        schema.add_unsigned_field(number, fast=True)
    schema.add_bytes_field("record", stored=True)
    return schema.build()


SCHEMA = build_schema()


@dataclass(frozen=True)
class Snapshot:
    """An index as of one commit, which stays as it is. Every method may raise DamagedError.

    It is `torn` where the manifest is of another commit: its writer was ended between the two.
    """

    searcher: tantivy.Searcher
    manifest: Manifest
    generation: object
    torn: bool

    def passage(self, address: tantivy.DocAddress) -> Stored:
        """Read a passage, by the address that this snapshot's searcher gave."""
        with damage():
            record = json.loads(bytes(self.searcher.doc(address)["record"][0]))
            return Stored(record[0], record[1], Part(*record[2:]))


class Store:
    """An index in a folder, opened or made. Every method may raise DamagedError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._meta = path / "meta.json"
        self._manifest = path / MANIFEST
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with damage():
            self._index = tantivy.Index(SCHEMA, str(path))
            self._index.register_tokenizer(ANALYZER, analyzer())
            self._index.config_reader("manual")
        self.snapshot = self._newest()

    def refresh(self) -> None:
        """See what was committed last, by whatever process."""
        if self._generation() != self.snapshot.generation:
            self.snapshot = self._newest()

    def writer(self) -> tantivy.IndexWriter:
        """Begin to write; one process does at a time, which the caller sees to."""
        with damage():
            return self._index.writer(WRITER_BYTES, 1)

    def collect(self) -> None:
        """Take away what a writer that failed has left, if that can be done."""
        with suppress(DamagedError):
            writer = self.writer()
            with damage():
                writer.garbage_collect_files()
                writer.wait_merging_threads()

    def keep(self, manifest: Manifest) -> None:
        """Write the manifest of the newest commit, all at once."""
        new = self._manifest.with_suffix(".new")
        new.write_bytes(write_manifest(manifest, self._commit()))
        new.replace(self._manifest)

    def _newest(self) -> Snapshot:
        generation = self._generation()
        with damage():
            manifest, commit = self._read_manifest()
            self._index.reload()
            searcher = self._index.searcher()
            return Snapshot(searcher, manifest, generation, commit != self._commit())

    def _read_manifest(self) -> tuple[Manifest, int]:
        try:
            return read_manifest(self._manifest.read_bytes())
        except FileNotFoundError:
            return {}, 0

    def _commit(self) -> int:
        return int(json.loads(self._meta.read_bytes())["opstamp"])

    def _generation(self) -> object:
        return _state(self._meta), _state(self._manifest)


def _state(path: Path) -> object:
    try:
        status = os.stat(path)  # noqa: PTH116 - asked for with every search
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def add_passages(writer: tantivy.IndexWriter, path: str, digest: str, parts: list[Part]) -> None:
    """Add a file's passages. Their ids are made of the file's content and their place in it."""
    source = shortened(well_formed(path))
    for ordinal, part in enumerate(parts):
        text = well_formed(part.text)
        record = [f"{digest[:ID_CHARACTERS]}-{ordinal}", source, text, *part[1:]]
        document = tantivy.Document()
        document.add_text("key", file_key(path))
        document.add_text("words", searchable(text))
        document.add_text("name", searchable(source))
        document.add_unsigned("file", number_of(os.fsencode(path)))
        document.add_unsigned("ordinal", ordinal)
        document.add_unsigned("copy", number_of(text.encode()))
        document.add_bytes("record", json.dumps(record).encode())
        writer.add_document(document)


def shortened(source: str) -> str:
    """Keep the end of a path that takes over 1,000 bytes: the file's own name is there."""
    if encoded_size(source) <= SOURCE_BYTES:
        return source
    return "…" + cut_encoded(source[::-1], SOURCE_BYTES - len("…".encode()))[::-1]


def remove_file(writer: tantivy.IndexWriter, path: str) -> None:
    """Take a file's passages out."""
    writer.delete_documents_by_term("key", file_key(path))


def file_key(path: str) -> str:
    """Name a path in the index, whatever its bytes are."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def number_of(content: bytes) -> int:
    """Make a number of 60 bits of a content."""
    return int(hashlib.sha256(content).hexdigest()[:15], 16)


def remove_index(path: Path) -> None:
    """Take a damaged index away."""
    shutil.rmtree(path, ignore_errors=True)
