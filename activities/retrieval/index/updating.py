"""Bringing an index to the state of its folder: changed, new and gone files."""

import errno
import hashlib
import time
from dataclasses import dataclass, field

import tantivy

from activities.documents import Progress
from activities.retrieval.bounds import COMMIT_SECONDS
from activities.retrieval.index.damage import DamagedError, damage, unwritable
from activities.retrieval.index.manifest import NEVER, Entry, Manifest, is_news
from activities.retrieval.index.store import Store, add_passages, remove_file
from activities.retrieval.index.walk import Found, Signature, Walked, read
from activities.retrieval.reading.documents import format_of, read_document
from activities.retrieval.reading.lines import UnreadableError
from activities.retrieval.threads import Going

# The coarsest clock of a file system: two changes within it may bear the same time.
YOUNG_NANOSECONDS = 1_000_000_000


@dataclass
class Update:
    """One update of an index. `going` is called often, and may raise to give it up."""

    store: Store
    folder: str
    progress: Progress
    going: Going
    _manifest: Manifest = field(default_factory=dict)
    _dirty: bool = False

    def run(self, walked: Walked) -> None:
        """Read what is news, and commit it; every few seconds too, so that little is lost.

        Raises DamagedError, and OSError where nothing more can be written: what there was stays.
        """
        try:
            self._write(walked)
        except DamagedError as error:
            if reason := unwritable(error, self.store.path):
                self.store.collect()
                raise OSError(errno.ENOSPC, reason) from None
            raise
        self.store.refresh()

    def _write(self, walked: Walked) -> None:
        writer = self.store.writer()
        try:
            with damage():
                self._apply(writer, walked)
        finally:
            # Without this the writer keeps the index until it is garbage.
            with damage():
                writer.wait_merging_threads()

    def _apply(self, writer: tantivy.IndexWriter, walked: Walked) -> None:
        if self.store.snapshot.torn:
            writer.delete_all_documents()
            self._dirty = True
        else:
            self._manifest = dict(self.store.snapshot.manifest)
        present = {found.path for found in walked.files}
        for path in self._manifest.keys() - present:
            self._forget(writer, path)
        news = [found for found in walked.files if is_news(found, self._manifest.get(found.path))]
        self._take_in(writer, news, len(walked.files))
        self._commit(writer)

    def _take_in(self, writer: tantivy.IndexWriter, news: list[Found], total: int) -> None:
        known = total - len(news)
        committed = time.monotonic()
        for done, found in enumerate(news):
            self.going()
            self.progress(known + done, total)
            self._look_at(writer, found)
            if time.monotonic() - committed > COMMIT_SECONDS:
                self._commit(writer)
                committed = time.monotonic()
        self.progress(total, total)

    def _look_at(self, writer: tantivy.IndexWriter, found: Found) -> None:
        old = self._manifest.get(found.path)
        try:
            content = read(found, self.folder)
            digest = _digest(found.path, content)
            if old is None or old.digest != digest:
                self._replace(writer, found, digest, content, old)
            else:
                self._manifest[found.path] = old._replace(signature=_signature(found))
        except UnreadableError as error:
            if old is not None:
                self._forget(writer, found.path)
            self._manifest[found.path] = Entry(_signature(found), "", str(error))

    def _replace(
        self,
        writer: tantivy.IndexWriter,
        found: Found,
        digest: str,
        content: bytes,
        old: Entry | None,
    ) -> None:
        left_out: list[tuple[str, str]] = []
        parts = read_document(
            found.path, content, self.going, lambda why, part: left_out.append((why, part))
        )
        if old is not None:
            self._forget(writer, found.path)
        add_passages(writer, found.path, digest, parts)
        self._dirty = True
        self._manifest[found.path] = Entry(_signature(found), digest, parts=tuple(left_out))

    def _forget(self, writer: tantivy.IndexWriter, path: str) -> None:
        remove_file(writer, path)
        self._dirty = True
        del self._manifest[path]

    def _commit(self, writer: tantivy.IndexWriter) -> None:
        if self._dirty:
            writer.commit()
            self._dirty = False
        self.store.keep(self._manifest)


def _digest(path: str, content: bytes) -> str:
    """Tell contents apart, and how they are read, which a file's name decides too."""
    return hashlib.sha256(format_of(path, content).encode() + b"\0" + content).hexdigest()[:32]


def _signature(found: Found) -> Signature:
    """A file that was just written may change again unseen: it is looked at once more."""
    written = max(found.signature.modified, found.signature.changed)
    return NEVER if time.time_ns() - written < YOUNG_NANOSECONDS else found.signature
