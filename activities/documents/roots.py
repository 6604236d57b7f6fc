"""The folders that the operator allows, which of their files are read, and opening them safely.

UnreadableError     a file, or a part of it, can't be read
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple, Self

from activities.documents.retrieval import RetrievalError
from activities.documents.threads import CheckStopped
from reflection.text import terminal_safe

VARIABLE = "MULL_DOCUMENTS"
FILE_BYTES = 20_000_000
FOLDER_FILES = 50_000
FOLDER_BYTES = 500_000_000
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
# Binary formats: they have no text, and would use up the limit on what is read.
BINARY = tuple(
    ".7z .a .avi .avif .bin .bmp .bz2 .class .db .dll .dylib .eot .exe .flac .gif .gz .heic .ico "  # noqa: SIM905 - a column of sixty strings says no more
    ".iso .jar .jpeg .jpg .m4a .mkv .mov .mp3 .mp4 .npy .npz .o .ogg .onnx .otf .parquet .pkl .png "
    ".pt .pyc .rar .safetensors .so .sqlite .sqlite3 .tar .tgz .tif .tiff .ttf .wasm .wav .webm "
    ".webp .whl .woff .woff2 .xz .zip .zst".split()
)
TOO_LARGE = f"over {FILE_BYTES // 1_000_000} MB"
# The process or the machine has run out of a resource: the file is not the cause.
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class UnreadableError(Exception):
    """A file can't be read; the text says why, in a few words that follow a count of files."""


class Roots:
    """The folders that may be searched, with everything below them that is not hidden."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [folder for folder in folders if folder]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read MULL_DOCUMENTS: paths joined by the system's path separator."""
        return cls(environment.get(VARIABLE, "").split(os.pathsep))

    def resolve(self, docs: str) -> str:
        """Return the real path of an allowed folder; a relative one is looked for under each root.

        Raises RetrievalError, which shows no path other than the folder as it was given.
        """
        name = quoted(docs)
        if not self._folders:
            raise RetrievalError(
                f"no folder may be searched: set {VARIABLE}, where the worker runs, to the folders "
                "that it may read"
            )
        below = self._candidates(docs)
        if not below:
            raise RetrievalError(
                f"the folder {name} is not under one that {VARIABLE} allows on the worker"
            )
        allowed = [path for path, visible in below.items() if visible]
        if not allowed:
            raise RetrievalError(
                f"the folder {name} is hidden, or holds installed packages: neither is searched"
            )
        for path in filter(os.path.isdir, allowed):
            if not os.access(path, os.R_OK | os.X_OK):
                raise RetrievalError(f"the folder {name} can't be read: permission denied")
            return path
        if any(map(os.path.lexists, allowed)):
            raise RetrievalError(f"{name} is a file: name the folder that it is in")
        raise RetrievalError(f"the worker has no folder {name}")

    def _candidates(self, docs: str) -> dict[str, bool]:
        """Return the real paths below the roots, and whether each is visible.

        Existence is not checked, so that a refusal does not reveal it.
        """
        try:
            roots = [os.path.realpath(folder) for folder in self._folders]
            asked = [os.path.join(root, docs) for root in roots]  # noqa: PTH118 - pathlib keeps no `..` as realpath needs it
            paths = {os.path.realpath(path): os.path.normpath(path) for path in asked}
        except (OSError, ValueError):
            return {}

        def visible(path: str) -> bool:
            # A root itself may be hidden, since the operator has named it.
            return any(_within(path, root) and not _hidden(path, root) for root in roots)

        def below(path: str) -> bool:
            return any(_within(path, root) for root in roots)

        return {
            real: visible(real) and (visible(path) or not below(path))
            for real, path in paths.items()
            if below(real)
        }


def quoted(docs: str) -> str:
    """Quote a folder's name as it was given, on one line."""
    return f'"{terminal_safe(docs, 200)}"'


class Signature(NamedTuple):
    """What changes when a file changes: its size, and two times in nanoseconds since 1970."""

    size: int
    modified: int
    changed: int


class Found(NamedTuple):
    """A file: its path in the folder, as the system reports it, and its real path."""

    path: str
    real: str
    signature: Signature


@dataclass
class Walked:
    """The readable files of a folder, in order, and the paths of the others by reason."""

    files: list[Found] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, path: str) -> None:
        """Record a file that is not read."""
        self.left_out.setdefault(reason, []).append(path)


def walk(folder: str, check_stopped: CheckStopped) -> Walked:
    """List the files under a real path, without hidden ones and installed packages.

    Links are followed where they lead to something in the folder that is neither. Raises
    UnreadableError where the folder itself can't be read, and OSError where the worker can open
    nothing at all.
    """
    walked = Walked()
    waiting, linked, seen = [("", folder)], list[tuple[str, str]](), set[str]()
    while waiting or linked:
        # Real folders go first, so that a file is named by its own path.
        inner, parent = waiting.pop() if waiting else linked.pop(0)
        if parent in seen:
            continue
        seen.add(parent)
        check_stopped()
        for entry in _entries(inner, parent, walked):
            path, real = f"{inner}/{entry.name}" if inner else entry.name, f"{parent}/{entry.name}"
            try:
                if link := entry.is_symlink():
                    real = os.path.realpath(entry.path, strict=True)
                    if reason := _misleading(real, folder):
                        walked.leave_out(reason, path)
                        continue
                if entry.is_dir():
                    (linked if link else waiting).append((path, real))
                    continue
                status = entry.stat()
                if reason := _unread(path, status):
                    walked.leave_out(reason, path)
                else:
                    signature = Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                    walked.files.append(Found(path, real, signature))
            except OSError as error:
                _raise_exhausted(error)
                walked.leave_out("can't be read", path)
    return _bounded(walked)


def _entries(inner: str, real: str, walked: Walked) -> Iterator["os.DirEntry[str]"]:
    try:
        with os.scandir(real) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        _raise_exhausted(error)
        if not inner:
            raise UnreadableError((error.strerror or "no reason is known").lower()) from None
        walked.leave_out("folders that can't be read", inner)
        return
    yield from (entry for entry in entries if entry.name[0] != "." and entry.name not in SKIPPED)


def _unread(path: str, status: os.stat_result) -> str | None:
    """Return why a file is not read, or None."""
    if not stat.S_ISREG(status.st_mode):
        return "no files"
    if status.st_size > FILE_BYTES:
        return TOO_LARGE
    return "no text" if path.lower().endswith(BINARY) else None


def _bounded(walked: Walked) -> Walked:
    # The first files by path are kept, up to the limits of a folder.
    found, walked.files, size = walked.files, [], 0
    for file in sorted(found, key=lambda file: os.fsencode(file.path)):
        size += file.signature.size
        if size > FOLDER_BYTES or len(walked.files) >= FOLDER_FILES:
            walked.leave_out("beyond what is searched of one folder", file.path)
        else:
            walked.files.append(file)
    return walked


def read(found: Found, folder: str) -> bytes:
    """Read a file, if it is still in the folder.

    Raises UnreadableError, and OSError where the worker can read no file at all.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(found.real, flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnreadableError("no files")
            # A parent folder may have become a link since the walk.
            with suppress(FileNotFoundError):
                real = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - of strings
                if reason := _misleading(real, folder):
                    raise UnreadableError(reason)
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        _raise_exhausted(error)
        raise UnreadableError("can't be read") from None
    if len(content) > FILE_BYTES:
        raise UnreadableError(TOO_LARGE)
    return content


def _raise_exhausted(error: OSError) -> None:
    if error.errno in EXHAUSTED:
        raise error


def _misleading(real: str, folder: str) -> str | None:
    """Return why a link to this real path is not followed, or None."""
    if not _within(real, folder):
        return "links that lead out"
    return "links to what is hidden or installed" if _hidden(real, folder) else None


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _hidden(path: str, folder: str) -> bool:
    """Return True if any part of a path in a folder begins with a dot or is a package folder."""
    parts = PurePath(os.path.relpath(path, folder)).parts
    return any(part.startswith(".") or part in SKIPPED for part in parts)
