"""Which files of the worker's environment a program may import: those of named distributions."""

from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from activities.sandbox.port import PackageError

ALWAYS = ("numpy", "pytest")


def importable(names: tuple[str, ...]) -> dict[str, Path]:
    """Return, by its name in the folder to import from, each file or folder that is needed.

    That is what numpy, pytest, the named distributions and all that they depend on have at the
    top of site-packages, and nothing else that is installed. Raises PackageError.
    """
    return dict(_importable(tuple(sorted({canonicalize_name(each) for each in names}))))


@cache
def _importable(names: tuple[str, ...]) -> tuple[tuple[str, Path], ...]:
    found: dict[str, Path] = {}
    for each in _with_dependencies(names):
        found |= _top_level(each)
    return tuple(found.items())


def _with_dependencies(names: tuple[str, ...]) -> list[Distribution]:
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
                raise PackageError(f"{name} is not installed on this worker") from None
            continue
        left += _needed(found[name])
    return list(found.values())


def _needed(each: Distribution) -> list[str]:
    """Name what a distribution requires here, without its extras."""
    needed: list[str] = []
    for text in each.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            needed.append(canonicalize_name(requirement.name))
    return needed


def _top_level(each: Distribution) -> dict[str, Path]:
    tops = {file.parts[0] for file in each.files or ()} - {"..", "__pycache__", "bin"}
    tops = {name for name in tops if not name.endswith(".pth") and not name.startswith("/")}
    found = {name: Path(str(each.locate_file(name))) for name in sorted(tops)}
    if not any(not name.endswith(".dist-info") for name in found):
        raise PackageError(f"{each.name} has no files of its own: is it installed as editable?")
    return {name: path for name, path in found.items() if path.exists()}
