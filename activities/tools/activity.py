"""The activities of tools: list those of this worker, check the arguments of a call, and call one.

A schema may be a stranger's: its pattern may take for ever, so it is read in a process that is
ended, and it may refer to an address, which is not fetched.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from pydantic_core import to_json
from temporalio import activity

from activities.checks import read_apart
from activities.tools.builtin import document_tools
from activities.tools.functions import Function, functions_of
from activities.tools.port import (
    CallTask,
    Library,
    Listing,
    ListTask,
    ToolError,
    ToolOutcome,
    ToolServer,
)
from connection import heartbeating, redacted
from reflection.request import short_name
from reflection.text import cut_with_note, tally_words, terminal_safe
from reflection.turn.approval import ToolRule
from reflection.turn.tools import Tool

# A listing is one event, and each call of the model repeats it.
MOST_TOOLS = 128
LISTING_BYTES = 300_000
MOST_ERRORS = 5
ERROR_BYTES = 400


class ToolActivities:
    """The tools of a worker: its functions, its documents, and its servers."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        servers: Sequence[ToolServer] = (),
        library: Library | None = None,
        rules: Sequence[ToolRule] = (),
    ) -> None:
        self._functions = functions
        self._servers = {server.name: server for server in servers}
        self._library = library
        self._rules = tuple(rules)

    @activity.defn
    async def list_tools(self, task: ListTask) -> Listing:
        """List the tools that a turn may use: functions first, then those of each server.

        What of a server can't be listed is a warning.
        """
        async with heartbeating():
            listed = await asyncio.gather(*map(self._tools_of, self._servers.values()))
        every = [function.tool for function in self._local(task.docs).values()]
        every += [tool for some, _ in listed for tool in some]
        warnings = [warning for _, some in listed for warning in some]
        # Of tools with the same name the first counts, as it is the one that is called.
        tools = list({tool.name: tool for tool in reversed(every)}.values())[::-1]
        if task.names is not None:
            known = {name for tool in tools for name in (tool.name, tool.group)}
            unknown = [short_name(name) for name in task.names if name not in known]
            warnings += [f"the worker has no tool {name}" for name in unknown]
            tools = [tool for tool in tools if {tool.name, tool.group} & {*task.names}]
        sizes = accumulate(len(to_json(tool)) for tool in tools)
        kept = [tool for tool, size in zip(tools, sizes, strict=True) if size <= LISTING_BYTES]
        kept = kept[:MOST_TOOLS]
        if len(kept) < len(tools):
            left_out = tally_words(len(tools) - len(kept), "tool")
            warnings.append(f"{left_out} left out, since there are too many: name those to use")
        return Listing(tools=tuple(kept), rules=self._rules, warnings=tuple(warnings))

    async def close(self) -> None:
        """Stop the servers."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    async def _tools_of(self, server: ToolServer) -> tuple[list[Tool], list[str]]:
        try:
            return await server.tools()
        except ToolError as error:
            return [], [f"the tools of {server.name} are missing: {error}"]

    def _local(self, docs: str | None) -> Mapping[str, Function]:
        if self._library is None or docs is None:
            return self._functions
        return {**functions_of(*document_tools(self._library, docs)), **self._functions}

    @activity.defn
    async def call_tool(self, task: CallTask) -> ToolOutcome:
        """Check the arguments of a call, make it, and say what came of it."""
        async with heartbeating():
            try:
                async with asyncio.timeout(task.timeout_seconds):
                    return ToolOutcome.of("ok", redacted(await self._called(task)))
            except TimeoutError:
                return ToolOutcome.of("timeout", f"no answer within {task.timeout_seconds:g} s")
            except ToolError as error:
                return ToolOutcome.of(error.status, redacted(str(error)))

    async def _called(self, task: CallTask) -> str:
        tool, arguments = task.tool, task.arguments
        if wrong := await check_arguments(task):
            raise ToolError(wrong, "invalid")
        if function := self._local(task.docs).get(tool.name):
            return await function(arguments)
        if server := self._servers.get(tool.name.partition("__")[0]):
            return await server.call(tool, arguments)
        raise ToolError(f"this worker has no tool {tool.name}", "unknown")


@activity.defn
async def check_arguments(task: CallTask) -> str | None:
    """Say what is wrong with the arguments of a call by its tool's schema; None if nothing is."""
    try:
        errors = await read_apart(find_errors, task.tool.parameters, task.arguments)
    except RuntimeError as error:
        return f"they can't be checked by the tool's schema: {terminal_safe(str(error), 200)}"
    return "; ".join(errors) or None


def find_errors(schema: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    """List what is wrong with arguments, the first few; raises if the schema can't be used."""
    # In the worker's own process these are not needed.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    # A registry that has nothing, and retrieves nothing.
    errors = kind(schema, registry=Registry()).iter_errors(arguments)
    said = []
    for error, _ in zip(errors, range(MOST_ERRORS), strict=False):
        place = "".join(f"{part}: " for part in error.absolute_path)
        said.append(cut_with_note(place + error.message, ERROR_BYTES))
    return said
