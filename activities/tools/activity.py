"""The activities of tools: list those of this worker, check the arguments of a call, and call one.

Whoever can start a workflow or an activity can send any input. So a worker takes what a tool is,
and which calls wait for a person, from its own registry and rules; and whether a person allowed a
call from the history of the run that calls, which has to be one of Mull's.

A schema may be a stranger's: its pattern may take for ever, so it is read in a process that is
ended, and it may refer to an address, which is not fetched.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import accumulate
from typing import Any

from pydantic_core import to_json
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client
from temporalio.converter import WorkflowSerializationContext
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

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
from connection import TASK_QUEUE, heartbeating, redacted
from reflection.request import short_name
from reflection.text import cut_with_note, tally_words, terminal_safe
from reflection.turn.approval import Permission, ToolRule, approve, digest_of
from reflection.turn.tools import MAY_BE_DONE, Tool

# A listing is one event, and each call of the model repeats it.
MOST_TOOLS = 128
LISTING_BYTES = 300_000
MOST_ERRORS = 5
ERROR_BYTES = 400
# A permission is a few events before its call, but for others that people were asked meanwhile.
READ_BACK, PAGE_EVENTS = 10_000, 200
MOST_RUNS = 10_000


class Callers(Interceptor):
    """Refuses activities unless a workflow of one of these types, on Mull's own queue, calls them.

    Through it an activity reads what people allowed in the history of the run that calls it.
    """

    current: ContextVar["Callers"] = ContextVar("callers")

    def __init__(self, client: Client, types: Collection[str]) -> None:
        self._client, self._types = client, types
        self._known = set[str]()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """Return the part that sees one activity."""
        return _Called(next, self)

    async def check(self) -> None:
        """Check the caller of this activity, once for each run. Raises ApplicationError."""
        info = activity.info()
        run, run_id = info.workflow_id, info.workflow_run_id
        if run is not None and run_id is not None and info.workflow_type in self._types:
            if run_id in self._known:
                return
            handle = self._client.get_workflow_handle(run, run_id=run_id)
            first = await anext(handle.fetch_history_events(page_size=1))
            started = first.workflow_execution_started_event_attributes
            if started.task_queue.name == TASK_QUEUE:
                if len(self._known) >= MOST_RUNS:
                    self._known.clear()
                self._known.add(run_id)
                return
        raise ApplicationError(
            f"{info.activity_type} is called by Mull's workflows on the task queue {TASK_QUEUE},"
            " and by nobody else",
            type="ForeignCaller",
            non_retryable=True,
        )

    async def permission(self, call: int) -> Permission | None:
        """Return the last word on a call, by its number, in the run that calls this activity.

        What can't be read here is left out, and so is what is far back in the history.
        """
        info, client = activity.info(), self._client
        run = WorkflowExecution(
            workflow_id=info.workflow_id or "", run_id=info.workflow_run_id or ""
        )
        context = WorkflowSerializationContext(client.namespace, run.workflow_id)
        converter, token = client.data_converter.with_context(context), b""
        for _ in range(0, READ_BACK, PAGE_EVENTS):
            asked = GetWorkflowExecutionHistoryReverseRequest(
                namespace=client.namespace,
                execution=run,
                maximum_page_size=PAGE_EVENTS,
                next_page_token=token,
            )
            service = client.workflow_service
            page = await service.get_workflow_execution_history_reverse(asked, retry=True)
            for event in page.history.events:
                accepted = event.workflow_execution_update_accepted_event_attributes
                if accepted.accepted_request.input.name == "permit":
                    payloads = accepted.accepted_request.input.args.payloads
                    with suppress(Exception):
                        [given] = await converter.decode(payloads, [Permission])
                        if isinstance(given, Permission) and given.call == call:
                            return given
            token = page.next_page_token
            if not token:
                break
        return None


class _Called(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, callers: Callers) -> None:  # noqa: A002
        super().__init__(next)
        self._callers = callers

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        """Let a workflow of Mull's call the activity."""
        await self._callers.check()
        Callers.current.set(self._callers)
        return await super().execute_activity(call)


class NotAllowedError(Exception):
    """A person has to allow a call of this tool first; the message says why."""

    def __init__(self, why: str, tool: Tool) -> None:
        super().__init__(why)
        self.tool = tool


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
        """Check the arguments of a call and who allowed it, make it, and say what came of it."""
        async with heartbeating():
            try:
                async with asyncio.timeout(task.timeout_seconds):
                    return ToolOutcome.of("ok", redacted(await self._called(task)))
            except TimeoutError:
                return ToolOutcome.of("timeout", f"no answer within {task.timeout_seconds:g} s")
            except ToolError as error:
                return ToolOutcome.of(error.status, redacted(str(error)))
            except NotAllowedError as error:
                return ToolOutcome(status="asking", content=str(error), tool=error.tool)

    async def _called(self, task: CallTask) -> str:
        tool, call = await self._found(task.tool.name, task.docs)
        if wrong := await check_arguments(task.model_copy(update={"tool": tool})):
            raise ToolError(wrong, "invalid")
        await self._allowed(tool, task)
        if activity.info().attempt > 1 and not (tool.read_only or tool.idempotent):
            raise ToolError(f"it was begun by another attempt: {MAY_BE_DONE}", "timeout")
        async with asyncio.timeout(tool.timeout_seconds):
            return await call(task.arguments)

    async def _found(
        self, name: str, docs: str | None
    ) -> tuple[Tool, Callable[[dict[str, Any]], Awaitable[str]]]:
        """Find a tool of this worker, and what calls it. Raises ToolError."""
        if function := self._local(docs).get(name):
            return function.tool, function
        server = self._servers.get(name.partition("__")[0])
        if server is not None and (tool := await server.find(name)):
            return tool, partial(server.call, tool)
        raise ToolError(f"this worker has no tool {name}", "unknown")

    async def _allowed(self, tool: Tool, task: CallTask) -> None:
        """Hold a call to this worker's rules. Raises ToolError and NotAllowedError."""
        held = approve(tool.name, task.arguments, self._rules, read_only=tool.read_only)
        if held.action == "deny":
            raise ToolError(held.why, "denied")
        if held.action == "allow":
            return
        run, callers = activity.info().workflow_run_id or "", Callers.current.get(None)
        digest = digest_of(run, task.call, tool.name, tool.parameters, task.arguments)
        given = await callers.permission(task.call) if callers else None
        if given is None or not given.allow:
            raise NotAllowedError("nobody has allowed it yet", tool)
        if given.run_id is None:
            raise NotAllowedError("an older client allowed it, without saying what", tool)
        if given.run_id != run:
            raise NotAllowedError(f"it was allowed in the run {given.run_id}: {MAY_BE_DONE}", tool)
        if given.digest != digest:
            raise NotAllowedError("it is not as it was allowed: what the tool takes changed", tool)


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
