"""The record of a tool-using turn: its decisions, and its result."""

from operator import attrgetter
from typing import Annotated, Literal

from mull.drafts import RunRecord
from mull.run import Decided
from mull.text import Shown, revealed
from mull.turn.approval import Question
from mull.turn.budget import BudgetSnapshot, Thinking
from mull.turn.midturn import ReflectionResult
from mull.turn.tools import ToolCall

StopReason = Literal[
    "answered",
    "max_steps",
    "max_tool_calls",
    "max_context_tokens",
    "deadline",
    "budget",
    "generation_failed",
    "finished_by_person",
]
UNSEEN = "characters that can't be seen, or look like others, are shown as escapes"
Next = Literal["ask", "call_tools", "reflect", "compact"]


class Decision(Decided):
    """What comes next, or why the turn ended, and what it was based on.

    `errors` counts the tool errors that no reflection has cleared. `confidence` is what the model
    stated of its last reply, 0 to 1.
    """

    next: Next | None
    stop_reason: StopReason | None
    budget: Annotated[BudgetSnapshot, Shown("step|number", attrgetter("steps_used"))]
    errors: Annotated[int, Shown("errors|number")]
    confidence: float | None = None


class ToolTurnResult(RunRecord):
    """The answer, why the turn ended, and what it used and did.

    `answer` is None if the model gave none; `so_far` says then what the turn has. `reflections` has
    the stubs too, `last_reflection` is the last one that succeeded. `tools` are the names of those
    offered. Where messages were compacted, `summary` stands for the first `summarized` ones of the
    request. With `forced` the answer was demanded, as no step or tool call was left. While the turn
    waits for a person, `asking` are the numbers, from 1, of the calls that wait, and `questions`
    what a word on each has to name.
    """

    message: str
    turn_count: int
    answer: str | None
    so_far: str | None
    stop_reason: StopReason | None = None
    decisions: tuple[Decision, ...]
    calls: tuple[ToolCall, ...]
    reflections: tuple[ReflectionResult, ...]
    last_reflection: ReflectionResult | None
    budget: BudgetSnapshot
    thinking: Thinking | None
    tools: tuple[str, ...]
    answer_cut: bool = False
    forced: bool = False
    summary: str | None = None
    summarized: int = 0
    asking: tuple[int, ...] = ()
    questions: tuple[Question, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """What a person is asked to allow: each call in full, and then what to look at twice."""
        words = {one.index + 1: one.words for one in self.calls if one.index + 1 in self.asking}
        shown = {number: revealed(said) for number, said in words.items()}
        doubts = [(one.call, doubt) for one in self.questions for doubt in one.doubts]
        doubts += [(number, UNSEEN) for number, said in shown.items() if said != words[number]]
        calls = [f"call {number}: {said}" for number, said in shown.items()]
        return (*calls, *(f"attention, call {number}: {doubt}" for number, doubt in sorted(doubts)))

    @property
    def reply(self) -> str:
        """What the user is shown: the answer, or else what there is."""
        return self.answer if self.answer is not None else self.so_far or self.stop_explanation

    @property
    def doubt(self) -> str:
        """Say why not to build on it; empty for a whole answer."""
        if self.answer_cut:
            more = "allow more by max_output_tokens, or max_tokens in OpenAI's interface"
            return f"the answer was cut off at the limit of its tokens: {more}"
        return "" if self.stop_reason == "answered" else f"no answer: {self.stop_explanation}"
