"""Choosing the sandbox by trying each: what does not pass is not used, and nothing is run bare.

SandboxError
    NoSandboxError     none passes, or the one that was asked for does not
"""

import asyncio
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.landlocked import Landlock
from activities.sandbox.port import SandboxError
from activities.sandbox.probing.probes import PROBES, Probe
from activities.sandbox.probing.targets import Placed, placed
from activities.sandbox.running.backend import Backend
from activities.sandbox.running.sandbox import ProcessSandbox
from activities.sandbox.running.slots import most_at_once
from reflection.multipath.request import Limits

BACKENDS: Mapping[str, Callable[[], Backend]] = {
    "bubblewrap": Bubblewrap.find,
    "landlock": Landlock,
}
CHOICE = "MULL_SANDBOX"


class Finding(NamedTuple):
    """What one check of the self-test came to."""

    name: str
    passed: bool
    said: str


@dataclass(frozen=True)
class Examined:
    """A backend with what its self-test found; `sandbox` is None where it can't be had at all."""

    name: str
    version: str
    sandbox: ProcessSandbox | None
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every check did."""
        return all(each.passed for each in self.findings)

    @property
    def trouble(self) -> str:
        """What failed, in one line."""
        failed = (f"{each.name}: {each.said}" for each in self.findings if not each.passed)
        return f"{self.name}: {'; '.join(failed)}"


@dataclass(frozen=True)
class Chosen:
    """The sandbox that passed, in one line for the log, and all that was looked at before it."""

    sandbox: ProcessSandbox
    described: str
    examined: tuple[Examined, ...]


class NoSandboxError(SandboxError):
    """No sandbox passes its self-test; says why, and what to do."""

    def __init__(self, examined: tuple[Examined, ...]) -> None:
        self.examined = examined
        troubles = ". ".join(each.trouble for each in examined)
        super().__init__(
            f"no sandbox passes its self-test, so no code is run. {troubles}. {REMEDY}"
        )


REMEDY = (
    "Code is never run without one. Allow user namespaces, for bubblewrap, or use Linux 5.13 or "
    "later with Landlock among its LSMs; or serve the other queues alone: --queues mull,llm"
)


async def choose(
    wanted: str | None = None, ceiling: Limits | None = None, at_once: int | None = None
) -> Chosen:
    """Return the first sandbox that passes its self-test, or the wanted one if it does.

    Without `wanted` the environment's MULL_SANDBOX counts: bubblewrap or landlock. Raises
    NoSandboxError, and ValueError for another name.
    """
    examined: list[Examined] = []
    for name in names(wanted):
        examined.append(await examine(name, ceiling or Limits(), at_once))
        found = examined[-1]
        if found.sandbox and found.passed:
            return Chosen(found.sandbox, describe(found), tuple(examined))
    raise NoSandboxError(tuple(examined))


def names(wanted: str | None = None) -> tuple[str, ...]:
    """Return which backends are to be tried, in order. Raises ValueError for one there is not."""
    wanted = wanted or os.environ.get(CHOICE) or None
    if wanted is None:
        return tuple(BACKENDS)
    if wanted not in BACKENDS:
        raise ValueError(f"{CHOICE}={wanted}: there is {' and '.join(BACKENDS)}")
    return (wanted,)


def describe(found: Examined) -> str:
    """Name a sandbox as a worker's log does."""
    checks = ", ".join(each.name for each in found.findings)
    return f"{found.name} {found.version} ({platform.machine()}; passed: {checks})"


async def examine(name: str, ceiling: Limits, at_once: int | None = None) -> Examined:
    """Try one backend with real programs, some at once."""
    try:
        backend = BACKENDS[name]()
    except (SandboxError, OSError) as error:
        return Examined(name, "", None, (Finding("present", False, str(error)),))
    sandbox = ProcessSandbox(backend, ceiling, at_once or most_at_once(ceiling))
    async with placed() as targets:
        findings = await asyncio.gather(*(_try(sandbox, each, targets) for each in PROBES))
    return Examined(name, backend.version, sandbox, tuple(findings))


async def _try(sandbox: ProcessSandbox, probe: Probe, placed: Placed) -> Finding:
    try:
        result = await sandbox.run(probe.program(placed.targets))
    except SandboxError as error:
        return Finding(probe.name, False, str(error))
    if reached := placed.reached(result):
        return Finding(probe.name, False, reached)
    if not probe.passes(result):
        said = (result.stderr.text or result.stdout.text).strip().splitlines()[-1:]
        return Finding(probe.name, False, f"it ended with {result.status} {' '.join(said)}".strip())
    return Finding(probe.name, True, probe.said)
