"""The first lines that the sandbox's Python runs: they read the settings and the other modules."""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOME = "activities.sandbox.inside"


def main(settings_fd: int, status_fd: int, lifeline_fd: int) -> None:
    """Run `init`, with the modules that come with the settings."""
    with os.fdopen(settings_fd, "rb") as file:
        settings = marshal.load(file)  # noqa: S302 - the worker wrote it
    spaces = _load(settings.pop("modules"))
    confine = spaces.get("confinement", {}).get("confine", _nothing)
    sweep = spaces.get("sweep", {})
    sweep.get("prepare", _nothing)(settings)
    spaces["init"]["main"](
        settings,
        status_fd,
        lifeline_fd,
        lambda *given: spaces["program"]["become"](*given, confine),
        sweep.get("sweep", _nothing),
    )


def _load(codes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Make modules that import each other by their names in Mull, which a program can't."""
    spaces = {}
    for name, code in codes.items():
        made = sys.modules[f"{HOME}.{name}"] = type(sys)(name)
        spaces[name] = made.__dict__
        exec(code, spaces[name])  # noqa: S102 - the worker compiled it
    for name in codes:
        del sys.modules[f"{HOME}.{name}"]
    return spaces


def _nothing(_: object) -> None:
    pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
