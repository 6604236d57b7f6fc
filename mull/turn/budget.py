"""The budget of one turn: wall clock, steps, tool calls, reflections, context and thinking.

Nothing here reads a clock: the caller passes the time. A claim counts only if it is granted, so
no count ever exceeds its limit. Waiting for a person stops the clock.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, get_args

from mull.option import bound_option, option
from mull.request import Bounded, Record, Seconds, short_name

TOOL_SECONDS = 45.0
LEAST_TOOL_SECONDS = 5.0

Resource = Literal["steps", "tool_calls", "reflections", "context_tokens"]

reflection_option = partial(
    option, "Reflection", only_with={"think_level": ("low", "medium", "high")}
)


class TurnLimits(Bounded):
    """What one turn may use. The defaults are the source's."""

    budget_seconds: Seconds = bound_option(
        60, "Seconds for the turn, the waits for a person not counted."
    )
    max_steps: int = bound_option(6, "The most replies of the model.", ge=1, le=30)
    max_tool_calls: int | None = bound_option(
        None, "The most tool calls; as many as steps by default.", ge=0, le=100
    )
    max_reflections: int = reflection_option(4, "The most reflections.", ge=0, le=30)
    max_context_tokens: int = bound_option(
        200_000, "The most tokens that one call of a model reads.", ge=1_000, le=200_000
    )


class BudgetSnapshot(Record):
    """What a turn has used of its budget. `context_tokens_used` are those of its largest call."""

    remaining_s: float
    expired: bool
    waited_s: float
    steps_used: int
    steps_max: int
    tool_calls_used: int
    tool_calls_max: int
    reflections_used: int
    reflections_max: int
    context_tokens_used: int
    context_tokens_max: int


@dataclass
class TurnBudget:
    """The one object by which a turn claims what it uses."""

    limits: TurnLimits
    started: datetime
    used: Counter[Resource] = field(default_factory=Counter)
    waited: timedelta = timedelta()
    waits_since: datetime | None = None

    def most(self, resource: Resource) -> int:
        """Return the limit on a resource."""
        limit: int | None = getattr(self.limits, f"max_{resource}")
        return self.limits.max_steps if limit is None else limit

    def left(self, resource: Resource) -> int:
        """Return how many more can be claimed."""
        return self.most(resource) - self.used[resource]

    def claim(self, resource: Resource) -> bool:
        """Claim one more of a resource; False, and nothing is counted, if there is none left."""
        if not self.left(resource):
            return False
        self.used[resource] += 1
        return True

    def claim_context(self, tokens: int) -> bool:
        """Claim a call of the model that reads so many tokens."""
        if tokens > self.limits.max_context_tokens:
            return False
        self.used["context_tokens"] = max(self.used["context_tokens"], tokens)
        return True

    def begin_wait(self, at: datetime) -> None:
        """Stop the clock while the turn waits for a person."""
        self.waits_since = at

    def end_wait(self, at: datetime) -> None:
        """Start the clock again."""
        self.waited += at - (self.waits_since or at)
        self.waits_since = None

    def remaining(self, at: datetime) -> float:
        """Return the seconds until the deadline, to the resolution of a timer; 0 after it."""
        used = (self.waits_since or at) - self.started - self.waited
        return max(0.0, round(self.limits.budget_seconds - used.total_seconds(), 3))

    def expired(self, at: datetime) -> bool:
        """Tell whether the deadline has passed."""
        return not self.remaining(at)

    def tool_seconds(self, most: float, at: datetime) -> float | None:
        """Return how long one tool call may take; None if too little time is left to start it."""
        left = self.remaining(at)
        return None if left < LEAST_TOOL_SECONDS else min(TOOL_SECONDS, most, left)

    def snapshot(self, at: datetime) -> BudgetSnapshot:
        """Say what is used of everything."""
        names = get_args(Resource)
        return BudgetSnapshot(
            remaining_s=self.remaining(at),
            expired=self.expired(at),
            waited_s=self.waited.total_seconds(),
            **{f"{name}_used": self.used[name] for name in names},
            **{f"{name}_max": self.most(name) for name in names},
        )


Level = Literal["off", "low", "medium", "high"]
# Efforts as providers name them; the first two are less than any level but `off`.
Effort = Literal["none", "minimal", "low", "medium", "high"]
CEILINGS: dict[Level, int] = {"off": 0, "low": 500, "medium": 2_000, "high": 5_000}
PREFIX = (
    "Wrap your reasoning in <think>...</think> before each reply, "
    "in at most about {tokens:,} tokens."
)
UNASKED = "think_level is off, and the model may think all the same: no setting for it is known"


class Thinking(Record):
    """How a turn thinks: its level, and about how many tokens it takes at most.

    `effort` is the provider's own `reasoning_effort`, None where it has none: then `prefix` goes
    into the system prompt. `warnings` say what is not as it was asked for.
    """

    level: Level
    tokens: int
    effort: Level | Effort | None = None
    prefix: str = ""
    warnings: tuple[str, ...] = ()


def thinking(
    asked: str,
    *,
    has_effort: bool,
    minimum: int | None = None,
    unasked: bool = False,
    least: Effort | None = None,
) -> Thinking:
    """Plan how to think at a level: by the provider's own setting, else by a prompt.

    `minimum` is the least that the provider lets its model think, which raises the ceiling. A model
    that thinks `unasked` gets the `least` effort at `off`.
    """
    level: Level = next((known for known in get_args(Level) if known == asked), "off")
    tokens, warnings = CEILINGS[level], list[str]()
    if level != asked:
        known = ", ".join(CEILINGS)
        warnings.append(f"think_level {short_name(asked)!r} is unknown, so off; levels: {known}")
    if level == "off":
        warnings += [UNASKED] if unasked and least is None else []
        return Thinking(level=level, tokens=0, effort=least, warnings=tuple(warnings))
    if not has_effort:
        return Thinking(level=level, tokens=tokens, prefix=PREFIX.format(tokens=tokens))
    if minimum is not None and minimum > tokens:
        said = f"thinking at level {level} may take {minimum:,} tokens, not {tokens:,}"
        warnings.append(f"{said}: the provider takes no less")
        tokens = minimum
    return Thinking(level=level, tokens=tokens, effort=level, warnings=tuple(warnings))
