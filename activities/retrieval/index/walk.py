"""Which files of a folder are read, and opening them so that nothing leads out."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from activities.retrieval.bounds import FILE_BYTES, FOLDER_BYTES, FOLDER_FILES
from activities.retrieval.index.damage import EXHAUSTED
from activities.retrieval.reading.lines import UnreadableError
from activities.retrieval.roots import SKIPPED, hidden, within
from activities.retrieval.threads import Going

# They are no text, and would use up what is read in all.
BINARY = tuple(
    ".7z .a .avi .avif .bin .bmp .bz2 .class .db .dll .dylib .eot .exe .flac .gif .gz .heic .ico "  # noqa: SIM905 - a column of sixty strings says no more
    ".iso .jar .jpeg .jpg .m4a .mkv .mov .mp3 .mp4 .npy .npz .o .ogg .onnx .otf .parquet .pkl .png "
    ".pt .pyc .rar .safetensors .so .sqlite .sqlite3 .tar .tgz .tif .tiff .ttf .wasm .wav .webm "
    ".webp .whl .woff .woff2 .xz .zip .zst".split()
)
OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Signature(NamedTuple):
    """What changes when a file does: its bytes, and two times in nanoseconds since 1970."""

    size: int
    modified: int
    changed: int


class Found(NamedTuple):
    """A file: its path in the folder, as the system gives it, and its real path."""

    path: str
    real: str
    signature: Signature


@dataclass
class Walked:
    """The files of a folder that may be read, in order; the others' paths by the reason why not."""

    files: list[Found] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, path: str) -> None:
        """Note a file that is not read."""
        self.left_out.setdefault(reason, []).append(path)


def walk(folder: str, going: Going) -> Walked:
    """List the files under a real path; hidden ones and installed packages are not documents.

    Links are followed where they lead to something in the folder that is neither. `going` is
    called for each folder, and may raise. Raises UnreadableError where the folder itself can't be
    read, and OSError where the worker can open nothing at all.
    """
    walked = Walked()
    waiting = [("", folder)]
    linked: list[tuple[str, str]] = []
    seen: set[str] = set()
    while waiting or linked:
        # Real folders go first, so that a file is named by its own path.
        inner, real = waiting.pop() if waiting else linked.pop(0)
        if real in seen:
            continue
        seen.add(real)
        going()
        for entry in _entries(inner, real, walked):
            _sort_in(entry, folder, (inner, real), walked, waiting, linked)
    return _bounded(walked)


def _entries(inner: str, real: str, walked: Walked) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(real) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        if not inner:
            raise UnreadableError((error.strerror or "no reason is known").lower()) from None
        walked.leave_out("folders that can't be read", inner)
        return
    yield from (each for each in entries if each.name[0] != "." and each.name not in SKIPPED)


def _sort_in(
    entry: os.DirEntry[str],
    folder: str,
    place: tuple[str, str],
    walked: Walked,
    waiting: list[tuple[str, str]],
    linked: list[tuple[str, str]],
) -> None:
    path = f"{place[0]}/{entry.name}" if place[0] else entry.name
    try:
        if not entry.is_symlink():
            real = f"{place[1]}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append((path, real))
            else:
                _take(path, real, entry.stat(follow_symlinks=False), walked)
            return
        real = os.path.realpath(entry.path, strict=True)
        if reason := _misleading(real, folder):
            walked.leave_out(reason, path)
        elif entry.is_dir():
            linked.append((path, real))
        else:
            _take(path, real, entry.stat(), walked)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        walked.leave_out("can't be read", path)


def _misleading(real: str, folder: str) -> str | None:
    if not within(real, folder):
        return "links that lead out"
    return "links to what is hidden or installed" if hidden(real, folder) else None


def _take(path: str, real: str, status: os.stat_result, walked: Walked) -> None:
    if not stat.S_ISREG(status.st_mode):
        walked.leave_out("no files", path)
    elif status.st_size > FILE_BYTES:
        walked.leave_out(f"over {FILE_BYTES // 1_000_000} MB", path)
    elif path.lower().endswith(BINARY):
        walked.leave_out("no text", path)
    else:
        signature = Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        walked.files.append(Found(path, real, signature))


def _bounded(walked: Walked) -> Walked:
    """Keep what the first files in order of their paths come to."""
    walked.files.sort(key=lambda found: os.fsencode(found.path))
    kept: list[Found] = []
    room = FOLDER_BYTES
    for found in walked.files:
        room -= found.signature.size
        if room < 0 or len(kept) >= FOLDER_FILES:
            walked.leave_out("beyond what is searched of one folder", found.path)
        else:
            kept.append(found)
    walked.files = kept
    return walked


def read(found: Found, folder: str) -> bytes:
    """Read a file, if it still is one of the folder.

    Raises UnreadableError, and OSError where the worker can read no file at all.
    """
    try:
        descriptor = os.open(found.real, OPENED)
        try:
            content = _content(descriptor, folder)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        raise UnreadableError("can't be read") from None
    if len(content) > FILE_BYTES:
        raise UnreadableError(f"over {FILE_BYTES // 1_000_000} MB")
    return content


def _content(descriptor: int, folder: str) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise UnreadableError("no files")
    # A folder on the way may have been changed into a link since it was looked at.
    with suppress(FileNotFoundError):
        real = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - of strings
        if reason := _misleading(real, folder):
            raise UnreadableError(reason)
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(FILE_BYTES + 1)
