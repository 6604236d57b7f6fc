"""What is known besides of a workflow type that gives one result to one question or query."""

from abc import abstractmethod
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from activities.language_model import port
from commands.kinds.kind import Asked, Given, Kind, Standing
from commands.kinds.texts import print_text
from commands.report.document import RunFacts
from connection import TASK_QUEUE
from reflection.run import Record

Decided = TypeVar("Decided", bound=Record)


class Waiting(NamedTuple):
    """A run waits for a person, until then, or for ever (None)."""

    until: datetime | None


class Answering(Kind[Asked, Standing, Given], Generic[Asked, Standing, Decided, Given]):
    """A type whose runs decide on a result, which can be held against a bar, reviewed, reported.

    `command` begins the ids of its runs. `keeps_drafts` is true where a run that ends badly has
    something to give all the same. `reviews` are what a person may do. `unchecked` is said to who
    puts a text in the place of a result.
    """

    command: str
    decision: type[Decided]
    reviews: tuple[str, ...]
    keeps_drafts: bool = False
    unchecked: str | None = None

    def queues(self, request: Asked) -> tuple[str, ...]:  # noqa: ARG002 - for kinds with more
        """List the task queues that a run can't do without."""
        return (TASK_QUEUE, port.TASK_QUEUE)

    def perhaps(self, request: Asked) -> tuple[str, ...]:  # noqa: ARG002 - as above
        """List the task queues that a run may turn out to need."""
        return ()

    @abstractmethod
    def subject(self, request: Asked) -> str:
        """Return the question or the query."""

    @abstractmethod
    def print_decisions(self, result: Given) -> None:
        """Print every decision of a finished run."""

    @abstractmethod
    def below(self, result: Given, bar: float) -> str | None:
        """Say how a result misses the bar that was asked for; None where it does not."""

    @abstractmethod
    def conclusive(self, result: Given) -> bool:
        """Tell whether there is a result worth the name."""

    @abstractmethod
    def page(self, result: Given, run: RunFacts) -> str:
        """Write a finished run as one HTML file."""

    @abstractmethod
    def waiting(self, progress: Standing, decisions: list[Decided]) -> Waiting | None:
        """Tell whether a run waits for a person's review."""

    @abstractmethod
    def print_review(self, progress: Standing) -> None:
        """Print what a person needs to see to review it."""

    @abstractmethod
    def review_document(self, progress: Standing) -> dict[str, object]:
        """Put together what a machine needs to review it."""

    def replacement(self, text: str) -> str:
        """Return what a person's file says in the place of a result."""
        return text

    def so_far(self, progress: Standing) -> str | None:  # noqa: ARG002 - for kinds with drafts
        """Return the best draft so far, of a run that ended without a result."""
        return None

    def print_draft(self, draft: str) -> None:
        """Print the best draft so far on standard output."""
        print_text(draft)


AnyAnswering: TypeAlias = Answering[Any, Any, Any, Any]
