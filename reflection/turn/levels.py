"""Thinking levels: how many tokens a model may think before it replies, and how it is told.

Source: the public documentation of the thinking manager that schedules the source's reflections.
"""

from typing import Literal, get_args

from reflection.request import Record, short_name

Level = Literal["off", "low", "medium", "high"]
CEILINGS: dict[Level, int] = {"off": 0, "low": 500, "medium": 2_000, "high": 5_000}
PREFIX = (
    "Wrap your reasoning in <think>...</think> before each reply, "
    "in at most about {tokens:,} tokens."
)


class Thinking(Record):
    """How a turn thinks: its level, the level's ceiling in tokens, and the one that holds.

    `effort` is the provider's own `reasoning_effort`, None where it has none: then `prefix` goes
    into the system prompt. `warnings` say what is not as it was asked for.
    """

    level: Level
    ceiling: int
    tokens: int
    effort: Level | None = None
    prefix: str = ""
    warnings: tuple[str, ...] = ()


def thinking(asked: str, *, has_effort: bool, minimum: int | None = None) -> Thinking:
    """Plan how to think at a level: by the provider's own setting, else by a prompt.

    `minimum` is the least that the provider lets its model think, which raises the ceiling.
    """
    level: Level = next((known for known in get_args(Level) if known == asked), "off")
    warnings = []
    if level != asked:
        known = ", ".join(get_args(Level))
        warnings.append(f"think_level {short_name(asked)!r} is unknown, so off; levels: {known}")
    ceiling = tokens = CEILINGS[level]
    if level == "off":
        return Thinking(level=level, ceiling=0, tokens=0, warnings=tuple(warnings))
    if not has_effort:
        prefix = PREFIX.format(tokens=tokens)
        return Thinking(level=level, ceiling=ceiling, tokens=tokens, prefix=prefix)
    if minimum is not None and minimum > ceiling:
        tokens = minimum
        said = f"thinking at level {level} may take {minimum:,} tokens, not {ceiling:,}"
        warnings.append(f"{said}: the provider takes no less")
    return Thinking(
        level=level, ceiling=ceiling, tokens=tokens, effort=level, warnings=tuple(warnings)
    )
