"""The activities of tools: list those of this worker, check the arguments of a call, and call one.

Inputs are not trusted. A worker reads its tools, and which calls ask a person, from its own
registry and rules, and what a person allowed from the history of the run, which must be Mull's.

Schemas are not trusted either. A pattern may take for ever, so they are read in a process that is
ended after a time-out; addresses in them are not fetched.
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
from mull.connection import TASK_QUEUE, heartbeating
from mull.keys import redacted
from mull.request import short_name
from mull.text import cut_with_note, tally_words, terminal_safe
from mull.turn.approval import Permission, Question, ToolRule, approve
from mull.turn.tools import MAY_BE_DONE, Tool

# A listing is one event, and each call of the model repeats it.
MOST_TOOLS = 128
KNOWN_COLUMNS = 400
LISTING_BYTES = 300_000
MOST_ERRORS = 5
ERROR_BYTES = 400
# A permission is a few events before its call, unless people were asked about others meanwhile.
READ_BACK, PAGE_EVENTS, MOST_RUNS = 10_000, 200, 10_000


class Callers(Interceptor):
    """Refuses activities unless a workflow of one of these types, on Mull's own queue, calls them.

    Activities read from `current` what people allowed in the run that calls them.
    """

    current = ContextVar["Callers"]("callers")

    def __init__(self, client: Client, types: Collection[str]) -> None:
        self._client, self._types, self._known = client, types, set[str]()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """Return the interceptor of one activity."""
        called = _Called(next)
        called.callers = self
        return called

    async def check(self) -> None:
        """Check the caller of this activity, once for each run. Raises ApplicationError."""
        info = activity.info()
        run_id = info.workflow_run_id or ""
        if info.workflow_type in self._types and run_id not in self._known:
            handle = self._client.get_workflow_handle(info.workflow_id or "", run_id=run_id)
            first = await anext(handle.fetch_history_events(page_size=1))
            if first.workflow_execution_started_event_attributes.task_queue.name == TASK_QUEUE:
                self._known = {run_id, *(self._known if len(self._known) < MOST_RUNS else ())}
        if run_id not in self._known:
            said = f"only Mull's workflows on the task queue {TASK_QUEUE} call {info.activity_type}"
            raise ApplicationError(said, type="ForeignCaller", non_retryable=True)

    async def permission(self, call: int) -> Permission | None:
        """Return the last readable permission for a call, in the run that calls this activity."""
        info, client = activity.info(), self._client
        workflow_id, run_id = info.workflow_id or "", info.workflow_run_id or ""
        run = WorkflowExecution(workflow_id=workflow_id, run_id=run_id)
        context = WorkflowSerializationContext(client.namespace, workflow_id)
        converter = client.data_converter.with_context(context)
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace, execution=run, maximum_page_size=PAGE_EVENTS
        )
        read = client.workflow_service.get_workflow_execution_history_reverse
        for _ in range(0, READ_BACK, PAGE_EVENTS):
            page = await read(request, retry=True)
            for event in page.history.events:
                accepted = event.workflow_execution_update_accepted_event_attributes
                given = accepted.accepted_request.input
                if given.name == "permit":
                    with suppress(Exception):
                        [word] = await converter.decode(given.args.payloads, [Permission])
                        if isinstance(word, Permission) and word.call == call:
                            return word
            request.next_page_token = page.next_page_token
            if not page.next_page_token:
                break
        return None


class _Called(ActivityInboundInterceptor):
    callers: Callers

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        """Check the caller, then run the activity."""
        await self.callers.check()
        Callers.current.set(self.callers)
        return await super().execute_activity(call)


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

        If a server's tools can't be listed, add a warning.
        """
        async with heartbeating():
            listed = await asyncio.gather(*map(self._tools_of, self._servers.values()))
        every = [function.tool for function in self._local(task.docs).values()]
        every += [tool for some, _ in listed for tool in some]
        warnings = [warning for _, some in listed for warning in some]
        # Of tools with the same name keep the first, since that is the one that is called.
        tools = list({tool.name: tool for tool in reversed(every)}.values())[::-1]
        unknown = ""
        if task.names is not None:
            known = dict.fromkeys(n for tool in tools for n in (tool.group, tool.name) if n)
            # Of a server that can't be reached now its own warning tells.
            lost = {name for name, (_, some) in zip(self._servers, listed, strict=True) if some}
            if wrong := [
                short_name(name)
                for name in task.names
                if name not in known and name.partition("__")[0] not in lost
            ]:
                more = ["documents with docs"] if self._library and task.docs is None else []
                has = terminal_safe(", ".join([*known, *more]), KNOWN_COLUMNS) or "none"
                unknown = f"the worker has no tool {', '.join(wrong)}; it has {has}"
                warnings.append(unknown)
            tools = [tool for tool in tools if {tool.name, tool.group} & {*task.names}]
        sizes = accumulate(len(to_json(tool)) for tool in tools)
        kept = [tool for tool, size in zip(tools, sizes, strict=True) if size <= LISTING_BYTES]
        kept = kept[:MOST_TOOLS]
        if len(kept) < len(tools):
            left_out = tally_words(len(tools) - len(kept), "tool")
            warnings.append(f"{left_out} left out, since there are too many: name those to use")
        return Listing(
            tools=tuple(kept), rules=self._rules, warnings=tuple(warnings), unknown=unknown
        )

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
        """Check the arguments of a call and its permission, make it, and return the outcome."""
        async with heartbeating():
            try:
                async with asyncio.timeout(task.timeout_seconds):
                    return ToolOutcome.of("ok", redacted(await self._called(task)))
            except TimeoutError:
                return ToolOutcome.of("timeout", f"no answer within {task.timeout_seconds:g} s")
            except ToolError as error:
                return ToolOutcome.of(error.status, redacted(str(error)), error.tool)

    async def _called(self, task: CallTask) -> str:
        tool, call = await self._found(task)
        if wrong := await check_arguments(task.model_copy(update={"tool": tool})):
            raise ToolError(wrong, "invalid")
        await self._allowed(tool, task)
        if activity.info().attempt > 1 and not (tool.read_only or tool.idempotent):
            raise ToolError(f"it was begun by another attempt: {MAY_BE_DONE}", "timeout")
        async with asyncio.timeout(tool.timeout_seconds):
            return await call(task.arguments)

    async def _found(self, task: CallTask) -> tuple[Tool, Callable[..., Awaitable[str]]]:
        """Find a tool of this worker, and the function that calls it. Raises ToolError."""
        name = task.tool.name
        if function := self._local(task.docs).get(name):
            return function.tool, function
        server = self._servers.get(name.partition("__")[0])
        if server is not None and (tool := await server.find(name)):
            return tool, partial(server.call, tool)
        raise ToolError(f"this worker has no tool {name}", "unknown")

    async def _allowed(self, tool: Tool, task: CallTask) -> None:
        """Check a call against this worker's rules, and a person's permission. Raises ToolError."""
        held = approve(tool.name, task.arguments, self._rules, read_only=tool.read_only)
        if held.action == "deny":
            raise ToolError(held.why, "denied")
        if held.action == "allow" and not task.asked:
            return
        run, callers = activity.info().workflow_run_id or "", Callers.current.get(None)
        question = Question.of(run, task.call, tool.name, tool.parameters, task.arguments)
        given = await callers.permission(task.call) if callers else None
        if given is None or not given.allow:
            why = "it has not been allowed yet"
        elif given.run_id != run:
            why = f"it was allowed elsewhere ({given.run_id or 'an older client'}): {MAY_BE_DONE}"
        elif given.digest != question.digest:
            why = "the tool's parameters have changed since it was allowed"
        else:
            return
        raise ToolError(why, "asking", tool)


@activity.defn
async def check_arguments(task: CallTask) -> str | None:
    """List how the arguments of a call break its tool's schema; None if they don't."""
    try:
        errors = await read_apart(find_errors, task.tool.parameters, task.arguments)
    except RuntimeError as error:
        return f"they can't be checked by the tool's schema: {terminal_safe(str(error), 200)}"
    return "; ".join(errors) or None


def find_errors(schema: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    """List the first few errors of arguments by a schema; raises if the schema can't be used."""
    # The worker's own process does not need these.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    # An empty registry, so that references are not retrieved.
    errors = kind(schema, registry=Registry()).iter_errors(arguments)
    said = []
    for error, _ in zip(errors, range(MOST_ERRORS), strict=False):
        place = "".join(f"{part}: " for part in error.absolute_path)
        said.append(cut_with_note(place + error.message, ERROR_BYTES))
    return said
