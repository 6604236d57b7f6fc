"""The port to tools: the list of a worker's tools, one call, and its outcome."""

from typing import Any, Protocol, Self

from activities.documents.retrieval import Retriever
from activities.sandbox import port as sandboxes
from mull import queues
from mull.request import Record
from mull.text import well_formed
from mull.turn.approval import ToolRule
from mull.turn.tools import RESULT_BYTES, CallStatus, Tool, cut_middle

TASK_QUEUE = queues.TOOLS
RUN_PYTHON = "run_python"


def queue_of(tool: Tool) -> str:
    """Name the queue of a tool's calls: untrusted code runs on a queue without tools' secrets."""
    return sandboxes.TASK_QUEUE if tool.name == RUN_PYTHON else TASK_QUEUE


class ListTask(Record):
    """The tools that a turn wants, by name or group (None: all), and its folder of documents."""

    names: tuple[str, ...] | None = None
    docs: str | None = None


class Listing(Record):
    """The tools of a worker, its rules for calls of them, and warnings of what is missing.

    `unknown` says which tools were named that there are not, and which there are.
    """

    tools: tuple[Tool, ...]
    rules: tuple[ToolRule, ...] = ()
    warnings: tuple[str, ...] = ()
    unknown: str = ""


class CallTask(Record):
    """A call by number, of a tool as it was listed; `docs` is the turn's folder of documents.

    `asked`: the turn's rules asked a person, whatever the worker's own rules say.
    """

    tool: Tool
    arguments: dict[str, Any]
    timeout_seconds: float
    docs: str | None = None
    call: int = 0
    asked: bool = False


class ToolOutcome(Record):
    """The outcome of a call; `asking`, with its `tool`, if a person has to allow it first."""

    status: CallStatus
    content: str
    tool: Tool | None = None

    @classmethod
    def of(cls, status: CallStatus, content: str, tool: Tool | None = None) -> Self:
        """Cut a tool's result or error in the middle if it is too long."""
        return cls(status=status, content=cut_middle(well_formed(content), RESULT_BYTES), tool=tool)


class ToolError(Exception):
    """An error of a call, in words for the model; a retry would not help."""

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
        """Return a tool, listed anew unless it only reads. Raises ToolError."""
        ...

    async def call(self, tool: Tool, arguments: dict[str, Any]) -> str:
        """Call a tool. Raises ToolError."""
        ...

    async def close(self) -> None:
        """Stop, if it was started."""
        ...
