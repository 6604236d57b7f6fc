"""The request of a tool-using turn."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Annotated, get_args

from pydantic import AfterValidator, FailFast, Field, StrictStr, StringConstraints
from pydantic_core import to_json

from mull.multipath.request import SEARCHED, Folder
from mull.option import bound_option, model_option, option
from mull.request import TURN_SECONDS, Framing, MessageText, Words, output_limit, time_out
from mull.text import within
from mull.turn.approval import ToolRule
from mull.turn.budget import Level, TurnLimits, reflection_option
from mull.turn.tools import RESULT_BYTES

SUMMARY_BYTES = 20_000
RULES_BYTES = 30_000


def _few_bytes(rules: tuple[ToolRule, ...]) -> tuple[ToolRule, ...]:
    if (size := len(to_json(rules))) > RULES_BYTES:
        raise ValueError(f"{size:,} bytes exceed the limit of {RULES_BYTES:,}")
    return rules


Summary = Annotated[Words, AfterValidator(partial(within, most=SUMMARY_BYTES))]
Rules = Annotated[tuple[ToolRule, ...], FailFast(), AfterValidator(_few_bytes)]
ToolOrGroup = Annotated[str, StringConstraints(min_length=1, max_length=64)]

tool_option = partial(option, "Tools")


class TurnOptions(TurnLimits, Framing):
    """What came before a message, the tools that may be used, and all that bounds the turn.

    Source: the reflection engine and the harness that it is a part of; their defaults.
    """

    summary: Summary | None = Field(
        default=None, description="A summary of what was said before the earlier messages."
    )
    tools: tuple[ToolOrGroup, ...] | None = tool_option(
        None,
        "The tools that may be used, by name or group (python, documents, a server); all of the"
        ' worker by default, none with --tools "".',
        "names",
        common=True,
        max_length=100,
    )
    docs: Folder | None = tool_option(None, SEARCHED, "folder", common=True)
    approve: Rules = tool_option(
        (),
        "Rules for tool calls, a JSON list, which can only tighten the worker's.",
        "json",
        expected="a list of rules",
        max_length=200,
    )
    think_level: StrictStr = option(
        "Reflection",
        "off",
        "How much the model thinks; at off there is no reflection.",
        common=True,
        choices=get_args(Level),
        max_length=100,
    )
    reflect_every: int = reflection_option(
        0,
        "Reflect in each turn whose number is a multiple; 0: never.",
        ge=0,
        le=1_000,
    )
    reflect_on_tool_error: bool = option(
        "Reflection", True, "Off: no reflection after a tool error."
    )
    reflect_on_uncertainty: bool = reflection_option(
        False, "Reflect when the model states a confidence under 0.5."
    )
    reflection_feeds_back: bool = reflection_option(
        False, "Put the last reflection into the next step's system message."
    )
    turn_count: int = Field(
        default=1, ge=1, le=10**9, description="The number of the turn in its session, from 1."
    )
    temperature: float = model_option(0.7, "Temperature.", ge=0, le=2, allow_inf_nan=False)
    seed: int | None = model_option(None, "The model's seed, if it takes one.", ge=0, le=2**31)
    max_output_tokens: int | None = output_limit("reply", 4_096, model_option, common=True)
    call_timeout_seconds: float | None = time_out("call of the model", TURN_SECONDS)
    review_timeout_seconds: float = bound_option(
        86_400,
        "Seconds to wait for a person's word on a tool call, which then is denied.",
        gt=0,
        le=30 * 86_400,
        allow_inf_nan=False,
        flag="--review-timeout",
    )

    @property
    def shown(self) -> list[str]:
        """The texts whose size is bounded together: with the summary."""
        return [*super().shown, *([self.summary] if self.summary else [])]


class ToolTurnRequest(TurnOptions):
    """A message, and everything that its turn is held to."""

    subject_field = "message"
    result_bytes = RESULT_BYTES

    message: MessageText
    stream: bool = model_option(
        False, "Publish the answer while it is written, as `mull turn` shows it."
    )

    def most_calls(self) -> Iterator[tuple[str | None, int]]:
        """Yield the models of a run, each with the most calls of it."""
        yield self.model, self.max_steps + self.max_reflections

    def task_timeout(self) -> timedelta | None:
        """Return it as for any run; None where more tools may be called than the model is."""
        many = (self.max_tool_calls or 0) > self.max_steps + self.max_reflections
        return None if many else super().task_timeout()
