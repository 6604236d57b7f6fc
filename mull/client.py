"""The client: runs are started or found again, and their results returned as the loops' records."""

import asyncio
import math
import re
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, Unpack, overload

import temporalio.client
from temporalio.common import Priority, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from mull import connection
from mull.agents.request import ReflexionRequest
from mull.agents.result import ReflexionResult
from mull.batch.request import REQUESTS, BatchRequest
from mull.batch.result import BatchResult
from mull.connection import translated
from mull.critique.request import ReflectOnResultRequest
from mull.critique.result import ReflectOnResultResult
from mull.errors import RequestError, checked, no_worker
from mull.handle import Run, find
from mull.keywords import (
    AgentFields,
    AgentStart,
    AskFields,
    AskStart,
    BatchFields,
    BatchStart,
    ReflectFields,
    ReflectStart,
    ReflexionFields,
    ReflexionStart,
    SessionFields,
    TurnFields,
    TurnStart,
)
from mull.loops import LOOPS, loop_of
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import MultiPathResult
from mull.request import Request, explain
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import SelfConsistencyResult
from mull.talk import Talk
from mull.text import terminal_safe
from mull.turn.request import ToolTurnRequest
from mull.turn.result import ToolTurnResult
from mull.turn.session import SessionRequest

__all__ = ("Client", "Run", "Talk", "connect")

RequestT = TypeVar("RequestT", bound=Request)

ASKED = "asked"  # a memo: so a list needs no call for each run
SUMMARY_BYTES = 200
# So a list of 80 columns has room for the id, how the run ended, its start and its result.
SLUG_COLUMNS = 16
# A worker that polled just now is not looked for again at each of many requests.
SERVED_SECONDS = 10.0
ANEW = WorkflowIDReusePolicy.ALLOW_DUPLICATE
# Runs that failed or were cancelled have no result, and are started anew.
UNLESS_DONE = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY


class connect:  # noqa: N801 - read as a function, as contextlib's are
    """Connect by Temporal's standard environment configuration, as the command line does.

    TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, profiles, TLS and API keys are the SDK's; payloads are
    encrypted where MULL_ENCRYPTION_KEYS is set. Raises NoServerError and ConfigurationError.
    """

    def __await__(self) -> Generator[Any, None, "Client"]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> "Client":
        return Client(await connection.connect(quiet=True))

    async def __aexit__(self, *_: object) -> None:
        return None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{name}: write `m = await mull.connect()`, then m.{name}")


class Client:
    """Starts runs and finds them again; `temporal` is the SDK's client that it uses.

    Given a client of your own, it takes a copy with Mull's payload converter and your codec.

    Each loop has a method that starts a run and waits for its result. It takes what the run is
    about and fields of its request by name, or a request. With an `id` the call can be repeated:
    a run with this id that is done or goes on, and was started by the same request, is the same
    run, and nothing is paid again. One that failed or was cancelled is started anew, and `again`
    starts anew in any case. With `check` a result that is not to be built on is an error. They
    raise the errors of `mull.errors`; what ends the wait, `task.cancel()` too, never ends the run.
    """

    def __init__(self, temporal: temporalio.client.Client) -> None:
        self.temporal = temporal
        converter = connection.DATA_CONVERTER.payload_converter_class
        if temporal.data_converter.payload_converter_class is not converter:
            config = temporal.config()
            codec = temporal.data_converter.payload_codec
            config["data_converter"] = replace(connection.DATA_CONVERTER, payload_codec=codec)
            self.temporal = temporalio.client.Client(**config)
        self._served = dict[str, float]()
        self._asking = asyncio.Lock()

    async def ask(
        self,
        question: str | SelfConsistencyRequest,
        *,
        id: str | None = None,
        check: bool = False,
        again: bool = False,
        **fields: Unpack[AskFields],
    ) -> SelfConsistencyResult:
        """Ask a question and sample until the answers converge."""
        request = request_of(SelfConsistencyRequest, question, fields)
        run: Run[SelfConsistencyResult] = await self._begin(request, id, again=again)
        return await run.result(check=check)

    async def reflect(
        self,
        query: str | ReflectOnResultRequest,
        *,
        id: str | None = None,
        check: bool = False,
        again: bool = False,
        **fields: Unpack[ReflectFields],
    ) -> ReflectOnResultResult:
        """Write a draft, judge it, and revise it while its score is low."""
        request = request_of(ReflectOnResultRequest, query, fields)
        run: Run[ReflectOnResultResult] = await self._begin(request, id, again=again)
        return await run.result(check=check)

    async def agent(
        self,
        prompt: str | MultiPathRequest,
        *,
        id: str | None = None,
        check: bool = False,
        again: bool = False,
        **fields: Unpack[AgentFields],
    ) -> MultiPathResult:
        """Research documents or write code, until nothing is open."""
        request = request_of(MultiPathRequest, prompt, fields)
        run: Run[MultiPathResult] = await self._begin(request, id, again=again)
        return await run.result(check=check)

    async def turn(
        self,
        message: str | ToolTurnRequest,
        *,
        id: str | None = None,
        check: bool = False,
        again: bool = False,
        **fields: Unpack[TurnFields],
    ) -> ToolTurnResult:
        """Answer a message with tools, and reflect midway."""
        request = request_of(ToolTurnRequest, message, fields)
        run: Run[ToolTurnResult] = await self._begin(request, id, again=again)
        return await run.result(check=check)

    async def reflexion(
        self,
        task: str | ReflexionRequest,
        *,
        id: str | None = None,
        check: bool = False,
        again: bool = False,
        **fields: Unpack[ReflexionFields],
    ) -> ReflexionResult:
        """Try a task in episodes, and reflect on each that fails."""
        request = request_of(ReflexionRequest, task, fields)
        run: Run[ReflexionResult] = await self._begin(request, id, again=again)
        return await run.result(check=check)

    async def batch(
        self,
        items: Sequence[Mapping[str, Any]] | BatchRequest,
        *,
        id: str | None = None,
        check: bool = False,
        again: bool = False,
        **fields: Unpack[BatchFields],
    ) -> BatchResult:
        """Run every item by every variant, at most 500 runs; each has its own result, by its id."""
        request = request_of(BatchRequest, items, fields)
        run: Run[BatchResult] = await self._begin(request, id, again=again)
        return await run.result(check=check)

    @overload
    async def start(
        self,
        request: Literal["ask"],
        *,
        id: str | None = None,
        again: bool = False,
        **fields: Unpack[AskStart],
    ) -> Run[SelfConsistencyResult]: ...
    @overload
    async def start(
        self, request: SelfConsistencyRequest, *, id: str | None = None, again: bool = False
    ) -> Run[SelfConsistencyResult]: ...
    @overload
    async def start(
        self,
        request: Literal["reflect"],
        *,
        id: str | None = None,
        again: bool = False,
        **fields: Unpack[ReflectStart],
    ) -> Run[ReflectOnResultResult]: ...
    @overload
    async def start(
        self, request: ReflectOnResultRequest, *, id: str | None = None, again: bool = False
    ) -> Run[ReflectOnResultResult]: ...
    @overload
    async def start(
        self,
        request: Literal["agent"],
        *,
        id: str | None = None,
        again: bool = False,
        **fields: Unpack[AgentStart],
    ) -> Run[MultiPathResult]: ...
    @overload
    async def start(
        self, request: MultiPathRequest, *, id: str | None = None, again: bool = False
    ) -> Run[MultiPathResult]: ...
    @overload
    async def start(
        self,
        request: Literal["turn"],
        *,
        id: str | None = None,
        again: bool = False,
        **fields: Unpack[TurnStart],
    ) -> Run[ToolTurnResult]: ...
    @overload
    async def start(
        self, request: ToolTurnRequest, *, id: str | None = None, again: bool = False
    ) -> Run[ToolTurnResult]: ...
    @overload
    async def start(
        self,
        request: Literal["reflexion"],
        *,
        id: str | None = None,
        again: bool = False,
        **fields: Unpack[ReflexionStart],
    ) -> Run[ReflexionResult]: ...
    @overload
    async def start(
        self, request: ReflexionRequest, *, id: str | None = None, again: bool = False
    ) -> Run[ReflexionResult]: ...
    @overload
    async def start(
        self,
        request: Literal["batch"],
        *,
        id: str | None = None,
        again: bool = False,
        **fields: Unpack[BatchStart],
    ) -> Run[BatchResult]: ...
    @overload
    async def start(
        self, request: BatchRequest, *, id: str | None = None, again: bool = False
    ) -> Run[BatchResult]: ...
    @overload
    async def start(
        self, request: Request, *, id: str | None = None, again: bool = False
    ) -> Run[Any]: ...
    async def start(
        self,
        request: str | Request,
        *,
        id: str | None = None,
        again: bool = False,
        **fields: Any,
    ) -> Run[Any]:
        """Start a run without waiting for it: by the name of its command, or by its request.

        Where no worker is there, the run waits for one.
        """
        if isinstance(request, str):
            loop = next((loop for loop in LOOPS if loop.command == request), None)
            if loop is None:
                known = ", ".join(loop.command for loop in LOOPS)
                raise RequestError(f"there is no command {request!r}", f"Expected one of {known}.")
            request, fields = checked(loop.request, fields), {}
        return await self.begin(request_of(type(request), request, fields), id, again=again)

    async def get(self, id: str) -> Run[Any]:
        """Find a run of any loop by its id. Raises RequestError if there is none."""
        return await find(self.temporal, id)

    def session(
        self, id: str, request: SessionRequest | None = None, **fields: Unpack[SessionFields]
    ) -> Talk:
        """Return a conversation, which its first message begins, or goes on with.

        The fields, or the request, are what every turn of a new session is held to. Raises
        RequestError.
        """
        held_to = checked(SessionRequest, fields) if request is None else request
        return Talk(self.temporal, id, held_to, self.need_workers)

    async def _begin(self, request: Request, identity: str | None, *, again: bool) -> Run[Any]:
        await self.need_workers(loop_of(request).queues(request))
        return await self.begin(request, identity, again=again)

    async def begin(
        self,
        request: Request,
        identity: str | None = None,
        *,
        again: bool = False,
        priority: int | None = None,
        summary: str = "",
    ) -> Run[Any]:
        """Start a run, or find the one that this request has started under this id.

        Lists show it by its `summary`, which by default is what it is about.
        """
        loop = loop_of(request)
        subject = summary or getattr(request, request.subject_field)
        subject = subject if isinstance(subject, str) else ""
        # Ids are never encrypted.
        words = subject if self.temporal.data_converter.payload_codec is None else ""
        if identity is not None and not (
            isinstance(identity, str) and identity and identity.isprintable()
        ):
            raise RequestError("id: expected printable characters on one line", field="id")
        chosen = identity or new_id(loop.command, words)
        summary = terminal_safe(subject, 120).encode()[:SUMMARY_BYTES].decode(errors="ignore")
        with translated(chosen):
            try:
                handle = await self.temporal.start_workflow(
                    loop.workflow,
                    request,
                    id=chosen,
                    task_queue=connection.TASK_QUEUE,
                    task_timeout=request.task_timeout(),
                    result_type=loop.result,
                    static_summary=summary,
                    memo={ASKED: summary},
                    priority=Priority(priority_key=priority),
                    id_reuse_policy=ANEW if again else UNLESS_DONE,
                )
            except WorkflowAlreadyStartedError:
                if again:
                    said = f"a run with the id {chosen} goes on, so it can't be started anew"
                    wait = "Wait for its end, or choose another id."
                    raise RequestError(said, wait, "id") from None
                return await self._same(chosen, request)
        return Run(self.temporal, loop, handle)

    async def _same(self, identity: str, request: Request) -> Run[Any]:
        """Find the run that has this id already, which has to be of the same request."""
        found = await find(self.temporal, identity)
        if not await found.was_asked(request):
            stands = "goes on" if found.goes_on else "is done"
            said = f"the run with the id {identity} {stands}, and had another request"
            anew = "" if found.goes_on else ", or start anew with again=True (--again)"
            raise RequestError(said, f"Choose another id{anew}.", "id")
        return found

    async def need_workers(self, queues: Sequence[str]) -> None:
        """Raise NoWorkerError unless workers poll all these task queues."""
        async with self._asking:
            now = time.monotonic()
            since = now - SERVED_SECONDS
            due = [name for name in queues if self._served.get(name, -math.inf) < since]
            with translated():
                missing = await connection.unserved(self.temporal, due)
            self._served |= dict.fromkeys(set(due).difference(missing), now)
        if missing:
            raise no_worker(missing)


def new_id(command: str, text: str, key: str = "") -> str:
    """Build a readable workflow id: the command, a few words, eight characters of `key`.

    Without a key they are random.
    """
    words = re.findall(r"[a-z0-9]+", text.lower())[:6]
    slug = "-".join(words)[:SLUG_COLUMNS].strip("-")
    return "-".join(part for part in (command, slug, (key or uuid.uuid4().hex)[:8]) if part)


def request_of(kind: type[RequestT], given: Any, fields: Mapping[str, Any]) -> RequestT:
    """Return a request as it is, or make one of what it is about and its fields."""
    if isinstance(given, kind):
        if fields:
            said = f"{', '.join(fields)}: give fields, or a request that has them"
            raise RequestError(said, field=min(fields))
        request = given
    else:
        request = checked(kind, {kind.subject_field: given, **fields})
    if isinstance(request, BatchRequest):
        for (at, item), variant in product(enumerate(request.items), request.variants):
            try:
                variant.request_for(item)
            except ValueError as error:
                why = explain(error, REQUESTS[variant.workflow].model_fields)
                said = f"items.{at}, variant {variant.name}: {why}"
                raise RequestError(said, field="items") from None
    return request
