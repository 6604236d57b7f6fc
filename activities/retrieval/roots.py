"""Which folders the worker's operator allows to be searched."""

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Self

from activities.documents import RetrievalError
from reflection.text import terminal_safe

VARIABLE = "MULL_DOCUMENTS"
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})


class Roots:
    """The folders that may be searched, with all that is under them and not hidden."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [os.fspath(each) for each in folders if each]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read MULL_DOCUMENTS: paths with the system's separator of paths between them."""
        return cls(environment.get(VARIABLE, "").split(os.pathsep))

    def resolve(self, docs: str) -> str:
        """Return the real path of an allowed folder; a relative one is looked for under each root.

        Raises RetrievalError, which names the folder as it was given, and no other path.
        """
        if not self._folders:
            raise RetrievalError(
                f"no folder may be searched: set {VARIABLE}, where the worker runs, to the folders "
                "that it may read"
            )
        below = self._candidates(docs)
        if not below:
            raise RetrievalError(
                f"the folder {shown(docs)} is not under one that {VARIABLE} allows on the worker"
            )
        allowed = [path for path, visible in below.items() if visible]
        if not allowed:
            raise RetrievalError(
                f"the folder {shown(docs)} is hidden, or of installed packages: neither is searched"
            )
        return _folder(allowed, docs)

    def _candidates(self, docs: str) -> dict[str, bool]:
        """Real paths below the roots, and whether neither they nor the name are of what is hidden.

        Whether there is anything is not looked at, so that a refusal tells nothing of it.
        """
        try:
            roots = [os.path.realpath(each) for each in self._folders]
            asked = [os.path.join(root, docs) for root in roots]  # noqa: PTH118 - pathlib keeps no `..` as realpath needs it
            paths = {os.path.realpath(path): os.path.normpath(path) for path in asked}
        except (OSError, ValueError):
            return {}
        return {
            real: _visible(real, roots) and (not _below(path, roots) or _visible(path, roots))
            for real, path in paths.items()
            if _below(real, roots)
        }


def within(path: str, folder: str) -> bool:
    """Say whether a real path is a real folder, or lies in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def hidden(path: str, folder: str) -> bool:
    """Say whether a path in a folder is, or lies in, what begins with a dot or was installed."""
    parts = PurePath(os.path.relpath(path, folder)).parts
    return any(part.startswith(".") or part in SKIPPED for part in parts)


def _below(path: str, roots: Sequence[str]) -> bool:
    return any(within(path, root) for root in roots)


def _visible(path: str, roots: Sequence[str]) -> bool:
    """A root may be hidden itself: its operator has named it."""
    return any(within(path, root) and not hidden(path, root) for root in roots)


def _folder(candidates: Sequence[str], docs: str) -> str:
    folders = [path for path in candidates if os.path.isdir(path)]  # noqa: PTH112 - of strings, as all of this module
    if not folders:
        raise RetrievalError(_missing(candidates, docs))
    if not os.access(folders[0], os.R_OK | os.X_OK):
        raise RetrievalError(f"the folder {shown(docs)} can't be read: permission denied")
    return folders[0]


def _missing(candidates: Sequence[str], docs: str) -> str:
    if any(os.path.lexists(path) for path in candidates):
        return f"{shown(docs)} is a file: name the folder that it is in"
    return f"the worker has no folder {shown(docs)}"


def shown(docs: str) -> str:
    """Quote a folder's name as it was given, on one line."""
    return f'"{terminal_safe(docs, 200)}"'
