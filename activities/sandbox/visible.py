"""Which files of the machine a program may read: Python's, and the system's libraries."""

import site
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from activities.sandbox.running.backend import base_python

SYSTEM = (
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/share/zoneinfo",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/ld.so.cache",
    "/etc/alternatives",
)
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Visible:
    """What may be read, as absolute paths.

    `folders` are files and folders, none within another. `links` are symbolic links at the root,
    with where they lead. `hidden` are folders within `folders` that may not be read.
    """

    python: Path
    folders: tuple[Path, ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[Path, ...]


@cache
def visible() -> Visible:
    """Look what there is on this machine."""
    python = Path(base_python()).resolve()
    wanted = [Path(each) for each in SYSTEM] + [python, *_libraries()]
    links = tuple((str(each), str(each.readlink())) for each in wanted if each.is_symlink())
    real = sorted({each for each in wanted if each.exists() and not each.is_symlink()})
    folders = tuple(each for each in real if not any(up in real for up in each.parents))
    hidden = [each for each in _private() if any(up in folders for up in each.parents)]
    return Visible(python, folders, links, tuple(sorted(set(hidden))))


def _libraries() -> list[Path]:
    """Return the folders with Python's own library, and with what it is linked to."""
    base = Path(sys.base_prefix).resolve()
    paths = sysconfig.get_paths(vars={"base": str(base), "platbase": str(base)})
    standard = [Path(paths[name]).resolve() for name in ("stdlib", "platstdlib")]
    return [*standard, base / "lib", *(each for each in (base / "lib64",) if each.is_dir())]


def _private() -> list[Path]:
    """Return what is installed for this interpreter, the worker's environment, and Mull itself."""
    base = str(Path(sys.base_prefix).resolve())
    folders = [Path(each) for each in site.getsitepackages([base, "/usr", "/usr/local"])]
    folders += [each / "dist-packages" for each in (Path("/usr/lib/python3"), *_libraries())]
    folders += [Path(sys.prefix)] if sys.prefix != sys.base_prefix else []
    return [each.resolve() for each in (*folders, PROJECT) if each.is_dir()]
