"""Tools that are functions: a decorator, the schema from annotations, and how one is called."""

import asyncio
import importlib
import inspect
import runpy
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs, to_json

from activities.tools.port import ToolError
from mull.request import explain
from mull.turn.budget import TOOL_SECONDS
from mull.turn.tools import Tool

MARK = "__mull_tool__"
THREADS = 16

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mull-tools")


class Function:
    """A tool and the function behind it, which an adapter calls by its annotations.

    A function that is not `async` runs in one of sixteen threads. A thread can't be ended: after a
    time-out its function goes on, and its result is dropped.
    """

    def __init__(self, tool: Tool, adapter: TypeAdapter[Any], *, waits: bool) -> None:
        self.tool, self._adapter, self._waits = tool, adapter, waits

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        """Call the function; write a result that is not text as JSON. Raises ToolError."""
        call, given = self._adapter.validate_python, ArgsKwargs((), dict(arguments))
        try:
            if self._waits:
                result = await call(given)
            else:
                run, loop = copy_context().run, asyncio.get_running_loop()
                result = await loop.run_in_executor(_threads, run, call, given)
            return result if isinstance(result, str) else to_json(result, fallback=str).decode()
        except ToolError:
            raise
        except ValidationError as error:
            raise ToolError(explain(error), "invalid") from None
        except Exception as error:
            raise ToolError(f"{type(error).__name__}: {error}") from error


def tool(
    *,
    read_only: bool = False,
    idempotent: bool = False,
    keys: tuple[str, ...] = (),
    group: str = "",
    timeout_seconds: float = TOOL_SECONDS,
) -> Callable[[FunctionT], FunctionT]:
    """Make a function a tool: its name, its docstring and its annotations describe it.

    The flags are those of a `Tool`: it counts as writing unless it is `read_only`. Raises
    ValueError if the function's arguments can't all be given by name.
    """

    def mark(function: FunctionT) -> FunctionT:
        adapter = TypeAdapter[Any](cast("Any", function))
        schema = adapter.json_schema()
        if schema.get("type") != "object":
            raise ValueError(f"{function.__name__}: a tool may only have named arguments")
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
        waits = inspect.iscoroutinefunction(function)
        setattr(function, MARK, Function(made, adapter, waits=waits))
        return function

    return mark


def functions_of(*marked: Callable[..., Any]) -> dict[str, Function]:
    """Map names to functions that are tools. Raises ValueError if two have the same name."""
    found: dict[str, Function] = {}
    for function in marked:
        made: Function = getattr(function, MARK)
        if made.tool.name in found:
            raise ValueError(f"two tools have the name {made.tool.name}")
        found[made.tool.name] = made
    return found


def members_of(module: str, what: str) -> dict[str, Any]:
    """Import a module, by its name or the path of its file. Raises ValueError, naming `what`."""
    try:
        is_file = module.endswith(".py")
        return runpy.run_path(module) if is_file else vars(importlib.import_module(module))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"{what} can't be imported from {module}: {said}") from error


def tools_in(module: str) -> list[Callable[..., Any]]:
    """List the tools in a module. Raises ValueError if it can't be imported or has no tools."""
    found = members_of(module, "tools")
    marked = [one for one in found.values() if isinstance(getattr(one, MARK, None), Function)]
    if not marked:
        raise ValueError(f"{module} has no function that is decorated with @tool(...)")
    return marked
