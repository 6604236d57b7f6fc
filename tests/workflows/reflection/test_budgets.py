"""Budgets in tokens, US dollars and seconds: checked before each call."""

import pytest
from temporalio.client import Client

from reflection.run import Spending
from tests.conftest import reflect
from tests.scripted import Judged, ScriptedCritic


@pytest.mark.parametrize(
    ("tokens", "calls", "draft", "score"),
    [
        (1, 1, "a", None),
        (199, 1, "a", None),
        (200, 2, "a", 0.1),
        (299, 2, "a", 0.1),
        (300, 4, "b", 0.2),
        (449, 4, "b", 0.2),
        (450, 6, "c", 0.3),
    ],
)
async def test_a_token_budget_is_kept_to(
    client: Client, tokens: int, calls: int, draft: str, score: float | None
) -> None:
    """A draft takes 100 tokens and a judgement 50; what does not fit any more is not asked.

    A revision is not asked for either where its judging does not fit.
    """
    model = ScriptedCritic(["a", "b", "c", "d"], [0.1, 0.2, 0.3, 0.4])

    result = await reflect(client, model, budget_tokens=tokens, max_revisions=3)

    assert (len(model.calls), result.stop_reason) == (calls, "budget")
    assert (result.draft, result.score) == (draft, score)
    assert result.usage.tokens is not None
    assert result.usage.tokens <= max(tokens, 100)


@pytest.mark.parametrize(("usd", "calls"), [(0.0045, 2), (0.0055, 2), (0.0065, 4)])
async def test_a_dollar_budget_is_kept_to(client: Client, usd: float, calls: int) -> None:
    """A call costs what the one before it did; a revision is bought with its judging."""
    model = ScriptedCritic(["a", "b"], [0.1, 0.2])

    result = await reflect(client, model, budget_usd=usd, max_revisions=2)

    assert (result.stop_reason, len(model.calls)) == ("budget", calls)
    assert "US dollars are spent" in result.stop_explanation


@pytest.mark.parametrize(("most", "calls"), [(100, 2), (4096, 1)])
async def test_a_judge_is_sized_by_its_own_prompt_and_limit(
    client: Client, most: int, calls: int
) -> None:
    """A judge that may take under 1,000 tokens is asked after a draft of 8,000 of 9,000."""
    large = Spending(calls=1, input_tokens=7_000, output_tokens=1_000, cost_usd=0.002)
    model = ScriptedCritic(["a"], [0.9], writing=large)

    result = await reflect(client, model, budget_tokens=9_000, judge_max_output_tokens=most)

    assert (len(model.calls), result.score) == (calls, 0.9 if calls == 2 else None)


async def test_a_revision_needs_room_for_the_whole_panel(client: Client) -> None:
    """Its score would be of fewer judges than the score that it is compared with."""
    judges: dict[str, list[Judged | list[Judged]]] = {"x/a": [0.1, 0.9], "x/b": [0.1, 0.9]}
    asked: list[int] = []

    for tokens in (399, 400):
        model = ScriptedCritic(["a", "b"], panel=judges)
        await reflect(client, model, judges=list(judges), budget_tokens=tokens)
        asked.append(len(model.calls))

    assert asked == [3, 6]


async def test_a_dollar_budget_needs_a_price(client: Client) -> None:
    """Where the model has no price, a budget in dollars ends the run after the first call."""
    unpriced = Spending(calls=1, input_tokens=30, output_tokens=70)
    model = ScriptedCritic(["a"], [0.1], writing=unpriced)

    result = await reflect(client, model, budget_usd=1.0)

    assert (result.stop_reason, result.draft, len(model.calls)) == ("budget", "a", 1)


async def test_a_panel_under_a_budget_is_asked_one_by_one(client: Client) -> None:
    """The judges that still fit are heard, and the others named: never more than one too many."""
    judges: dict[str, list[Judged | list[Judged]]] = {"x/a": [0.9], "x/b": [0.9], "x/c": [0.9]}
    model = ScriptedCritic(["a"], panel=judges)

    result = await reflect(
        client, model, judges=["x/a", "x/b", "x/c"], budget_tokens=240, max_revisions=0
    )

    assert (result.score, len(model.calls), result.usage.tokens) == (0.9, 3, 200)
    assert any("x/c was left out: 200 of 240 tokens" in each for each in result.warnings)
