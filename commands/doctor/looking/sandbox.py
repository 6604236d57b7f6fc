"""The sandbox that code is run in: its self-test on this machine."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from commands.doctor.check import Check, State
from reflection.multipath.request import Limits
from reflection.plain import plain
from reflection.request import explain

if TYPE_CHECKING:
    from activities.sandbox.selftest import Examined

AREA, LIMITS = "sandbox", "MULL_SANDBOX_LIMITS"
PATIENCE_SECONDS = 30
ELSEWHERE = "serve the other queues here (worker.py --queues mull,llm), and code on Linux"
# As the self-test says in short that so much was asked for where so little is allowed.
REFUSED = re.compile(r"(\d+ MB) of (\d+) are refused")


def limits_checks(environment: Mapping[str, str]) -> list[Check]:
    """Look at the ceiling that a worker would read, where one is set; a worker refuses a wrong one.

    The self-test is run without it.
    """
    given = environment.get(LIMITS)
    if not given:
        return []
    try:
        limits = Limits.model_validate_json(given)
    except ValidationError as error:
        said = f"{LIMITS}: {plain(explain(error), 300)}; a worker with it does not start"
        return [Check(AREA, "limits", "wrong", said, (f"mend {LIMITS}, or unset it",))]
    words = ", ".join(f"{name} {value:g}" for name, value in limits.model_dump().items())
    return [Check(AREA, "limits", "ok", f"at most {words}")]


async def sandbox_checks() -> list[Check]:
    """Try the sandboxes as a worker does at its start, with real programs."""
    # What it needs of the system may be what is missing here.
    try:
        from activities.sandbox.selftest import NoSandboxError, choose
    except ImportError:
        return [_wrong("no sandbox can be had on this system", ELSEWHERE)]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            chosen = await choose()
    except NoSandboxError as error:
        return [*failed(error.examined, "wrong"), _wrong("no code can be run here", ELSEWHERE)]
    except TimeoutError:
        return [_wrong(f"the self-test did not end in {PATIENCE_SECONDS} s", "try again")]
    except (ValueError, OSError) as error:
        return [_wrong(plain(str(error), 300), "unset MULL_SANDBOX, or name one of them")]
    return [*failed(chosen.examined[:-1], "warning"), *passed(chosen.examined[-1])]


def failed(examined: "Sequence[Examined]", state: State) -> list[Check]:
    """Say of each sandbox what it failed; where another one passes, that is no more than a note."""
    return [
        Check(AREA, each.name, state, plain(each.trouble.removeprefix(f"{each.name}: "), 600))
        for each in examined
    ]


def passed(found: "Examined") -> list[Check]:
    """Say what a sandbox was tried with, and what came of each."""
    said = f"{plain(found.version, 60)} passes its self-test"
    return [
        Check(AREA, found.name, "ok", said),
        *(Check(AREA, each.name, "ok", plain(_said(each.said), 300)) for each in found.findings),
    ]


def _said(words: str) -> str:
    return REFUSED.sub(r"\1 are refused where the limit is \2 MB", words)


def _wrong(said: str, do: str) -> Check:
    return Check(AREA, "sandbox", "wrong", said, (do,))
