"""The MCP server: tools by which a model starts runs and looks at them again.

A model may be told what to do by a text that it reads, so a tool takes texts and bounds alone. The
model that is asked, folders and the most that is spent are fixed by whoever runs the server; no
tool decides on what waits for a person, and none shows a run that was not started by its caller.
"""

import asyncio
import json
import logging
import re
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, redirect_stdout, suppress
from typing import Any, Literal, NamedTuple

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from pydantic import ConfigDict, Field, create_model

from commands.command import options_of
from mull import connection, telemetry
from mull.client import Client
from mull.errors import MullError, RequestError
from mull.handle import Run
from mull.loops import CRITIQUE, MULTIPATH, SAMPLING, Loop, loop_of
from mull.request import Record, Request, explain, parse_request, short_name
from mull.sheet import next_words, reason_words
from mull.text import terminal_safe, usd

Context = ServerRequestContext[Any, Any]
State = Literal["done", "running", "waiting_for_a_person"]

# Common fields that no model sets: models' names and folders; and numbers that multiply what a run
# costs, and for which there are presets, and the worker's own limits.
NEVER = {"folder", "model", "models"}
UNBOUNDED = {"max_responses", "max_output_tokens"}
# For a cancellation to be sent, once the client has gone.
END_SECONDS = 5.0
DOUBT = "Where `doubt` is not empty, don't build on the answer: say so, with the reason."
INSTRUCTIONS = f"""\
Mull checks answers by asking more than once. `ask` is for a short answer that is right or wrong, \
`reflect` for a text that has to be good, `agent` for a report on documents or for tested Python \
code. Each call asks a language model several times, which costs money and takes from seconds to \
minutes: don't take them for what you can do as well yourself. {DOUBT} A call that takes long \
returns an id: ask for its result by `show`, and don't start it again."""


class Offer(NamedTuple):
    """A loop as a tool: the fields that it takes beside the common ones, and when to take it."""

    loop: Loop
    own: tuple[str, ...]
    words: str

    @property
    def taken(self) -> tuple[str, ...]:
        """The fields of the request that a model may set."""
        kind = self.loop.request
        common = [
            name
            for name, option in options_of(kind).items()
            if option.common and option.form not in NEVER and name not in UNBOUNDED
        ]
        return (kind.subject_field, *self.own, *common)


OFFERS = {
    "ask": Offer(
        SAMPLING,
        (),
        "Ask a language model the same question until its answers agree, and return the answer that"
        " most of them gave. Take it where one short answer is right or wrong (a number, a name, a"
        " choice) and a wrong one would cost; not for texts, and not for what you know for sure."
        " Say by `answers` how answers are compared: number for numbers, choice for letters of"
        " options. It costs 5 to 10 calls of a model, with the preset thrifty as few as 3, with"
        " thorough up to 40. `agreement` is the share of the votes for the answer, and not how"
        " likely it is right: models agree on wrong answers too.",
    ),
    "reflect": Offer(
        CRITIQUE,
        ("draft", "sources", "min_complexity"),
        "Have a text written, judged by criteria and revised while its score is low, and return the"
        " best draft. Take it for a text of which quality matters, or with `draft` to have a text"
        " of yours judged and revised. A query that looks simple gets one draft without a score,"
        " unless `min_complexity` is 0. It costs a call for each draft and one for each judgement:"
        " up to 4 by default, 2 more for each further revision. `score` is the judge's, 0 to 1.",
    ),
    "agent": Offer(
        MULTIPATH,
        ("tests",),
        "Write a report that cites documents and is checked against them, or Python code that is"
        " tested in a sandbox, and revise it until nothing is open. Take it where what you would"
        " write has to be checked; give tests of your own for code if you have any. {documents} It"
        " costs a call for each draft and one for each reflection, about 3 to 12 in all, and takes"
        " minutes. What is still open at the end is the `doubt`.",
    ),
}
DOCUMENTS = {
    True: "Reports rest on the documents that whoever runs this server has chosen.",
    False: "There are no documents here: a report rests on what the model knows.",
}
SHOW = "show"
SHOWN = """\
Return the result of a run that a tool here has started, by its id, or say where it stands. It \
waits a while for the end, so call it again, without a pause, as long as `state` is running. It \
starts nothing and costs nothing."""
SHOW_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string", "description": "The id that a tool here returned."}},
    "required": ["id"],
    "additionalProperties": False,
}


class Report(Record):
    """What a tool says of a run."""

    id: str = Field(description="The run's id, which `show` takes.")
    state: State
    doubt: str = Field(description="Why not to build on the answer; empty if nothing says so.")
    agreement: float | None = Field(
        description="Of `ask`: the share of the votes for the answer, 0 to 1."
    )
    score: float | None = Field(description="Of `reflect`: the judge's score, 0 to 1.")
    cost_usd: float | None = Field(
        description="US dollars so far; null if a price is unknown, or nobody could look."
    )
    stop_reason: str | None
    explanation: str = Field(description="Why it stopped, or what is under way.")
    answer: str | None = Field(description="The answer, text or code; null while it goes on.")

    @property
    def text(self) -> str:
        """The same for whoever reads texts alone; the answer comes last, so it can't forge it."""
        if self.state == "running":
            said = f"The run {self.id} goes on ({self.explanation})."
            return f"{said} Call show with this id for its result, and don't start it again."
        if self.state == "waiting_for_a_person":
            said = f"The run {self.id} waits for a person, who decides by mull review {self.id}."
            return f"{said} No tool can decide; call show with this id once they have."
        shares = {"agreement": self.agreement, "score": self.score}
        known = [f"{name} {share:.2f}" for name, share in shares.items() if share is not None]
        known += [f"stopped: {self.stop_reason} ({self.explanation})", f"cost {usd(self.cost_usd)}"]
        doubt = f"Don't build on this answer: {self.doubt}.\n" if self.doubt else ""
        head = f"{doubt}{'; '.join([*known, f'run {self.id}'])}"
        return f"{head}\n\n{self.answer}" if self.answer is not None else f"{head}\n\nNo answer."


class Caller(NamedTuple):
    """On whose behalf tools are called.

    The ids of their runs, and of nobody else's, are LOOP-`name`-DIGITS. `fixed` are fields of
    requests that they can't choose; of `budget_usd` they may take less. `begin` starts a run with
    an id, and `find` returns one.
    """

    name: str
    fixed: Mapping[str, Any]
    begin: Callable[[Request, str], Awaitable[Run[Any]]]
    find: Callable[[str], Awaitable[Run[Any]]]


def mcp_server(caller_of: Callable[[Context], Caller], wait: float) -> Server[Any]:
    """Build the server for any transport; `wait` is how many seconds a call waits for a result."""
    tools = Tools(caller_of, wait)
    return Server(
        "mull",
        title="Mull",
        instructions=INSTRUCTIONS,
        lifespan=tools.lifespan,
        on_list_tools=tools.list,
        on_call_tool=tools.call,
    )


class Tools:
    """The tools, and the calls of them that are under way."""

    def __init__(self, caller_of: Callable[[Context], Caller], wait: float) -> None:
        self._caller_of, self._seconds = caller_of, wait
        self._ending = set[asyncio.Task[None]]()

    @asynccontextmanager
    async def lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        """Serve, and at the end send the cancellations that are due."""
        yield
        if self._ending:
            await asyncio.wait(self._ending, timeout=END_SECONDS)

    async def list(self, ctx: Context, _: object) -> types.ListToolsResult:
        """List the tools as they are for this caller."""
        fixed, report = self._caller_of(ctx).fixed, Report.model_json_schema(mode="serialization")
        documents = DOCUMENTS["docs" in fixed]
        listed = [
            (name, f"{offer.words.format(documents=documents)} {DOUBT}", input_schema(offer, fixed))
            for name, offer in OFFERS.items()
        ]
        tools = [
            types.Tool(
                name=name,
                description=description,
                input_schema=schema,
                output_schema=report,
                annotations=types.ToolAnnotations(
                    read_only_hint=name == SHOW, destructive_hint=False
                ),
            )
            for name, description, schema in [*listed, (SHOW, SHOWN, SHOW_SCHEMA)]
        ]
        return types.ListToolsResult(tools=tools)

    async def call(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Call a tool; what is refused or fails is a result that says so, for the model to read."""
        name, given = params.name, params.arguments or {}
        try:
            if name == SHOW:
                return await self._show(ctx, given)
            if name in OFFERS:
                return await self._start(ctx, OFFERS[name], given)
        except MullError as error:
            return failed(f"{error}")
        except Exception:
            # Its words are this machine's, and no model's business.
            logging.getLogger("mull.mcp").exception("a call of %s failed", name)
            return failed("this server made an error, which is in its log")
        raise MCPError(types.INVALID_PARAMS, f"there is no tool {short_name(name)}")

    async def _show(self, ctx: Context, given: Mapping[str, Any]) -> types.CallToolResult:
        caller, identity = self._caller_of(ctx), given.get("id")
        if not isinstance(identity, str) or set(given) != {"id"}:
            raise RequestError("show takes one text, the id of a run")
        # Whether somebody else has a run with this id is not told.
        unknown = RequestError(f"no run that was started here has the id {short_name(identity)}")
        if not re.fullmatch(rf"[a-z]+-{re.escape(caller.name)}-[0-9a-f]{{12}}", identity):
            raise unknown
        try:
            run = await caller.find(identity)
        except RequestError:
            raise unknown from None
        return await self._followed(ctx, run)

    async def _start(
        self, ctx: Context, offer: Offer, given: Mapping[str, Any]
    ) -> types.CallToolResult:
        caller = self._caller_of(ctx)
        request = read_request(offer, given, caller.fixed)
        identity = f"{offer.loop.command}-{caller.name}-{uuid.uuid4().hex[:12]}"
        beginning = asyncio.ensure_future(caller.begin(request, identity))
        try:
            return await self._followed(ctx, await asyncio.shield(beginning))
        except asyncio.CancelledError:
            # A client that went away ends no run; one that cancelled its call wants none. No
            # public attribute tells them apart.
            if ctx.session._request_outbound.cancel_requested.is_set():
                ending = asyncio.create_task(_end(beginning))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
            raise

    async def _followed(self, ctx: Context, run: Run[Any]) -> types.CallToolResult:
        """Tell the client how a run goes on until it ends, or for as long as a call may take."""
        seen = None
        try:
            async with asyncio.timeout(self._seconds):
                return reported(run, "done", await _ended(ctx, run))
        except TimeoutError:
            with suppress(MullError):
                seen = await run.look()
        except MullError as error:
            named = "" if run.id in f"{error}" else f" The run's id is {run.id}."
            return failed(f"{error}{named}")
        waits = seen is not None and run.loop.sheet(seen).waiting is not None
        return reported(run, "waiting_for_a_person" if waits else "running", seen)


async def _ended(ctx: Context, run: Run[Any]) -> Any:
    """Wait for the result of a run, and notify a client that asks for it of each change."""
    if "progress_token" not in (ctx.meta or {}):
        return await run.result()
    await ctx.session.report_progress(1, message=f"{run.id} has begun")
    records: Any = aiter(run)
    seen, count = None, 1
    async with aclosing(records):
        async for seen in records:
            count += 1
            said = terminal_safe(_stands(run, seen), 200)
            await ctx.session.report_progress(count, message=said)
    return seen


def _stands(run: Run[Any], seen: Any) -> str:
    """Say in a sentence what runs, what is known so far, and why it goes on."""
    shares = {"agreement": "consensus_confidence", "score": "score"}
    said = [run.loop.sheet(seen).verdict.words]
    for made in seen.decisions[-1:]:
        known = {name: getattr(seen, field, None) for name, field in shares.items()}
        said += [f"{name} {share:.2f} so far" for name, share in known.items() if share is not None]
        said.append(f"last decision: {next_words(made)}, {reason_words(made)}")
    return "; ".join(said)


async def _end(beginning: "asyncio.Future[Run[Any]]") -> None:
    with suppress(MullError):
        await (await beginning).cancel()


def input_schema(offer: Offer, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Build a tool's schema from the fields of its request."""
    known = offer.loop.request.model_fields
    fields: Any = {name: (known[name].annotation, known[name]) for name in offer.taken}
    made = create_model(offer.loop.command, __config__=ConfigDict(extra="forbid"), **fields)
    schema = made.model_json_schema(by_alias=False)
    if (most := fixed.get("budget_usd")) is not None:
        said = f"The most US dollars; {most:g} by default, and at most."
        bounds = {"exclusiveMinimum": 0, "maximum": most}
        schema["properties"]["budget_usd"] = {"type": "number", "description": said, **bounds}
    return schema


def read_request(offer: Offer, given: Mapping[str, Any], fixed: Mapping[str, Any]) -> Request:
    """Read a tool's arguments, and add what is fixed. Raises RequestError."""
    kind = offer.loop.request
    for name in given:
        if name in kind.model_fields and name not in offer.taken:
            said = f"{name}: only whoever runs this server can set it"
            raise RequestError(said, "Leave it out.")
    own = {name: value for name, value in fixed.items() if name in kind.model_fields}
    asked = {name: value for name, value in given.items() if value is not None}
    most, wanted = own.get("budget_usd"), asked.get("budget_usd")
    if most is not None and isinstance(wanted, int | float) and wanted > most:
        raise RequestError(f"budget_usd: at most {most:g} here")
    try:
        request: Request = parse_request(kind, json.dumps({**own, **asked}))
    except ValueError as error:
        raise RequestError(explain(error, offer.taken)) from None
    return request


def reported(run: Run[Any], state: State, seen: Any = None) -> types.CallToolResult:
    """Say how a run stands, as JSON and as text; `seen` is None where nobody could look."""
    done = state == "done"
    stands = "no worker answers for it now" if seen is None else _stands(run, seen)
    said = Report(
        id=run.id,
        state=state,
        doubt=terminal_safe(seen.doubt, 300) if done else "",
        agreement=getattr(seen, "consensus_confidence", None) if done else None,
        score=getattr(seen, "score", None) if done else None,
        cost_usd=seen.usage.cost_usd if seen else None,
        stop_reason=seen.stop_reason if done else None,
        explanation=terminal_safe(seen.stop_explanation if done else stands, 300),
        answer=getattr(seen, seen.answer_field) if done else None,
    )
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=said.text)],
        structured_content=said.model_dump(mode="json"),
    )


def failed(said: str) -> types.CallToolResult:
    """Return an error that the model reads."""
    ended = said if said.endswith(("?", ".")) else f"{said}."
    text = types.TextContent(type="text", text=ended)
    return types.CallToolResult(content=[text], is_error=True)


class Local:
    """Whoever can start programs here: all runs are begun with one connection, made when needed."""

    def __init__(self, most: int | None = None) -> None:
        self._most, self._begun = most, 0
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def begin(self, request: Request, identity: str) -> Run[Any]:
        """Start a run. Raises RequestError if there are too many, and other errors of Mull's."""
        client = await self._connected()
        await client.need_workers(loop_of(request).queues(request))
        if self._most is not None and self._begun >= self._most:
            said = f"{self._begun} runs were started, and this server may start no more"
            raise RequestError(said, "Tell the user, who can restart it.")
        self._begun += 1
        return await client.begin(request, identity)

    async def find(self, identity: str) -> Run[Any]:
        """Find a run. Raises RequestError if there is none."""
        return await (await self._connected()).get(identity)

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                self._client = Client(await connection.connect(quiet=True))
            return self._client


async def serve_here(fixed: Mapping[str, Any], runs: int | None, wait: float) -> None:
    """Serve over standard input and output until the client closes them."""
    telemetry.set_up(None)
    local = Local(runs)
    caller = Caller("mcp", fixed, local.begin, local.find)
    server = mcp_server(lambda _: caller, wait)
    async with stdio_server() as (read, write):
        # The SDK keeps the descriptor to itself. What is printed would wait in Python's buffer, and
        # come out once it is given back.
        with redirect_stdout(sys.stderr):
            await server.run(read, write, server.create_initialization_options())
