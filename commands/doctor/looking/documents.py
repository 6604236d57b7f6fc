"""The folders that the agent may search."""

import os
from collections.abc import Mapping
from pathlib import Path

from commands.doctor.check import Check
from reflection.plain import plain

AREA, VARIABLE = "documents", "MULL_DOCUMENTS"


def document_checks(environment: Mapping[str, str]) -> list[Check]:
    """Look at each folder that MULL_DOCUMENTS names, and at where indexes of them are kept."""
    given = [each for each in environment.get(VARIABLE, "").split(os.pathsep) if each]
    if not given:
        said = f"{VARIABLE} is not set here: `agent --docs` is refused"
        do = f"set it where the worker runs, to folders with {os.pathsep} between them"
        return [Check(AREA, "folders", "warning", said, (do,))]
    return [*(_folder(each) for each in given), _cache(environment)]


def _folder(given: str) -> Check:
    path, shown = Path(given), plain(given, 200)
    if not path.is_dir():
        said = f"{shown} is no folder on this machine"
        return _check("wrong", said, f"make it, or take it out of {VARIABLE}")
    if not os.access(path, os.R_OK | os.X_OK):
        return _check("wrong", f"{shown} can't be read by this user", "let the worker's user read")
    if path.resolve() == Path(path.anchor or "/").resolve():
        return _check("warning", f"{shown} is the whole machine", "allow only what may be cited")
    if not path.is_absolute():
        said = f"{shown} depends on where the worker is started: {path.resolve()} from here"
        return _check("warning", said, "give the whole path")
    return Check(AREA, "folders", "ok", f"{shown} can be read")


def _cache(environment: Mapping[str, str]) -> Check:
    # What searches documents may be what is missing here, which another check says.
    try:
        from activities.documents.folder import cache_folder
    except ImportError:
        return Check(AREA, "index", "warning", "documents can't be searched: a package is missing")
    place = cache_folder(environment)
    there = next(each for each in (place, *place.parents) if each.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Check(AREA, "index", "ok", f"indexes are kept under {plain(str(place), 200)}")
    said = f"indexes can't be kept under {plain(str(place), 200)}"
    return Check(AREA, "index", "wrong", said, ("set MULL_CACHE to a folder to write to",))


def _check(state: str, said: str, do: str) -> Check:
    return Check(AREA, "folders", "wrong" if state == "wrong" else "warning", said, (do,))
