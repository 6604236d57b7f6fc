"""Tools that are functions: a decorator, the schema from annotations, and how one is called.

from activities.tools import tool

@tool(read_only=True, idempotent=True, keys=("city:{city}",))
async def weather(city: str, days: Annotated[int, Field(ge=1, le=7)] = 1) -> str:
'''Forecast the weather in a city.'''
"""

import asyncio
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs, to_json

from activities.tools.port import ToolError
from reflection.request import explain
from reflection.turn.budget import TOOL_SECONDS
from reflection.turn.tools import Tool

MARK = "__mull_tool__"
THREADS = 16

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mull-tools")


class Function:
    """A tool and the function behind it.

    One that is not `async` runs in one of sixteen threads. A thread can't be ended: after a
    time-out its function goes on, and its result is dropped.
    """

    def __init__(self, tool: Tool, function: Callable[..., Any]) -> None:
        self.tool = tool
        self._waits = inspect.iscoroutinefunction(function)
        self._calls = _adapter(function)

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        """Call the function; a result that is no text is written as JSON. Raises ToolError."""
        try:
            if self._waits:
                result = await self._call(arguments)
            else:
                run, loop = copy_context().run, asyncio.get_running_loop()
                result = await loop.run_in_executor(_threads, run, self._call, arguments)
            return result if isinstance(result, str) else to_json(result, fallback=str).decode()
        except ToolError:
            raise
        except ValidationError as error:
            raise ToolError(explain(error), "invalid") from None
        except Exception as error:
            raise ToolError(f"{type(error).__name__}: {error}") from error

    def _call(self, arguments: Mapping[str, Any]) -> Any:
        return self._calls.validate_python(ArgsKwargs((), dict(arguments)))


def tool(
    *,
    read_only: bool = False,
    idempotent: bool = False,
    keys: tuple[str, ...] = (),
    group: str = "",
    timeout_seconds: float = TOOL_SECONDS,
) -> Callable[[FunctionT], FunctionT]:
    """Make a function a tool: its name, its docstring and its annotations describe it.

    A tool counts as writing unless it is `read_only`. `idempotent`: the same call gives the same
    result throughout a turn. `keys` name what a call touches, with arguments in braces. Raises
    ValueError where the function can't be called by the names of its arguments.
    """

    def mark(function: FunctionT) -> FunctionT:
        schema = _adapter(function).json_schema()
        if schema.get("type") != "object":
            raise ValueError(f"{function.__name__}: a tool has named arguments alone")
        made = Tool(
            name=function.__name__,
            description=inspect.getdoc(function) or "",
            parameters=schema,
            read_only=read_only,
            idempotent=idempotent,
            keys=keys,
            group=group,
            timeout_seconds=timeout_seconds,
        )
        setattr(function, MARK, made)
        return function

    return mark


def _adapter(function: Any) -> TypeAdapter[Any]:
    """Return what reads the arguments of a function by its annotations, and calls it."""
    return TypeAdapter(function)


def functions_of(*marked: Callable[..., Any]) -> dict[str, Function]:
    """Take functions that are tools, by name. Raises ValueError if two have the same."""
    found: dict[str, Function] = {}
    for function in marked:
        made = getattr(function, MARK)
        if made.name in found:
            raise ValueError(f"two tools have the name {made.name}")
        found[made.name] = Function(made, function)
    return found


def tools_in(module: str) -> list[Callable[..., Any]]:
    """Import a module, by its name or the path of its file, and list the tools in it.

    Raises ValueError where it can't be imported or has none.
    """
    try:
        found = _load(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"tools can't be imported from {module}: {said}") from error
    marked = [one for one in vars(found).values() if isinstance(getattr(one, MARK, None), Tool)]
    if not marked:
        raise ValueError(f"{module} has no function that is decorated with @tool(...)")
    return marked


def _load(path: Path) -> ModuleType:
    name = f"mull_tools_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Where annotations are texts, they are read by the module that is found here.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
