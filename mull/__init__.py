"""Mull: what the words mean, how decisions are made, and how a Temporal server is reached.

For programs there is the client, and the same without async:

    async with mull.connect() as m:
        run = await m.ask("Is 91 prime?")
        print(run.final_answer, run.id)

    print(mull.ask("Is 91 prime?").final_answer)

The core is pure: `agents`, `batch`, `critique`, `multipath`, `sampling`, `turn`, and the modules
that they share (`run`, `request`, `drafts`, `replies`, `sheet`, `details`, `text`) use the standard
library, pydantic, and libraries that compute and touch nothing, such as markdown-it-py: no clock,
randomness, network or Temporal. Beside it are `connection`, `encryption`, `keys` and `telemetry`,
and the `client`. Nothing is imported before it is used, and nothing of Mull's other packages is
needed.
"""

import sys
from contextlib import nullcontext
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mull import errors, keywords, workflow
    from mull.agents.request import ReflexionRequest
    from mull.agents.result import ReflexionResult
    from mull.batch.request import BatchRequest
    from mull.batch.result import BatchResult
    from mull.blocking import agent, ask, batch, reflect, reflexion, turn
    from mull.client import Client, connect
    from mull.critique.request import ReflectOnResultRequest
    from mull.critique.result import ReflectOnResultResult
    from mull.errors import (
        ConfigurationError,
        DoubtfulError,
        MullError,
        NoServerError,
        NoWorkerError,
        RequestError,
        RunCancelledError,
        RunFailedError,
    )
    from mull.handle import Run
    from mull.multipath.request import MultiPathRequest
    from mull.multipath.result import MultiPathResult
    from mull.sampling.request import SelfConsistencyRequest
    from mull.sampling.result import SelfConsistencyResult
    from mull.talk import Talk
    from mull.turn.request import ToolTurnRequest
    from mull.turn.result import ToolTurnResult

__all__ = [
    "BatchRequest",
    "BatchResult",
    "Client",
    "ConfigurationError",
    "DoubtfulError",
    "MullError",
    "MultiPathRequest",
    "MultiPathResult",
    "NoServerError",
    "NoWorkerError",
    "ReflectOnResultRequest",
    "ReflectOnResultResult",
    "ReflexionRequest",
    "ReflexionResult",
    "RequestError",
    "Run",
    "RunCancelledError",
    "RunFailedError",
    "SelfConsistencyRequest",
    "SelfConsistencyResult",
    "Talk",
    "ToolTurnRequest",
    "ToolTurnResult",
    "agent",
    "ask",
    "batch",
    "connect",
    "errors",
    "keywords",
    "reflect",
    "reflexion",
    "turn",
    "workflow",
]

_HOMES = {
    "agents.request": ("ReflexionRequest",),
    "agents.result": ("ReflexionResult",),
    "batch.request": ("BatchRequest",),
    "batch.result": ("BatchResult",),
    "blocking": ("agent", "ask", "reflect", "reflexion"),
    "client": ("Client", "connect"),
    "critique.request": ("ReflectOnResultRequest",),
    "critique.result": ("ReflectOnResultResult",),
    "errors": (
        "ConfigurationError", "DoubtfulError", "MullError", "NoServerError", "NoWorkerError",
        "RequestError", "RunCancelledError", "RunFailedError",
    ),
    "handle": ("Run",),
    "multipath.request": ("MultiPathRequest",),
    "multipath.result": ("MultiPathResult",),
    "sampling.request": ("SelfConsistencyRequest",),
    "sampling.result": ("SelfConsistencyResult",),
    "talk": ("Talk",),
    "turn.request": ("ToolTurnRequest",),
    "turn.result": ("ToolTurnResult",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


_MODULES = {"batch", "errors", "keywords", "turn", "workflow"}


class _Package(ModuleType):
    """The package, two of whose rooms have the name of a function."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Python sets a room here once it is imported, by whomever.
        # Nor is one changed that a sandbox of workflows shares with the rest of the process.
        if name in {"batch", "turn"} and type(value) is ModuleType:
            value.__class__ = _Room
        super().__setattr__(name, value)


class _Room(ModuleType):
    """A room that can be called, as the function of its name in `mull.blocking`."""

    def __call__(self, *given: Any, **fields: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module("mull.blocking"), name)(*given, **fields)


sys.modules[__name__].__class__ = _Package


def _imported(room: str) -> Any:
    """Import a room; in the SDK's sandbox pass it through, which would load it for each run."""
    sdk = sys.modules.get("temporalio.workflow")
    with sdk.unsafe.imports_passed_through() if sdk else nullcontext():
        # The sandbox replaces this function, and not `import_module`.
        return __import__(f"mull.{room}", fromlist=["mull"])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _imported(name)
    if name not in _HOME_OF:
        raise AttributeError(f"module 'mull' has no attribute {name!r}")
    found = globals()[name] = getattr(_imported(_HOME_OF[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
