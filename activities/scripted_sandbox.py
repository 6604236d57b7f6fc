"""The port's fake: a sandbox that says what a test wrote down, and runs nothing."""

import json
from collections.abc import Callable, Sequence

from temporalio.exceptions import ApplicationError

from activities.sandbox.port import Output, Program, Result, SandboxError, Status

Reply = Result | SandboxError | Callable[[Program], Result]


class ScriptedSandbox:
    """Reply to the i-th program with the i-th reply; one too many fails the run, loudly."""

    name = "scripted"
    at_once = 4

    def __init__(self, script: Sequence[Reply]) -> None:
        self._script = script
        self.programs: list[Program] = []

    async def run(self, program: Program) -> Result:
        """Reply by the script. Raises the script's errors."""
        self.programs.append(program)
        if len(self.programs) > len(self._script):
            raise ApplicationError(
                f"no reply for program {len(self.programs)}",
                type="ScriptExhausted",
                non_retryable=True,
            )
        reply = self._script[len(self.programs) - 1]
        if isinstance(reply, SandboxError):
            raise reply
        return reply if isinstance(reply, Result) else reply(program)


def answering(
    *said: dict[str, object], status: Status = "ok", before: str = "", after: str = ""
) -> Callable[[Program], Result]:
    """Reply as the programs of `activities/code_tests` do: a line for each object, with the nonce.

    `before` and `after` are what else is on the standard output.
    """

    def reply(program: Program) -> Result:
        nonce = json.loads(program.input)["nonce"]
        lines = "".join(f"\n{nonce} {json.dumps(each)}\n" for each in said)
        return finished(program, f"{before}{lines}{after}", status)

    return reply


def finished(program: Program, stdout: str = "", status: Status = "ok") -> Result:
    """Make the result of a program that printed this and ended this way."""
    return Result(
        status=status,
        exit_code=0 if status == "ok" else None,
        signal=11 if status == "killed_by_signal" else None,
        stdout=Output(head=stdout, tail="", size=len(stdout)),
        stderr=Output(head="", tail="", size=0),
        wall_seconds=0.1,
        cpu_seconds=0.1,
        peak_memory_bytes=1_000_000,
        backend=ScriptedSandbox.name,
        limits=program.limits,
    )
