"""The port to tools: what a worker has of them, one call, and what came of it."""

from typing import Any, Protocol, Self

from activities.documents.retrieval import Retriever
from activities.sandbox import port as sandboxes
from mull.request import Record
from mull.text import well_formed
from mull.turn.approval import ToolRule
from mull.turn.tools import RESULT_BYTES, CallStatus, Tool, cut_middle

TASK_QUEUE = "mull-tools"
RUN_PYTHON = "run_python"


def queue_of(tool: Tool) -> str:
    """Name the queue of a tool's calls: untrusted code runs where no tool's secrets are."""
    return sandboxes.TASK_QUEUE if tool.name == RUN_PYTHON else TASK_QUEUE


class ListTask(Record):
    """Which tools a turn wants, by name or group, all for None, and its folder of documents."""

    names: tuple[str, ...] | None = None
    docs: str | None = None


class Listing(Record):
    """The tools of a worker, its rules for calls of them, and what could not be listed."""

    tools: tuple[Tool, ...]
    rules: tuple[ToolRule, ...] = ()
    warnings: tuple[str, ...] = ()


class CallTask(Record):
    """A call by number, of a tool as it was listed; `docs` is the turn's folder of documents.

    By the turn's rules a person was `asked`, whatever the worker's own say.
    """

    tool: Tool
    arguments: dict[str, Any]
    timeout_seconds: float
    docs: str | None = None
    call: int = 0
    asked: bool = False


class ToolOutcome(Record):
    """What came of a call; one that a person has to allow first is `asking`, with its `tool`."""

    status: CallStatus
    content: str
    tool: Tool | None = None

    @classmethod
    def of(cls, status: CallStatus, content: str, tool: Tool | None = None) -> Self:
        """Cut what a tool returned, or said was wrong, in the middle where it is too long."""
        return cls(status=status, content=cut_middle(well_formed(content), RESULT_BYTES), tool=tool)


class ToolError(Exception):
    """What is wrong with a call, in words for the model; no retry would help."""

    def __init__(self, said: str, status: CallStatus = "error", tool: Tool | None = None) -> None:
        super().__init__(said)
        self.status, self.tool = status, tool


class Library(Retriever, Protocol):
    """Finds passages, and reads documents as a whole."""

    async def read(self, docs: str, path: str) -> str:
        """Read a document, with the place of each part. Raises RetrievalError, as `retrieve`."""
        ...


class ToolServer(Protocol):
    """A program with tools, whose names begin with its own name and two underscores."""

    name: str

    async def tools(self) -> tuple[list[Tool], list[str]]:
        """List the tools, and warnings of those that can't be used. Raises ToolError."""
        ...

    async def find(self, name: str) -> Tool | None:
        """Return a tool, one that may write as the server describes it now. Raises ToolError."""
        ...

    async def call(self, tool: Tool, arguments: dict[str, Any]) -> str:
        """Call a tool. Raises ToolError."""
        ...

    async def close(self) -> None:
        """Stop, if it was started."""
        ...
