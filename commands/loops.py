"""What the command line knows of each workflow type, and how a run is found and queried."""

import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.environments.port import queue_of
from activities.language_model import port as models
from activities.memory import WORKFLOW as MEMORY
from activities.memory import memory_id
from activities.sandbox import port as sandbox
from activities.tools import port as tools
from activities.training import port as training
from commands.command import Exit, fail
from mull.agents import result as agents
from mull.agents import sheet as acted
from mull.agents import training_result as trained
from mull.agents import training_sheet as trained_sheet
from mull.agents.request import ReflexionRequest
from mull.agents.retroformer import RetroformerRequest
from mull.agents.training import RetroformerTrainingRequest
from mull.batch import sheet as batch
from mull.batch.request import PAGE_ID, BatchRequest
from mull.batch.result import BatchResult
from mull.connection import DATA_CONVERTER, STREAM_POLL, TASK_QUEUE
from mull.critique import result as critique
from mull.critique import sheet as criticised
from mull.critique.request import ReflectOnResultRequest
from mull.drafts import PlainResult
from mull.multipath import result as multipath
from mull.multipath import sheet as walked
from mull.multipath.request import MultiPathRequest
from mull.request import Record, Request
from mull.sampling import result as sampling
from mull.sampling import sheet as sampled
from mull.sampling.request import SelfConsistencyRequest
from mull.sheet import Sheet, Table, draft_sheet
from mull.text import FITTED_DECISIONS
from mull.turn import result as turned
from mull.turn import session as conversed
from mull.turn import sheet as turning
from mull.turn.conversation import StreamedText
from mull.turn.request import ToolTurnRequest
from mull.turn.session import SessionRequest

LOOK = timedelta(seconds=10)
ASKED = "asked"  # a memo: so a list needs no call for each run

# The counts of a batch to which its pages under way add theirs.
SUMMED = (
    "done", "running", "completed", "failed", "cancelled", "not_started",
    "tokens", "cost_usd", "known_tokens", "known_usd",
)  # fmt: skip

Handle: TypeAlias = WorkflowHandle[object, Any]
Summary: TypeAlias = tuple[dict[str, Any], tuple[Table, ...]]
# The queues that every question needs, and that code needs.
ANSWERED = (TASK_QUEUE, models.TASK_QUEUE)
CODE = (sandbox.TASK_QUEUE,)


@dataclass(frozen=True)
class Loop:
    """A workflow type: the types of its messages, its sheet, and what a user can do with its runs.

    - `result`, which the query `progress` returns too, and `sheet` are by default those of a loop
      that shows drafts alone.
    - `command` is the prefix of its run ids.
    - `reply` returns the sentence printed before the details on standard output.
    - `writes`: the answer is a text that goes to standard output alone, the details to standard
      error. The draft of a run that ended badly is printed too.
    - `below` explains how a result misses a required score, or the bars of an answer, and `doubt`
      why not to build on it whatever was required.
    - `measures` names what a batch's rows have of a result beside what all have, and `summary`
      makes of these rows a JSON object and tables.
    - `answers`: a run gives one answer, which can be reviewed and reported. `actions` are the
      choices in a review, none where a run takes none, `reviewed` the fields that show what is
      reviewed, `best` the draft, and `unchecked` a note for whoever replaces the result.
    - `optional_queues` may be needed later in the run.
    - `further` explains how to get what the result does not contain.
    """

    workflow: str
    request: type[Request]
    command: str = ""
    result: type[Record] = PlainResult
    sheet: Callable[..., Sheet] = draft_sheet
    answers: bool = True
    doing: str = "asking"
    reply: Callable[[Any], str] | None = None
    below: Callable[[Any, Any], str | None] = lambda _result, _required: None
    doubt: Callable[[Any], str] = lambda result: getattr(result, "doubt", "")
    measures: tuple[str, ...] = ()
    summary: Callable[[Sequence[Any]], Summary] = lambda _: ({}, ())
    actions: tuple[str, ...] = ("accept", "replace")
    reviewed: frozenset[str] = frozenset({"subject"})
    best: Callable[[Any], Record | None] | None = None
    writes: bool = False
    unchecked: str = ""
    queues: Callable[[Any], tuple[str, ...]] = lambda _request: ANSWERED
    optional_queues: Callable[[Any], tuple[str, ...]] = lambda _request: ()
    further: str = ""

    def against(self, result: Any, required: Any, *, accept_any: bool) -> str:
        """Say what speaks against building on a result: a bar that it misses, or a doubt."""
        if required is not None and (missed := self.below(result, required)):
            return f"Not to be built on: {missed}, which was required."
        doubt = "" if accept_any else self.doubt(result)
        return doubt and f"Not to be built on: {doubt}. With --accept-any the exit code is 0."

    def stood_at(self, seen: Any) -> Sheet:
        """Build the sheet of a run that ended without a result: nothing in it goes on."""
        sheet = self.sheet(seen.model_copy(update={"in_flight": 0}))
        facts = tuple(fact for fact in sheet.facts if fact.tone != "running")
        return sheet.model_copy(update={"facts": facts, "waiting": None})

    def under_review(self, seen: Any) -> dict[str, Any]:
        """Build the part of a JSON document that shows what is reviewed."""
        shown: dict[str, Any] = seen.model_dump(mode="json", include=set(self.reviewed))
        if self.best is not None:
            draft = self.best(seen)
            shown["draft"] = draft.model_dump(mode="json") if draft else None
        return shown


SAMPLING = Loop(
    workflow="SelfConsistencyWorkflow",
    request=SelfConsistencyRequest,
    result=sampling.SelfConsistencyResult,
    sheet=sampled.sheet,
    command="ask",
    reply=lambda result: result.reply,
    below=sampling.SelfConsistencyResult.below,
    reviewed=frozenset(
        {
            "question", "final_answer", "consensus_confidence", "normalized_entropy",
            "answer_distribution",
        }
    ),
)  # fmt: skip
CRITIQUE = Loop(
    workflow="ReflectOnResultWorkflow",
    doing="reflecting",
    request=ReflectOnResultRequest,
    result=critique.ReflectOnResultResult,
    sheet=criticised.sheet,
    command="reflect",
    below=critique.ReflectOnResultResult.below,
    actions=("accept", "revise", "replace", "score"),
    reviewed=frozenset({"query", "score_threshold"}),
    best=criticised.best_of,
    writes=True,
)
MULTIPATH = Loop(
    workflow="MultiPathWorkflow",
    doing="starting the agent",
    request=MultiPathRequest,
    result=multipath.MultiPathResult,
    sheet=walked.sheet,
    command="agent",
    below=multipath.MultiPathResult.below,
    actions=("accept", "revise", "replace"),
    reviewed=frozenset({"prompt", "mode", "sources", "suite", "quarantined"}),
    best=multipath.kept_of,
    writes=True,
    unchecked="a text that a person wrote is neither tested nor reflected on",
    # Code is tested on a queue of its own; a run may still turn out to write code.
    queues=lambda request: (*ANSWERED, *CODE) if request.mode == "code" else ANSWERED,
    optional_queues=lambda request: CODE if request.mode is None else (),
)
TURN = Loop(
    workflow="ToolTurnWorkflow",
    doing="starting the turn",
    request=ToolTurnRequest,
    result=turned.ToolTurnResult,
    sheet=turning.sheet,
    command="turn",
    actions=("allow", "deny"),
    reviewed=frozenset({"message", "asking", "questions", "calls"}),
    writes=True,
    queues=lambda request: ANSWERED if request.tools == () else (*ANSWERED, tools.TASK_QUEUE),
)
REFLEXION = Loop(
    workflow="ReflexionWorkflow",
    doing="starting the agent",
    request=ReflexionRequest,
    result=agents.ReflexionResult,
    sheet=acted.sheet,
    command="reflexion",
    below=lambda result, _: agents.NOT_APART * (result.verified_by != "cases"),
    measures=(
        "episode_count", "solved_after", "best_return", "hidden_passed", "verified_by", "judged",
    ),
    summary=acted.success,
    actions=(),
    reviewed=frozenset({"task"}),
    writes=True,
    queues=lambda request: (*ANSWERED, queue_of(request.environment)),
)  # fmt: skip
RETROFORMER = replace(
    REFLEXION,
    workflow="RetroformerWorkflow",
    request=RetroformerRequest,
    command="retroformer",
    queues=lambda request: (*ANSWERED, training.TASK_QUEUE, queue_of(request.environment)),
)
TRAINING = Loop(
    workflow="RetroformerTrainingWorkflow",
    doing="starting the training",
    request=RetroformerTrainingRequest,
    result=trained.RetroformerTrainingResult,
    sheet=trained_sheet.sheet,
    command="train",
    actions=(),
    reviewed=frozenset({"environment"}),
    writes=True,
    queues=RETROFORMER.queues,
)
BATCH = Loop(
    workflow="BatchWorkflow",
    doing="making runs",
    request=BatchRequest,
    result=BatchResult,
    sheet=lambda seen, *_: batch.sheet(seen),
    answers=False,
    further="For the results of a file's lines: mull batch --id {id}. To see the findings, repeat"
    " the calibrate or compare command with --id {id}.",
)
SESSION = Loop(
    workflow="SessionWorkflow",
    doing="waiting for messages",
    request=SessionRequest,
    result=conversed.SessionResult,
    sheet=conversed.sheet,
    answers=False,
    command="session",
    further="Its turns are runs of their own: mull show {id}-turn-1, and so on.",
)
LOOPS = (
    SAMPLING,
    CRITIQUE,
    MULTIPATH,
    TURN,
    RETROFORMER,
    REFLEXION,
    TRAINING,
    BATCH,
    SESSION,
)


def loop_of(request: Request) -> Loop:
    """Find the workflow type that this request starts."""
    return next(loop for loop in LOOPS if isinstance(request, loop.request))


class FoundRun(NamedTuple):
    """A run: its handle, its workflow type, and what the server says of it."""

    handle: Handle
    loop: Loop
    description: WorkflowExecution

    @property
    def goes_on(self) -> bool:
        """True while the run has not ended."""
        return self.description.status is WorkflowExecutionStatus.RUNNING


async def reach(client: Client, run: str) -> FoundRun:
    """Find a run by its id, or exit if its workflow type is not one of Mull's."""
    description = await client.get_workflow_handle(run).describe()
    loop = next((loop for loop in LOOPS if loop.workflow == description.workflow_type), None)
    if description.workflow_type == MEMORY:
        name = run.removeprefix(memory_id(""))
        fail(f"{run} is a memory. To see it:\n    mull memory show {name}")
    if loop is None:
        fail("This workflow was not started by Mull.")
    handle: Handle = client.get_workflow_handle(run, result_type=loop.result)
    return FoundRun(handle, loop, description)


async def described(client: Client, identity: str) -> WorkflowExecutionDescription | None:
    """Describe a run; None if there is none. A missing namespace is still an error."""
    try:
        return await client.get_workflow_handle(identity).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message:
            return None
        raise


async def reach_open(client: Client, run: str) -> FoundRun:
    """Find a run by its id, or exit if it has ended."""
    found = await reach(client, run)
    if not found.goes_on:
        ended = status_words(found.description.status) or "closed"
        fail(f"the run has already ended ({ended}).")
    return found


def status_words(status: WorkflowExecutionStatus | None) -> str | None:
    """Return the name of a status; Temporal's CANCELED is `cancelled` here."""
    if status is WorkflowExecutionStatus.CANCELED:
        return "cancelled"
    return status.name.lower() if status else None


async def look(handle: Handle, loop: Loop, patience: timedelta = LOOK) -> Any:
    """Query the record of a run, open or closed; None if no worker answers.

    If earlier decisions may have been left out, they are queried too: a live view shows them all.
    """
    try:
        seen = await handle.query("progress", result_type=loop.result, rpc_timeout=patience)
        if loop is BATCH:
            seen = await _with_pages(handle, seen, patience)
        elif len(seen.decisions) == FITTED_DECISIONS:
            kind: Any = loop.result.model_fields["decisions"].annotation
            every = await handle.query("decisions", result_type=kind, rpc_timeout=patience)
            seen = seen.model_copy(update={"decisions": every})
    except (RPCError, WorkflowQueryFailedError):
        return None
    return seen


class LiveAnswer:
    """The answer of a turn while it is written.

    It is read by queries, which history does not keep: each poll by an update would stay in it.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle, self._offset, self._written = handle, 0, StreamedText(step=0)

    async def read(self) -> str:
        """Return what is written so far of the newest attempt; as before if no worker answers."""
        try:
            known = {"from_offset": self._offset}
            found = await self._handle.query(STREAM_POLL, known, rpc_timeout=LOOK)
        except (RPCError, WorkflowQueryFailedError):
            return self._written.text
        for item in found["items"]:
            # Anything else was not published by Mull.
            with suppress(Exception):
                payload = Payload.FromString(base64.b64decode(item["data"]))
                piece = DATA_CONVERTER.payload_converter.from_payload(payload, StreamedText)
                self._written = self._written.then(piece)
        self._offset = found["next_offset"]
        return self._written.text


async def _with_pages(handle: Handle, whole: BatchResult, patience: timedelta) -> BatchResult:
    """Add the counts of the pages under way: a batch itself hears only of pages that have ended."""
    if not whole.under_way:
        return whole
    parts, sums = [whole.model_copy(update={"running": 0})], dict[str, Any]()
    for number in whole.under_way:
        # No public attribute of a handle leads to another workflow.
        page = handle._client.get_workflow_handle(handle.id + PAGE_ID.format(number))
        parts.append(await page.query("progress", result_type=BatchResult, rpc_timeout=patience))
    for name in SUMMED:
        counted = [getattr(part, name) for part in parts]
        sums[name] = None if None in counted else sum(counted)
    return whole.model_copy(update=sums)


async def standing_of(run: FoundRun) -> Any:
    """Query the record of an open run, or exit if no worker answers."""
    found = await look(run.handle, run.loop)
    if found is None:
        said = "the run is open, but no worker answers queries for it now"
        fail(f"{stuck_words(await run.handle.describe()) or said}.", Exit.UNREACHABLE)
    return found


# A workflow task that failed more often than this needs a key, or other code.
FEW_TRIES = 2


def stuck_words(described: WorkflowExecutionDescription) -> str | None:
    """Say that a worker fails at a run again and again; None if that is not so."""
    tries = described.raw_description.pending_workflow_task.attempt
    said = f"the worker can't go on with this run (attempt {tries}): its log says why"
    return said if tries > FEW_TRIES else None


async def request_of(client: Client, run: FoundRun) -> Any:
    """Read a run's request from its history; None if its input is not a valid request."""
    async for event in run.handle.fetch_history_events(page_size=1):
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        with suppress(ApplicationError):
            found = await client.data_converter.decode(list(payloads), [run.loop.request])
            # Bytes are decoded as they are, whatever type is asked for.
            return next((each for each in found if isinstance(each, run.loop.request)), None)
        return None
    return None
