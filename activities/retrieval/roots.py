"""Which folders the worker's operator allows to be searched."""

import os
from collections.abc import Mapping, Sequence
from typing import Self

from activities.documents import RetrievalError
from reflection.plain import plain

VARIABLE = "MULL_DOCUMENTS"


class Roots:
    """The folders that may be searched, with all that is under them."""

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
        allowed = list(self._candidates(docs))
        if not allowed:
            raise RetrievalError(
                f"the folder {shown(docs)} is not under one that {VARIABLE} allows on the worker"
            )
        return _folder(allowed, docs)

    def _candidates(self, docs: str) -> Sequence[str]:
        try:
            roots = [os.path.realpath(each) for each in self._folders]
            paths = [os.path.realpath(os.path.join(root, docs)) for root in roots]  # noqa: PTH118 - pathlib keeps no `..` as realpath needs it
        except (OSError, ValueError):
            return []
        found = [path for path in paths if any(within(path, root) for root in roots)]
        return list(dict.fromkeys(found))


def within(path: str, folder: str) -> bool:
    """Say whether a real path is a real folder, or lies in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


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
    return f'"{plain(docs, 200)}"'
