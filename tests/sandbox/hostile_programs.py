"""The hostile programs, and how each of them must end."""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from activities.sandbox.port import Program, Result, Status
from mull.multipath.request import Limits

FOLDER = Path(__file__).parent / "hostile"
# What many of the programs import: sent beside those alone.
ATTEMPTS = "attempts.py"
# What every program prints that has got out.
ESCAPED = "ESCAPED"


class Hostile(BaseModel):
    """A program of the manifest, in the file of its name, and how it must end.

    `status` are the ways in which it may end, `prints` is what it must print, and `seconds` how
    long it may take. A member that nobody reads is refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    category: str
    description: str
    status: tuple[Status, ...] = Field(min_length=1)
    prints: tuple[str, ...] = ()
    seconds: float = 6.0
    limits: Limits = Limits()
    note: str = ""

    def program(self, substitutes: Mapping[str, str], files: Mapping[str, str]) -> Program:
        """Return the program, with names of the host's own in place of those it was written for."""
        code = (FOLDER / f"{self.name}.py").read_text("utf-8")
        for old, new in substitutes.items():
            code = code.replace(old, new)
        given = dict(files)
        if "from attempts import" in code:
            given[ATTEMPTS] = (FOLDER / ATTEMPTS).read_text("utf-8")
        return Program(code=code, files=given, limits=self.limits)

    def faults(
        self, result: Result, host_faults: tuple[str, ...] = (), stalled: float = 0.0
    ) -> list[str]:
        """Return what did not come out as required; it waited so long for a core or a disk."""
        text = result.stdout.text
        return [
            *(f"host: {fault}" for fault in host_faults),
            *([f"printed: {ESCAPED}"] if ESCAPED in text else []),
            *(f"not printed: {words}" for words in self.prints if words not in text),
            *([] if result.status in self.status else [f"status: {result.status}"]),
            *([] if result.wall_seconds - stalled <= self.seconds else ["took too long"]),
        ]


def every() -> dict[str, Hostile]:
    """Return all hostile programs by their names."""
    listed = json.loads((FOLDER / "manifest.json").read_text("utf-8"))
    return {name: Hostile(name=name, **facts) for name, facts in listed.items()}
