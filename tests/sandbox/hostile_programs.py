"""The hostile programs, what must come of each, and whether it did."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from activities.sandbox.port import Program, Result
from reflection.multipath.request import Limits

FOLDER = Path(__file__).parent / "hostile"
MANIFESTS = ("manifest.json", "more.json")
# Half a second of a program that never ends shows as much as four.
WALL_SECONDS = 0.5


class Required(BaseModel):
    contained: bool
    status_any_of: tuple[str, ...]
    stdout_must_not_contain: tuple[str, ...]
    stdout_must_contain: tuple[str, ...]
    max_wall_s: float
    no_survivors: bool
    host_checks: tuple[str, ...]


class Hostile(BaseModel):
    id: str
    file: str
    required: Required
    limits: dict[str, float]

    def program(self, substitutes: Mapping[str, str], files: Mapping[str, str]) -> Program:
        """Return the program, with names of the host's own in place of those it was written for."""
        code = (FOLDER / self.file).read_text("utf-8")
        for old, new in substitutes.items():
            code = code.replace(old, new)
        return Program(code=code, files=dict(files), limits=self._limits())

    def _limits(self) -> Limits:
        given: dict[str, Any] = {}
        if "wall_s" in self.limits:
            given["wall_seconds"] = min(WALL_SECONDS, self.limits["wall_s"])
        given |= {
            name: self.limits[name] for name in ("memory_mb", "disk_mb") if name in self.limits
        }
        if "cpu_s" in self.limits:
            given["cpu_seconds"] = self.limits["cpu_s"]
        return Limits(**given)

    def faults(self, result: Result, host_faults: tuple[str, ...] = ()) -> list[str]:
        """Return what did not come out as required, and nothing where all did."""
        required = self.required
        text = result.stdout.text
        return [
            *(f"host: {each}" for each in host_faults),
            *(f"printed: {each}" for each in required.stdout_must_not_contain if each in text),
            *(f"not printed: {each}" for each in required.stdout_must_contain if each not in text),
            *([] if result.status in required.status_any_of else [f"status: {result.status}"]),
            *([] if result.wall_seconds <= required.max_wall_s else ["took too long"]),
        ]


def every() -> dict[str, Hostile]:
    """Return all hostile programs by their id."""
    listed = [
        each
        for name in MANIFESTS
        for each in json.loads((FOLDER / name).read_text("utf-8"))["programs"]
    ]
    return {each["id"]: Hostile.model_validate(each) for each in listed}
