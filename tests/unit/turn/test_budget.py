"""What a turn may use: to the unit, and never more."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from mull.turn.budget import Resource, TurnBudget, TurnLimits, thinking

START = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def budget(**limits: float) -> TurnBudget:
    return TurnBudget(TurnLimits.model_validate(limits), START)


@pytest.mark.parametrize(
    ("resource", "limits", "granted"),
    [
        ("steps", {}, 6),
        ("tool_calls", {}, 6),
        ("reflections", {}, 4),
        ("tool_calls", {"max_steps": 3}, 3),
        ("tool_calls", {"max_steps": 3, "max_tool_calls": 9}, 9),
        ("tool_calls", {"max_tool_calls": 0}, 0),
        ("steps", {"max_steps": 1}, 1),
        ("reflections", {"max_reflections": 0}, 0),
    ],
)
def test_claims_are_granted_to_the_unit(
    resource: Resource, limits: dict[str, float], granted: int
) -> None:
    """As many as the limit says, and a claim that is refused is not counted."""
    claimed = budget(**limits)

    assert [claimed.claim(resource) for _ in range(granted + 3)] == [True] * granted + [False] * 3
    assert claimed.used[resource] == granted


def test_no_order_of_claims_goes_over() -> None:
    """Whatever is claimed in whatever order, no count exceeds its limit."""
    chance, claimed = Random(7), budget(max_steps=3, max_tool_calls=5, max_reflections=2)
    for second in range(200):
        claimed.claim(chance.choice(["steps", "tool_calls", "reflections"]))
        claimed.claim_context(chance.randint(0, 400_000))
        shown = claimed.snapshot(after(second)).model_dump()
        for name in ("steps", "tool_calls", "reflections", "context_tokens"):
            assert 0 <= shown[f"{name}_used"] <= shown[f"{name}_max"]


def test_the_context_is_what_one_call_reads() -> None:
    """It is no sum; the largest call that was granted is kept."""
    claimed = budget()

    asked = [claimed.claim_context(tokens) for tokens in (150_000, 200_000, 200_001, 90_000)]

    assert asked == [True, True, False, True]
    assert claimed.snapshot(START).context_tokens_used == 200_000


@pytest.mark.parametrize(
    ("at", "remaining", "expired", "tool", "quick_tool"),
    [
        (0, 60, False, 45, 10),
        (14.9, 45.1, False, 45, 10),
        (20, 40, False, 40, 10),
        (52, 8, False, 8, 8),
        (55, 5, False, 5, 5),
        (55.1, 4.9, False, None, None),
        (60, 0, True, None, None),
        (70, 0, True, None, None),
    ],
)
def test_the_clock(
    at: float, remaining: float, expired: bool, tool: float | None, quick_tool: float | None
) -> None:
    """A tool gets 45 seconds, less where it or the turn has less, and does not start under 5."""
    claimed = budget()

    assert claimed.remaining(after(at)) == pytest.approx(remaining)
    assert claimed.expired(after(at)) == expired
    assert claimed.tool_seconds(60, after(at)) == (tool and pytest.approx(tool))
    assert claimed.tool_seconds(10, after(at)) == (quick_tool and pytest.approx(quick_tool))


def test_waiting_for_a_person_stops_the_clock() -> None:
    """Two waits of an hour later the turn has as much time left as before them."""
    claimed = budget()
    for begins in (10, 3_620):
        claimed.begin_wait(after(begins))
        assert claimed.remaining(after(begins + 1_800)) == claimed.remaining(after(begins))
        claimed.end_wait(after(begins + 3_600))

    assert claimed.remaining(after(7_220)) == 60 - 10 - 10
    assert claimed.snapshot(after(7_220)).waited_s == 7_200


def test_the_snapshot_of_a_new_budget() -> None:
    """The source's defaults."""
    assert budget().snapshot(START).model_dump() == {
        "remaining_s": 60.0, "expired": False, "waited_s": 0.0, "steps_used": 0, "steps_max": 6,
        "tool_calls_used": 0, "tool_calls_max": 6, "reflections_used": 0, "reflections_max": 4,
        "context_tokens_used": 0, "context_tokens_max": 200_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("level", "has_effort", "minimum", "tokens", "effort", "warning"),
    [
        ("off", True, 1_024, 0, None, ""),
        ("low", True, None, 500, "low", ""),
        ("medium", True, None, 2_000, "medium", ""),
        ("high", True, None, 5_000, "high", ""),
        ("low", True, 1_024, 1_024, "low", "may take 1,024 tokens, not 500: the provider"),
        ("medium", True, 1_024, 2_000, "medium", ""),
        ("low", False, 1_024, 500, None, ""),
        ("extreme", True, None, 0, None, "'extreme' is unknown, so off"),
        ("HIGH", True, None, 0, None, "'HIGH' is unknown, so off"),
        ("", False, None, 0, None, "'' is unknown, so off"),
        ("x\n" * 500, False, None, 0, None, "is unknown, so off"),
    ],
)
def test_a_level(
    level: str, has_effort: bool, minimum: int | None, tokens: int, effort: str | None, warning: str
) -> None:
    """Its ceiling, the provider's own setting, and what is not as it was asked for."""
    planned = thinking(level, has_effort=has_effort, minimum=minimum)

    assert (planned.tokens, planned.effort) == (tokens, effort)
    assert warning in "".join(planned.warnings)
    assert bool(planned.warnings) == bool(warning)
    assert len("".join(planned.warnings)) < 200


def test_without_a_setting_of_its_own_a_model_is_told_in_the_prompt() -> None:
    """The prefix says where to think and how long; at level off there is none."""
    assert "<think>...</think>" in thinking("medium", has_effort=False).prefix
    assert "2,000 tokens" in thinking("medium", has_effort=False).prefix
    assert thinking("off", has_effort=False).prefix == ""
    assert thinking("medium", has_effort=True).prefix == ""
