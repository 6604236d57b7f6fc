"""The table of the loops: of each workflow type, its messages, its sheet and what runs of it take.

Whoever starts or shows runs (the package's client, the command line) knows a loop by its row here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from mull import queues
from mull.agents import sheet as acted
from mull.agents import training_result as trained
from mull.agents import training_sheet as trained_sheet
from mull.agents.request import ReflexionRequest
from mull.agents.result import NOT_APART, ReflexionResult
from mull.agents.retroformer import RetroformerRequest
from mull.agents.training import RetroformerTrainingRequest
from mull.batch import sheet as batch
from mull.batch.request import BatchRequest
from mull.batch.result import BatchResult
from mull.critique import sheet as criticised
from mull.critique.request import ReflectOnResultRequest
from mull.critique.result import ReflectOnResultResult
from mull.drafts import PlainResult, Result
from mull.multipath import sheet as walked
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import MultiPathResult, kept_of
from mull.request import Record, Request
from mull.sampling import sheet as sampled
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import SelfConsistencyResult
from mull.sheet import Sheet, Table, draft_sheet
from mull.turn import session as conversed
from mull.turn import sheet as turning
from mull.turn.request import ToolTurnRequest
from mull.turn.result import ToolTurnResult
from mull.turn.session import SessionRequest

__all__ = (
    "BatchRequest", "BatchResult", "MultiPathRequest", "MultiPathResult", "ReflectOnResultRequest",
    "ReflectOnResultResult", "ReflexionRequest", "ReflexionResult", "SelfConsistencyRequest",
    "SelfConsistencyResult", "ToolTurnRequest", "ToolTurnResult",
)  # fmt: skip

Summary: TypeAlias = tuple[dict[str, Any], tuple[Table, ...]]
# The queues that every question needs, and that code needs.
ANSWERED = (queues.WORKFLOWS, queues.LLM)
CODE = (queues.CODE,)


@dataclass(frozen=True)
class Loop:
    """A workflow type: the types of its messages, its sheet, and what a user can do with its runs.

    - `result`, which the query `progress` returns too, and `sheet` are by default those of a loop
      that shows drafts alone.
    - `command` is the prefix of its run ids.
    - `reply` returns the sentence printed before the details on standard output.
    - `writes`: the answer is a text that goes to standard output alone, the details to standard
      error. The draft of a run that ended badly is printed too.
    - `below` explains how a result misses a required score, or the bars of an answer.
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
    result: type[Result] = PlainResult
    sheet: Callable[..., Sheet] = draft_sheet
    answers: bool = True
    doing: str = "asking"
    reply: Callable[[Any], str] | None = None
    below: Callable[[Any, Any], str | None] = lambda _result, _required: None
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

    def doubt(self, result: Any, required: Any = None) -> str:
        """Say why not to build on a result: it misses a bar, or is doubtful; empty for others."""
        missed = None if required is None else self.below(result, required)
        return missed or result.doubt

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
    result=SelfConsistencyResult,
    sheet=sampled.sheet,
    command="ask",
    reply=lambda result: result.reply,
    below=SelfConsistencyResult.below,
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
    result=ReflectOnResultResult,
    sheet=criticised.sheet,
    command="reflect",
    below=ReflectOnResultResult.below,
    actions=("accept", "revise", "replace", "score"),
    reviewed=frozenset({"query", "score_threshold"}),
    best=criticised.best_of,
    writes=True,
)
MULTIPATH = Loop(
    workflow="MultiPathWorkflow",
    doing="starting the agent",
    request=MultiPathRequest,
    result=MultiPathResult,
    sheet=walked.sheet,
    command="agent",
    below=MultiPathResult.below,
    actions=("accept", "revise", "replace"),
    reviewed=frozenset({"prompt", "mode", "sources", "suite", "quarantined"}),
    best=kept_of,
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
    result=ToolTurnResult,
    sheet=turning.sheet,
    command="turn",
    actions=("allow", "deny"),
    reviewed=frozenset({"message", "asking", "questions", "calls"}),
    writes=True,
    queues=lambda request: ANSWERED if request.tools == () else (*ANSWERED, queues.TOOLS),
)
REFLEXION = Loop(
    workflow="ReflexionWorkflow",
    doing="starting the agent",
    request=ReflexionRequest,
    result=ReflexionResult,
    sheet=acted.sheet,
    command="reflexion",
    below=lambda result, _: NOT_APART * (result.verified_by != "cases"),
    measures=(
        "episode_count", "solved_after", "best_return", "hidden_passed", "verified_by", "judged",
    ),
    summary=acted.success,
    actions=(),
    reviewed=frozenset({"task"}),
    writes=True,
    queues=lambda request: (*ANSWERED, queues.queue_of(request.environment)),
)  # fmt: skip
RETROFORMER = replace(
    REFLEXION,
    workflow="RetroformerWorkflow",
    request=RetroformerRequest,
    command="retroformer",
    queues=lambda request: (*ANSWERED, queues.TRAIN, queues.queue_of(request.environment)),
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
    command="batch",
    doing="making runs",
    request=BatchRequest,
    result=BatchResult,
    sheet=lambda seen, *_: batch.sheet(seen),
    answers=False,
    further="For the results of a file's lines, and their doubts: mull batch --id {id}. To see the"
    " findings, repeat the calibrate or compare command with --id {id}.",
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
BY_WORKFLOW = {loop.workflow: loop for loop in LOOPS}


def loop_of(request: Request) -> Loop:
    """Find the workflow type that this request starts."""
    return next(loop for loop in LOOPS if isinstance(request, loop.request))
