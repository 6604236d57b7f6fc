"""What a program may read where nothing can be laid over folders: rules beneath paths."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from activities.sandbox.inside.landlock import DEVICE, KEEP, LIST, READ, USE
from activities.sandbox.visible import visible

DEVICES = {"null": DEVICE, "zero": DEVICE, "full": DEVICE, "random": READ, "urandom": READ}


def rules(packages: Iterable[Path], shown: Iterable[Path], kept: Path) -> dict[str, int]:
    """Return what is allowed beneath each path.

    `packages` and `shown` are read, `kept` is written too, and of the machine what every program
    may read.
    """
    return {
        **_system(),
        **{str(each): USE for each in (*packages, *shown)},
        str(kept): KEEP,
    }


@cache
def _system() -> dict[str, int]:
    seen = visible()
    found = {f"/dev/{name}": allowed for name, allowed in DEVICES.items()}
    for folder in seen.folders:
        found |= _without(folder, seen.hidden)
    return found


def _without(folder: Path, hidden: tuple[Path, ...]) -> dict[str, int]:
    """Allow a folder but for what is hidden in it. Rules only add up, so each part has its own.

    The names of what is hidden can be listed, since Python lists the folders it imports from.
    """
    inside = [each for each in hidden if each.is_relative_to(folder)]
    if folder in inside:
        return {}
    if not inside:
        return {str(folder): USE}
    found = {str(folder): LIST}
    for child in folder.iterdir():
        # A rule would be for what a link leads to, wherever that is.
        found |= {} if child.is_symlink() else _without(child, hidden)
    return found
