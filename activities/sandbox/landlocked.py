"""The backend without namespaces: Landlock, seccomp, resource limits, and a user for each run."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from activities.sandbox.confinement import folders
from activities.sandbox.confinement.folders import RunFolder
from activities.sandbox.confinement.reach import (
    all_can_read,
    can_become,
    end_all_of,
    tasks_of,
)
from activities.sandbox.confinement.rules import rules
from activities.sandbox.confinement.seccomp import build_filter
from activities.sandbox.inside.landlock import version
from activities.sandbox.packages import importable
from activities.sandbox.port import SandboxError
from activities.sandbox.running.backend import Launch, Place
from activities.sandbox.running.sandbox import uninterrupted
from activities.sandbox.visible import visible
from activities.sandbox.watching.measuring import used
from activities.sandbox.watching.watch import FILES_PER_MIB

MODULES = ("landlock", "privileges", "clearing", "confine", "sweep")
# From here on the kernel keeps signals inside by itself.
SCOPED_SIGNALS = 6
PATIENCE_SECONDS = 5.0


class Landlock:
    """Runs programs beneath Landlock's rules, without a network or another process in reach."""

    name = "landlock"

    def __init__(self) -> None:
        self._abi = version()
        if not self._abi:
            raise SandboxError("this kernel has no Landlock, or it is not among its LSMs")
        self.version = f"ABI {self._abi}"
        folders.delete_stale()

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[Launch]:
        """Make the folders of one run, and delete them with whatever it leaves in them."""
        user = place.uid if place.uid is not None and can_become(place.uid) else None
        folder = folders.make(user)
        try:
            yield self._launch(place, user, folder)
        finally:
            await uninterrupted(place.threads.call(_clear, user, folder))

    def _launch(self, place: Place, user: int | None, folder: RunFolder) -> Launch:
        packages = importable(place.packages)
        _link(folder.packages, packages)
        _link(folder.commands, dict.fromkeys(("python", "python3"), visible().python))
        return Launch(
            argv=(str(visible().python),),
            work=str(folder.work),
            scratch=str(folder.scratch),
            uid=user,
            packages=str(folder.packages),
            path=f"{folder.commands}:/usr/bin:/bin",
            disk=partial(used, folder.box, most_files=place.limits.disk_mb * FILES_PER_MIB),
            nested=False,
            modules=MODULES,
            # It can be neither stopped nor reached, and its children outlive it if it is killed.
            patience=PATIENCE_SECONDS,
            settings=self._settings(user, folder, tuple(packages.values())),
        )

    def _settings(
        self, user: int | None, folder: RunFolder, packages: tuple[Path, ...]
    ) -> dict[str, Any]:
        shown = (*visible().folders, *packages)
        return {
            "tops": (str(folder.shown.top), str(folder.written.top)),
            "others": 0 if user is not None else tasks_of(os.getuid()),
            "reads_all": user is not None and not all_can_read(shown),
            "rules": rules(packages, (folder.packages, folder.commands), folder.box),
            "filter": _filter(
                sockets=False,
                signals=user is not None or self._abi >= SCOPED_SIGNALS,
                own_user=user is not None,
            ),
        }


_filter = cache(build_filter)


def _clear(user: int | None, folder: RunFolder) -> None:
    try:
        if user is not None:
            end_all_of(user)
    finally:
        folders.delete(folder)


def _link(folder: Path, names: dict[str, Path]) -> None:
    for name, path in names.items():
        (folder / name).symlink_to(path)
