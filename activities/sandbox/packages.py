"""Which files of the machine a program may read: Python, the system's libraries, and packages."""

import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from activities.sandbox.port import PackageError
from mull.text import EXTRA

FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SYSTEM = (
    *(f"{top}/{name}" for top in ("", "/usr") for name in FOLDERS),
    *("/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/alternatives"),
)
PROJECT = Path(__file__).resolve().parents[2]
# The packages of the extra `code`; a program can import those that are installed.
ALWAYS = ("numpy", "pytest")
WITH_ALWAYS = EXTRA.format("code")


def base_python() -> str:
    """Return the interpreter that runs programs: the one behind the worker's environment."""
    return str(getattr(sys, "_base_executable", sys.executable))


@dataclass(frozen=True)
class Visible:
    """The absolute paths that a program may read.

    `folders` are files and folders, none inside another. `links` are symbolic links at the root
    with their targets. `hidden` are folders inside `folders` that may not be read.
    """

    python: Path
    folders: tuple[Path, ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[Path, ...]


@cache
def visible() -> Visible:
    """Find the paths that programs on this machine may read."""
    # Python's own library, and the libraries that it is linked to.
    base = Path(sys.base_prefix).resolve()
    paths = sysconfig.get_paths(vars={"base": str(base), "platbase": str(base)})
    libraries = [Path(paths[name]).resolve() for name in ("stdlib", "platstdlib")] + [base / "lib"]
    libraries += [path for path in (base / "lib64",) if path.is_dir()]
    # The packages of this interpreter, the worker's environment, and Mull itself.
    private = [Path(path) for path in site.getsitepackages([str(base), "/usr", "/usr/local"])]
    private += [path / "dist-packages" for path in (Path("/usr/lib/python3"), *libraries)]
    private += [Path(sys.prefix)] if sys.prefix != sys.base_prefix else []
    private = [path.resolve() for path in (*private, PROJECT) if path.is_dir()]
    python = Path(base_python()).resolve()
    wanted = [Path(path) for path in SYSTEM] + [python, *libraries]
    links = tuple((str(path), str(path.readlink())) for path in wanted if path.is_symlink())
    real = sorted({path for path in wanted if path.exists() and not path.is_symlink()})
    folders = tuple(path for path in real if not any(up in real for up in path.parents))
    hidden = {path for path in private if any(up in folders for up in path.parents)}
    return Visible(python, folders, links, tuple(sorted(hidden)))


@cache
def importable(names: tuple[str, ...]) -> Mapping[str, Path]:
    """Map names in the folder to import from to files and folders.

    They are the top level of numpy, pytest, the named distributions and all that these depend on,
    and nothing else that is installed. Raises PackageError.
    """
    found: dict[str, Path] = {}
    for package in _with_dependencies([canonicalize_name(name) for name in names]):
        tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__", "bin"}
        tops = {name for name in tops if not name.endswith(".pth") and not name.startswith("/")}
        if all(name.endswith(".dist-info") for name in tops):
            raise PackageError(
                f"{package.name} has no files of its own: is it installed as editable?"
            )
        paths = {name: Path(str(package.locate_file(name))) for name in sorted(tops)}
        found |= {name: path for name, path in paths.items() if path.exists()}
    return found


def _with_dependencies(names: Sequence[str]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    left = [*ALWAYS, *names]
    while left:
        name = left.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in names:
                get = f": {WITH_ALWAYS}" if name in ALWAYS else ""
                raise PackageError(f"{name} is not installed on this worker{get}") from None
            continue
        for text in found[name].requires or ():
            with suppress(InvalidRequirement):
                requirement = Requirement(text)
                # Only the requirements on this machine, without extras.
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    left.append(canonicalize_name(requirement.name))
    return list(found.values())
