"""Thinking levels: how many tokens a model may think before it replies, and how it is told."""

from typing import Literal, get_args

from reflection.request import Record, short_name

Level = Literal["off", "low", "medium", "high"]
# What a provider is told; the first two are less than any level but `off`.
Effort = Literal["none", "minimal", "low", "medium", "high"]
CEILINGS: dict[Level, int] = {"off": 0, "low": 500, "medium": 2_000, "high": 5_000}
PREFIX = (
    "Wrap your reasoning in <think>...</think> before each reply, "
    "in at most about {tokens:,} tokens."
)


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


UNASKED = "think_level is off, and the model may think all the same: no setting for it is known"


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
    that thinks `unasked` is told the `least` effort at `off`.
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
