"""The state of one turn and its decisions: what comes next, and why it ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_args

from mull.replies import after_thought
from mull.request import Review, user_message
from mull.run import Part, RunState
from mull.text import AGAIN, cut_with_note, tally_words
from mull.turn import conversation, midturn
from mull.turn.approval import ToolRule
from mull.turn.budget import Thinking, TurnBudget
from mull.turn.conversation import Guidance, Message, StepReply
from mull.turn.midturn import ReflectionResult
from mull.turn.request import SUMMARY_BYTES, ToolTurnRequest
from mull.turn.result import Decision, Next, StopReason, ToolTurnResult
from mull.turn.tools import Tool, ToolCalls, cut_middle

LOW_CONFIDENCE = 0.5
BRIEF_BYTES = 400
# Earlier messages over this size are summarized first, but for the newest that fit into half of it.
EARLIER_TOKENS = 33_000
NOTHING = "(nothing)"
# Replies in a row that can't be used: the model was told what was wrong with the first one.
MOST_UNUSABLE = 2


@dataclass
class Turn(RunState[Decision]):
    """A turn: its conversation, calls, reflections and decisions so far.

    `native` is False for a model without tool calling. `words` are the last that it wrote, and
    `confidence` is what its last reply stated. `reported` are the tokens that the provider says its
    last call read. `fed_back` is the reflection for the next step. `unusable` counts the replies in
    a row that can't be used, the last one for its `fault`. `unread` tells the model which calls of
    its last reply were left out.
    """

    record_type = ToolTurnResult

    request: ToolTurnRequest
    started: datetime = field(kw_only=True)
    run_id: str = ""
    native: bool = True
    thinking: Thinking | None = None
    reflections: list[ReflectionResult] = field(default_factory=list)
    last_reflection: ReflectionResult | None = None
    fed_back: str | None = None
    answer: str | None = None
    words: str = ""
    confidence: float | None = None
    cut: bool = False
    forced: bool = False
    reported: int = 0
    summarized: int = 0
    replied_by: str | None = None
    unusable: int = 0
    fault: str = ""
    unread: str = ""

    def __post_init__(self) -> None:
        request = self.request
        self.turn_budget = TurnBudget(request, self.started)
        self.calls = ToolCalls(self.turn_budget, self.run_id, request.approve)
        self.summary = request.summary
        self.messages = [Message(role=one.role, content=one.content) for one in request.messages]
        asked = user_message(request.message, request.context)
        self.messages.append(Message(role="user", content=asked))

    def begin(
        self, tools: Sequence[Tool], rules: Sequence[ToolRule], thinking: Thinking, *, native: bool
    ) -> None:
        """Take what the worker has: its tools and rules, and how the model thinks and calls."""
        self.calls.tools = {tool.name: tool for tool in tools}
        self.calls.rules, self.thinking, self.native = tuple(rules), thinking, native
        self.warnings += thinking.warnings

    @property
    def model(self) -> str | None:
        """The model that replied last, or that the request names."""
        return self.replied_by or self.request.model

    @property
    def steps(self) -> int:
        """The replies that were asked for."""
        return self.turn_budget.used["steps"]

    @property
    def must_answer(self) -> bool:
        """Whether no tool's result could follow the reply, so that tools are barred."""
        left = self.turn_budget.left
        return bool(self.calls.tools) and not (left("tool_calls") and left("steps"))

    @property
    def guidance(self) -> Guidance:
        """What the system message of the next step says."""
        return Guidance(
            own=self.request.system,
            prefix=self.thinking.prefix if self.thinking else "",
            states_confidence=self.request.reflect_on_uncertainty,
            must_answer=self.must_answer,
            reflection=self.fed_back,
            summary=self.summary,
        )

    @property
    def system(self) -> str:
        """The system message of the next step."""
        tools = list(self.calls.tools.values())
        return conversation.system_message(self.guidance, tools, native=self.native)

    @property
    def context_tokens(self) -> int:
        """Estimate what the next call of the model reads."""
        tools = list(self.calls.tools.values()) if self.native else []
        return conversation.tokens(self.system, tools, self.messages)

    def decide(self, at: datetime) -> Decision:
        """Say what comes next, and record it; a step and its context are claimed with it."""
        step, reason = self._next(at)
        if step in get_args(Next):
            return self.settle(None, reason, at, next=step)
        return self.settle(step, reason, at)

    def _next(self, at: datetime) -> tuple[Next | StopReason, str]:
        waiting = self.calls.with_status("waiting")
        if waiting:
            return "call_tools", f"the model asked for {tally_words(len(waiting), 'tool call')}"
        # The results go into the messages in the order in which the calls were asked for.
        asked = self.messages[-1].calls
        self.messages += [conversation.told(self.calls.told(call.index)) for call in asked]
        if asked and self.unread:
            self.messages.append(Message(role="tool", content=self.unread))
        because = self._why_reflect()
        if because is not None:
            return "reflect", because
        ending = self._ending(at)
        if ending is not None:
            return ending
        earlier = 0 if self.steps else conversation.tokens(self.messages[:-1])
        if earlier > EARLIER_TOKENS:
            said = f"the earlier messages take about {earlier:,} tokens"
            return "compact", f"{said}, over the limit of {EARLIER_TOKENS:,}"
        shown, most = max(self.context_tokens, self.reported), self.request.max_context_tokens
        if not self.turn_budget.claim_context(shown):
            over = f"the messages take about {shown:,} tokens, over the limit of {most:,}"
            return "compact" if self._split()[0] else "max_context_tokens", over
        self.turn_budget.claim("steps")
        because = f": {self._unused}" if self.unusable else ""
        return "ask", f"step {self.steps} of {self.turn_budget.most('steps')}{because}"

    @property
    def _unused(self) -> str:
        replies = "two replies in a row" if self.unusable >= MOST_UNUSABLE else "the last reply"
        return f"{replies} can't be used: {self.fault}"

    def _ending(self, at: datetime) -> tuple[StopReason, str] | None:
        budget = self.turn_budget
        asked = [call for call in self.calls.made if call.step == self.steps]
        if self.answer is not None:
            return "answered", "the model answered"
        if self.unusable >= MOST_UNUSABLE:
            return "generation_failed", self._unused
        if not budget.left("tool_calls") and {call.status for call in asked} == {"not_run"}:
            most = tally_words(budget.most("tool_calls"), "tool call")
            return "max_tool_calls", f"the limit of {most} is reached, and the model asked for more"
        if budget.expired(at):
            return "deadline", f"the time budget of {self.request.budget_seconds:g} s is used up"
        if not budget.left("steps"):
            return "max_steps", f"the limit of {tally_words(self.steps, 'step')} is reached"
        full = self.no_room("generating")
        return ("budget", full) if full else None

    def _why_reflect(self) -> str | None:
        reflected = self.reflections[-1].step if self.reflections else 0
        if self.thinking is None or reflected == self.steps or self.unusable >= MOST_UNUSABLE:
            return None
        low = self.confidence is not None and self.confidence < LOW_CONFIDENCE
        if self.answer is not None and not low:
            return None
        level, errors = self.thinking.level, self.calls.errors
        return midturn.should_reflect(level, self.request, errors, uncertain=low)

    def replied(self, reply: StepReply) -> None:
        """Take a reply of the model: its answer, its calls, or what was wrong with it."""
        self.replied_by, self.fed_back = reply.model or self.replied_by, None
        self.native = self.native and "tools" not in reply.left_out
        self.reported = (reply.spending and reply.spending.input_tokens) or 0
        self.cut = reply.finish_reason == "length"
        if self.cut:
            self.warn(f"reply {self.steps} was cut off at the limit of its tokens")
        text, self.confidence = after_thought(reply.text).strip(), None
        if self.request.reflect_on_uncertainty:
            text, self.confidence = conversation.stated_confidence(text)
        calls = () if reply.error else self.calls.read(reply.calls, self.steps)
        read, said, self.unread = len(calls), len(reply.calls) + reply.calls_left_out, ""
        if said > read and not reply.error:
            self.warn(f"one reply asked for {said:,} calls; {read} were read")
            self.unread = conversation.LEFT_OUT.format(asked=said, read=read)
        self.words = text or self.words
        content = text if calls else text or reply.text or NOTHING
        self.messages.append(Message(role="assistant", content=content, calls=calls))
        error = reply.error or ("" if calls or text else "there is nothing in it")
        self.unusable, self.fault = self.unusable + 1 if error else 0, error
        if error:
            self.warn(f"reply {self.steps} can't be used: {error}")
            self.messages.append(Message(role="tool", content=AGAIN.format(error=error).strip()))
        elif not calls:
            self.answer, self.forced = text, self.must_answer

    def begin_reflection(self, at: datetime) -> int | None:
        """Claim a reflection: return the seconds for its call; None if a stub was recorded."""
        gate = midturn.reflection_gate(self.turn_budget, at)
        if isinstance(gate, int):
            return gate
        self._reflect(gate, midturn.STUBS[gate], at)
        return None

    @property
    def reflection_prompt(self) -> str:
        """The user message of the next reflection."""
        last = range(len(self.calls.made))[-midturn.RESULTS_SHOWN :]
        return midturn.build_reflection_prompt(
            self.request.message, [self.calls.told(index) for index in last]
        )

    def reflected(self, text: str | None, at: datetime, error: str | None = None) -> None:
        """Record a reflection as the last one, which clears the tool errors; None if it failed."""
        said = cut_with_note(after_thought(text or "").strip(), midturn.REFLECTION_BYTES)
        if not said:
            self._reflect("failed", midturn.STUBS["failed"], at, error or "it was empty")
            return
        self.last_reflection = self._reflect("reflected", said, at)
        self.calls.errors = []
        if self.request.reflection_feeds_back:
            self.fed_back = said

    def _reflect(
        self, outcome: midturn.ReflectionOutcome, text: str, at: datetime, error: str | None = None
    ) -> ReflectionResult:
        made = ReflectionResult(
            reflection=text,
            outcome=outcome,
            step=self.steps,
            because=self.last.reason if self.last else "",
            error=error,
            at=at,
        )
        self.reflections.append(made)
        return made

    def _split(self) -> tuple[list[Message], list[Message]]:
        others = self.context_tokens - conversation.tokens(self.messages)
        room = int(self.request.max_context_tokens * conversation.KEPT_SHARE) - others
        if not self.steps:
            earlier = int(EARLIER_TOKENS * conversation.KEPT_SHARE)
            room = min(room, earlier + conversation.tokens(self.messages[-1:]))
        return conversation.split(self.messages, room)

    @property
    def summary_prompt(self) -> str:
        """The prompt that compacts the older messages."""
        most = self.request.max_context_tokens
        return conversation.build_summary_prompt(self._split()[0], self.summary, most)

    def compacted(self, summary: str | None) -> None:
        """Replace the older messages by a summary, or leave them out where there is none."""
        older, kept = self._split()
        if summary is None:
            left_out = f"{tally_words(len(older), 'message')} could not be summarized"
            self.warn(f"{left_out}, and were left out")
            summary = f"{self.summary or ''}\n[{left_out}]".strip()
        self.summary = cut_middle(after_thought(summary).strip(), SUMMARY_BYTES)
        earlier = len(self.request.messages) - self.summarized
        self.summarized += min(len(older), earlier)
        self.messages, self.reported = kept, 0

    def settle(
        self,
        reason: Any,
        explanation: str,
        at: datetime,
        author: str | None = None,
        next: Any = None,  # noqa: A002 - the field's name
    ) -> Decision:
        """Record a decision: why the turn ends, or, without a reason, what comes next."""
        decision = Decision(
            next=next,
            stop=reason is not None,
            stop_reason=reason,
            reason=explanation,
            budget=self.turn_budget.snapshot(at),
            errors=len(self.calls.errors),
            confidence=self.confidence,
            author=author,
            at=at,
        )
        self.decisions.append(decision)
        return decision

    stop = settle

    def refused(self, given: Review) -> str | None:
        """Explain why a review is refused: a turn waits for a word on its calls alone."""
        del given
        return "a turn takes no review: allow or deny one of its calls"

    def prompt(self, part: Part) -> tuple[list[str], int | None]:
        """List the texts in the prompt of a part's next call, and give its output limit, if set."""
        del part  # a reflection is bounded by its slot
        shown = [self.system, *(message.content for message in self.messages)]
        return shown, self.request.max_output_tokens

    def record(self, at: datetime | None = None, **under_way: Any) -> Any:
        """Say what is seen of the turn; `at` is now, while it goes on."""
        # Before the turn waits, it is not known yet whether the arguments are right.
        waits = under_way.get("step") == "waiting_for_permission"
        asking = self.calls.with_status("asking") if waits else ()
        moment = at or (self.last and self.last.at) or self.started
        return super().record(
            **under_way,
            budget=self.turn_budget.snapshot(moment),
            asking=tuple(call.index + 1 for call in asking),
            questions=self.calls.questions if asking else (),
        )

    def _shown(self) -> dict[str, Any]:
        last = self.last if self.stopped and self.answer is None else None
        return {
            "message": self.request.message,
            "turn_count": self.request.turn_count,
            "answer": self.answer,
            "so_far": self._so_far(last.reason) if last else None,
            "calls": tuple(self.calls.made),
            "reflections": tuple(self.reflections),
            "last_reflection": self.last_reflection,
            "thinking": self.thinking,
            "tools": tuple(self.calls.tools),
            "answer_cut": self.answer is not None and self.cut,
            "forced": self.forced,
            "summary": self.summary,
            "summarized": self.summarized,
        }

    def _so_far(self, reason: str) -> str:
        """Say what a turn without an answer has: the model's words, and what tools returned."""
        parts = [f"The turn ended before an answer: {reason}."]
        if self.words:
            parts.append(f"The model's last words:\n{self.words}")
        parts += [
            f"{call.tool} returned:\n{cut_middle(call.content, BRIEF_BYTES)}"
            for call in self.calls.with_status("ok")
            if call.record_of is None
        ]
        return "\n\n".join(parts)
