"""Thinking levels: how many tokens a model may think before it replies, and how it is told."""

from typing import Literal, get_args

from reflection.request import Record, short_name

Level = Literal["off", "low", "medium", "high"]
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
    effort: Level | None = None
    prefix: str = ""
    warnings: tuple[str, ...] = ()


def thinking(asked: str, *, has_effort: bool, minimum: int | None = None) -> Thinking:
    """Plan how to think at a level: by the provider's own setting, else by a prompt.

    `minimum` is the least that the provider lets its model think, which raises the ceiling.
    """
    level: Level = next((known for known in get_args(Level) if known == asked), "off")
    tokens, warnings = CEILINGS[level], list[str]()
    if level != asked:
        known = ", ".join(CEILINGS)
        warnings.append(f"think_level {short_name(asked)!r} is unknown, so off; levels: {known}")
    if level == "off":
        return Thinking(level=level, tokens=0, warnings=tuple(warnings))
    if not has_effort:
        return Thinking(level=level, tokens=tokens, prefix=PREFIX.format(tokens=tokens))
    if minimum is not None and minimum > tokens:
        said = f"thinking at level {level} may take {minimum:,} tokens, not {tokens:,}"
        warnings.append(f"{said}: the provider takes no less")
        tokens = minimum
    return Thinking(level=level, tokens=tokens, effort=level, warnings=tuple(warnings))
