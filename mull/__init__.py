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
from contextlib import nullcontext, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mull import errors, keywords, workflow
    from mull.blocking import *
    from mull.client import *
    from mull.errors import *
    from mull.loops import *

    __version__: str

# What is public is in `__all__` of these, in this order: what is sooner imported comes first.
_ROOMS = ("errors", "loops", "client", "blocking")


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


def _public() -> list[str]:
    names = [name for room in _ROOMS for name in _imported(room).__all__]
    return sorted({*names, "errors", "keywords", "workflow"})


def _found(name: str) -> Any:
    if name == "__all__":
        return _public()
    if name == "__version__":
        with suppress(PackageNotFoundError):
            return version("mull")
    if name.startswith("_"):
        raise AttributeError(f"module 'mull' has no attribute {name!r}")
    # Python asks for a module by `from mull import text` too, which needs no other room.
    if find_spec(f"mull.{name}"):
        return _imported(name)
    for room in _ROOMS:
        if name in (module := _imported(room)).__all__:
            found = globals()[name] = getattr(module, name)
            return found
    said = f"module 'mull' has no attribute {name!r}"
    if hasattr(_imported("client").Client, name):
        said += f": await it of a client, m = await mull.connect(), then await m.{name}(...)"
    raise AttributeError(said)


_sdk = sys.modules.get("temporalio.workflow")
if _sdk and _sdk.unsafe.in_sandbox():
    # A worker that starts has time for this; a task of a workflow has two seconds.
    _imported("workflow")

# Tools that read code know the names above alone.
if not TYPE_CHECKING:
    __getattr__, __dir__ = _found, _public
