"""The four thinking levels, and what a provider makes of them."""

import pytest

from mull.turn.budget import thinking


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
