"""The folders that the operator allows, their readable files, and how to open these safely.

UnreadableError     a file, or a part of it, can't be read
"""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple, Self

from activities.documents.retrieval import CheckStopped, RetrievalError
from mull.text import terminal_safe

VARIABLE = "MULL_DOCUMENTS"
FILE_BYTES = 20_000_000
FOLDER_FILES = 50_000
FOLDER_BYTES = 500_000_000
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
# Binary formats: they have no text, and would use up a folder's limits.
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
        """Return the real path of an allowed folder; look for a relative path under each root.

        Raises RetrievalError, which shows only the path that was given.
        """
        name = folder_words(docs)
        if not self._folders:
            raise RetrievalError(
                f"no folder may be searched: set {VARIABLE}, where the worker runs, to the folders "
                "that it may read"
            )
        below = self._below(docs)
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
        raise RetrievalError(f"there is no folder {name} on the worker's machine")

    def _below(self, docs: str) -> dict[str, bool]:
        """Return the real paths below the roots that a name may mean, and whether each is visible.

        Do not check that they exist, so that a refusal does not reveal it.
        """
        try:
            roots = [os.path.realpath(folder) for folder in self._folders]
            asked = [os.path.join(root, docs) for root in roots]  # noqa: PTH118 - pathlib keeps no `..` as realpath needs it
            paths = {os.path.realpath(path): os.path.normpath(path) for path in asked}
        except (OSError, ValueError):
            return {}

        def hidden(path: str) -> bool:
            above = [root for root in roots if _within(path, root)]
            # A root itself may be hidden, since the operator has named it.
            return bool(above) and all(_hidden(path, root) for root in above)

        return {
            real: not hidden(real) and not hidden(path)
            for real, path in paths.items()
            if any(_within(real, root) for root in roots)
        }


def folder_words(docs: str) -> str:
    """Quote a folder's name as it was given, on one line."""
    return f'"{terminal_safe(docs, 200)}"'


class Found(NamedTuple):
    """A file by its path in the folder, as the system reports it, with its size in bytes.

    The `signature` changes when the file does. `written` is in nanoseconds since 1970.
    """

    path: str
    size: int
    written: int
    signature: str


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

    Links are not followed: their targets in the folder are listed by their own paths. Raises
    UnreadableError if the folder itself can't be read, and OSError if the worker can't open any
    file.
    """
    walked, waiting = Walked(), [""]
    while waiting:
        inner = waiting.pop()
        check_stopped()
        try:
            with os.scandir(os.path.join(folder, inner)) as entries:  # noqa: PTH118 - of strings
                shown = [entry for entry in entries if not _is_hidden_name(entry.name)]
        except OSError as error:
            _raise_exhausted(error)
            if not inner:
                said = (error.strerror or "no reason is known").lower()
                raise UnreadableError(said) from None
            walked.leave_out("folders that can't be read", inner)
            continue
        for entry in shown:
            path = f"{inner}/{entry.name}" if inner else entry.name
            try:
                if entry.is_symlink():
                    if reason := misleading(os.path.realpath(entry.path, strict=True), folder):
                        walked.leave_out(reason, path)
                elif entry.is_dir():
                    waiting.append(path)
                else:
                    _list_file(path, entry.stat(), walked)
            except OSError as error:
                _raise_exhausted(error)
                walked.leave_out("can't be read", path)
    return _bounded(walked)


def _bounded(walked: Walked) -> Walked:
    # Keep the first files by path, up to the limits of a folder.
    found, walked.files, size = walked.files, [], 0
    for file in sorted(found, key=lambda file: os.fsencode(file.path)):
        size += file.size
        if size > FOLDER_BYTES or len(walked.files) >= FOLDER_FILES:
            walked.leave_out("beyond the limits of one folder", file.path)
        else:
            walked.files.append(file)
    return walked


def _list_file(path: str, status: os.stat_result, walked: Walked) -> None:
    if not stat.S_ISREG(status.st_mode):
        walked.leave_out("not regular files", path)
    elif status.st_size > FILE_BYTES:
        walked.leave_out(TOO_LARGE, path)
    elif path.lower().endswith(BINARY):
        walked.leave_out("no text", path)
    else:
        size, modified, changed = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        signature = f"{size} {modified} {changed}"
        walked.files.append(Found(path, size, max(modified, changed), signature))


def read_bytes(path: str, folder: str) -> bytes:
    """Read a file by its path in a folder, if it is still there and does not lead out.

    Raises UnreadableError, and OSError if the worker can't read any file.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(os.path.join(folder, path), flags)  # noqa: PTH118 - of strings
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnreadableError("not regular files")
            # A parent folder may have become a link since the walk.
            with suppress(FileNotFoundError):
                real = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - of strings
                if reason := misleading(real, folder):
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


def misleading(real: str, folder: str) -> str | None:
    """Return why the target of a link may not be read, or None."""
    if not _within(real, folder):
        return "links that lead out"
    return "links to hidden or installed files" if _hidden(real, folder) else None


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _hidden(path: str, folder: str) -> bool:
    """Return True if any part of a path in a folder begins with a dot or is a package folder."""
    return any(map(_is_hidden_name, PurePath(os.path.relpath(path, folder)).parts))


def _is_hidden_name(name: str) -> bool:
    return name.startswith(".") or name in SKIPPED
