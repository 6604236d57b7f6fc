"""What is known of every workflow type: how its runs are followed, shown and steered."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from rich.console import Console
from temporalio.client import WorkflowHandle

from reflection.run import Record, Request

Asked = TypeVar("Asked", bound=Request)
Standing = TypeVar("Standing", bound=Record)
Given = TypeVar("Given", bound=Record)


class Live(Protocol):
    """How a run is followed on standard error, step by step."""

    def busy(self, progress: Any) -> str:
        """Say in a few words what is under way."""

    def show(self, progress: Any, decisions: Sequence[Any]) -> None:
        """Print what is new."""

    def end(self, result: Any) -> None:
        """Print what the last look did not yet show."""


class Kind(ABC, Generic[Asked, Standing, Given]):
    """What the command line knows of one type of workflow.

    `workflow` is the type's name, `doing` says what such a run does, and the three types are what
    its messages carry.
    """

    workflow: str
    doing: str
    request: type[Asked]
    progress: type[Standing]
    result: type[Given]

    @abstractmethod
    def live(self, console: Console, request: Asked | None, run: str) -> Live | None:
        """Make what shows such a run while it goes on; None where that can't be known."""

    @abstractmethod
    def print_result(self, result: Given) -> None:
        """Print the result: what was asked for on standard output."""

    @abstractmethod
    def print_standing(
        self, progress: Standing, decisions: list[Any], *, ended: bool = False
    ) -> None:
        """Print where a run stands; the decisions are those of a type that makes any.

        What is told of a run that ended without a result goes to standard error.
        """

    async def far(
        self,
        handle: WorkflowHandle[Any, Any],  # noqa: ARG002 - for kinds with a long step
        progress: Standing,  # noqa: ARG002 - as above
    ) -> str | None:
        """Say how far a long step is; None where nothing tells."""
        return None

    def keep(self, result: Given) -> None:
        """Write a result where it shall be kept, before it is shown. Raises OSError."""

    def unwritten(self, run: str) -> str | None:  # noqa: ARG002 - for kinds that write files
        """Say what is not written where nobody follows a run any more, and how to get it."""
        return None

    def further(self, run: str) -> str | None:  # noqa: ARG002 - for kinds whose result is not all
        """Say how to get what the result alone does not tell."""
        return None


AnyKind: TypeAlias = Kind[Any, Any, Any]
