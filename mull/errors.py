"""What Mull raises at its callers; the command line ends with the same causes as exit codes.

MullError                 something else: the server refused what was asked (1)
├── ConfigurationError    an address, a profile, a key or a file of the environment is wrong (2)
├── RequestError          a request is refused, and names the field; there is no such run (2)
├── NoServerError         no Temporal server answers (3)
├── NoWorkerError         no worker polls a task queue, or none answers (3)
├── RunFailedError        the run failed, was terminated or timed out (1)
├── RunCancelledError     the run was cancelled (5)
└── DoubtfulError         it has a result, which is not to be built on: only with `check=True` (4)

What ends the wait for a run (an error, Ctrl-C, `task.cancel()`) never ends the run: it is found
again by its id.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ValidationError

from mull.request import explain
from mull.text import terminal_safe

__all__ = (
    "ConfigurationError", "DoubtfulError", "MullError", "NoServerError", "NoWorkerError",
    "RequestError", "RunCancelledError", "RunFailedError",
)  # fmt: skip

ModelT = TypeVar("ModelT", bound=BaseModel)
# A workflow task that failed more often than this needs a key, or other code.
FEW_TRIES = 2


class MullError(Exception):
    """Something that can't be done: `fact` is what happened, and `advice` what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, fact: str, advice: str = "") -> None:
        super().__init__(fact, advice)
        self.fact, self.advice = fact, advice

    def __str__(self) -> str:
        return f"{self.fact}. {self.advice}" if self.advice else self.fact


class ConfigurationError(MullError):
    """The environment's configuration is not valid: a profile, an address, a key or a file."""

    exit_code = 2


class RequestError(MullError):
    """What is asked is refused, and nothing was started; `field` is the one that is wrong, if any.

    Also raised where a run does not take an update, and where no run of Mull's has the id.
    """

    exit_code = 2

    def __init__(self, fact: str, advice: str = "", field: str | None = None) -> None:
        super().__init__(fact, advice)
        self.args, self.field = (fact, advice, field), field


class NoServerError(MullError):
    """No Temporal server answers, or the connection to it was lost; runs go on once it is back."""

    exit_code = 3


class NoWorkerError(MullError):
    """No worker polls these task `queues`, or none answers in time."""

    exit_code = 3

    def __init__(self, fact: str, advice: str = "", queues: tuple[str, ...] = ()) -> None:
        super().__init__(fact, advice)
        self.args, self.queues = (fact, advice, queues), queues


class RunFailedError(MullError):
    """The run `id` has no result: it failed by an error of this `kind`, or was terminated."""

    def __init__(self, id: str, kind: str, message: str) -> None:
        said = f"the run {id} failed ({kind}: {terminal_safe(message, 1_000)})"
        super().__init__(said, f"See `mull show {id}`.")
        self.args = (id, kind, message)
        self.id, self.kind, self.message = self.args


class RunCancelledError(MullError):
    """The run `id` was cancelled, by somebody who asked for that."""

    exit_code = 5

    def __init__(self, id: str) -> None:
        super().__init__(f"the run {id} was cancelled", f"See `mull show {id}`.")
        self.args = (id,)
        self.id = id


class DoubtfulError(MullError):
    """A result that is not to be built on: the `record` with its `doubt`, one phrase."""

    exit_code = 4

    def __init__(self, record: Any, doubt: str) -> None:
        super().__init__(f"the run {record.id} is not to be built on: {doubt}")
        self.args = (record, doubt)
        self.record, self.doubt = record, doubt


def checked(kind: type[ModelT], fields: Mapping[str, Any]) -> ModelT:
    """Build a model of these fields. Raises RequestError, which names the first that is wrong."""
    try:
        return kind(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = str(first["loc"][0]) if first["loc"] else None
        raise RequestError(explain(error, kind.model_fields), field=field) from None


def no_worker(missing: Sequence[str]) -> NoWorkerError:
    """Say which queues no worker polls, and how to start one."""
    names = " and ".join(f'"{queue}"' for queue in missing)
    said = f"no worker is polling task queue{'s' if len(missing) > 1 else ''} {names}"
    only = ",".join(queue.removeprefix("mull-") for queue in missing)
    start = "mull-worker" if "mull" in missing else f"mull-worker --queues {only}"
    # An embedded worker trains only with MULL_ARTIFACTS and the extra.
    embedded = "" if "mull-train" in missing else ", or an embedded one with `mull dev`"
    return NoWorkerError(said, f"Start one with `{start}`{embedded}.", tuple(missing))


def stuck_words(tries: int) -> str:
    """Say that a worker fails at a run's workflow task again and again; empty if it doesn't."""
    said = f"the worker can't go on with this run (attempt {tries}): its log says why"
    return said if tries > FEW_TRIES else ""
