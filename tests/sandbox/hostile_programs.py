"""The hostile programs, what must come of each, and whether it did."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from activities.sandbox.port import Program, Result
from reflection.multipath.request import Limits

FOLDER = Path(__file__).parent / "hostile"
# What many of the programs import: sent beside those alone.
ATTEMPTS = "attempts.py"
MANIFESTS = ("manifest.json", "more.json")
# Half a second of a program that never ends shows as much as four.
WALL_SECONDS = 0.5

HostCheck = Literal[
    "worker_alive",
    "no_sysv_leak",
    "temporal_port_no_connection",
    "abstract_socket_no_connection",
    "datagram_socket_no_message",
]


class Manifested(BaseModel):
    """A part of a manifest; a member that nobody reads is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Required(Manifested):
    """What must come of a program.

    Every program is contained, and none is survived by anything: so the tests hold all of them to
    each of the host's checks, whether a manifest names it or not.
    """

    contained: Literal[True]
    status_any_of: tuple[str, ...]
    stdout_must_not_contain: tuple[str, ...]
    stdout_must_contain: tuple[str, ...]
    max_wall_s: float
    no_survivors: Literal[True]
    host_checks: tuple[HostCheck, ...]


class Bounds(Manifested):
    """The limits that a program is written for; of one file, `fsize_mb`, the disk's holds too."""

    wall_s: float | None = None
    cpu_s: float | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    fsize_mb: int | None = None

    @property
    def limits(self) -> Limits:
        """The limits that it runs with."""
        given = {
            "wall_seconds": self.wall_s and min(WALL_SECONDS, self.wall_s),
            "cpu_seconds": self.cpu_s,
            "memory_mb": self.memory_mb,
            "disk_mb": self.disk_mb,
        }
        known = {name: each for name, each in given.items() if each is not None}
        return Limits.model_validate(known)


class Hostile(Manifested):
    id: str
    file: str
    category: str
    description: str
    required: Required
    limits: Bounds
    note: str
    known_gap: bool

    def program(self, substitutes: Mapping[str, str], files: Mapping[str, str]) -> Program:
        """Return the program, with names of the host's own in place of those it was written for."""
        code = (FOLDER / self.file).read_text("utf-8")
        for old, new in substitutes.items():
            code = code.replace(old, new)
        given = dict(files)
        if "from attempts import" in code:
            given[ATTEMPTS] = (FOLDER / ATTEMPTS).read_text("utf-8")
        return Program(code=code, files=given, limits=self.limits.limits)

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
