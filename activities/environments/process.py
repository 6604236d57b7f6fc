"""An environment in a process of its own: its library may hang, crash or end it, not the worker.

The process does not get the worker's variables, and so no tool's keys. It makes the environment at
`reset` and lives as long as that; Python's hashing is fixed in it, since some libraries depend on
the order of sets. Each call has a timer in the process, which ends it even inside C.
"""

import os
import pickle
import resource
import signal
import sys
from io import BufferedReader
from subprocess import PIPE, Popen
from typing import IO, Any, cast

from activities.environments.port import Environment, Evaluation, StepResult, TaskError, TaskRef

# Less than an action may take by default.
SECONDS = 50.0
MEMORY_BYTES = 2 << 30
PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from activities.environments.process import serve; serve(float(sys.argv[1]))"
)
VARIABLES = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1"}


class OvertimeError(RuntimeError):
    """A call took too long, and its process was ended."""


class Apart:
    """An environment of another class, which runs in a process of its own."""

    _process: Popen[bytes] | None = None

    def __init__(self, kind: type[Environment], task: TaskRef, seconds: float = SECONDS) -> None:
        self.name, self.instructions = kind.name, kind.instructions
        self.allowed_actions = kind.allowed_actions
        self.planner_examples = kind.planner_examples
        self.reflector_examples = kind.reflector_examples
        self._kind, self._task, self._seconds = kind, task, seconds

    def reset(self, seed: int) -> str:
        """Begin in a new process. Raises TaskError."""
        self.close()
        command = [sys.executable, "-c", PROGRAM, str(self._seconds), *sys.path]
        kept = {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
        # A session of its own, since Ctrl-C is for the worker.
        self._process = Popen(  # noqa: S603 - our own program
            command, stdin=PIPE, stdout=PIPE, env=kept | VARIABLES, start_new_session=True
        )
        return str(self._call("reset", seed))

    def step(self, action: str) -> StepResult:
        """Take an action."""
        return cast("StepResult", self._call("step", action))

    def evaluate(self, answer: str | None) -> Evaluation:
        """Judge the episode; an answer that can't be judged in time is wrong."""
        try:
            return cast("Evaluation", self._call("evaluate", answer))
        except OvertimeError:
            said = f"The answer could not be judged within {self._seconds:g} s."
            return Evaluation(reward=0.0, correct=False, feedback=said)

    def close(self) -> None:
        """End the process, and with it a call in another thread."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def __del__(self) -> None:
        self.close()

    def _call(self, method: str, given: object) -> object:
        process = self._process
        if process is None:
            raise RuntimeError(f"the process of {self.name} has ended")
        calls, replies = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        try:
            pickle.dump((self._kind, self._task, method, given), calls)
            calls.flush()
            reply, actions, refused, error = pickle.load(replies)  # noqa: S301 - our own process
        except (OSError, EOFError, pickle.UnpicklingError):
            self.close()
            if process.wait() == -signal.SIGALRM:
                said = f"{self.name} took more than {self._seconds:g} s, and was ended"
                raise OvertimeError(said) from None
            said = f"the process of {self.name} ended with {process.returncode}"
            raise RuntimeError(said) from None
        if error is not None:
            self.close()
            raise (TaskError if refused else RuntimeError)(error)
        self.allowed_actions = actions
        return reply


def serve(seconds: float) -> None:
    """Answer calls on standard input until it ends; redirect what they print to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    calls = cast("BufferedReader", sys.stdin.buffer)
    made: Any = None
    while calls.peek(1):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        reply: tuple[object, tuple[str, ...], bool, str | None]
        try:
            kind, task, method, given = pickle.load(calls)  # noqa: S301 - the worker's
            if made is None:
                made = kind(task)
            reply = getattr(made, method)(given), made.allowed_actions, False, None
        except TaskError as error:
            reply = None, (), True, str(error)
        except (Exception, SystemExit) as error:
            reply = None, (), False, f"{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        pickle.dump(reply, replies)
        replies.flush()
