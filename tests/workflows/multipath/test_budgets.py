"""Budgets in tokens and US dollars: checked before each call."""

import pytest
from temporalio.client import Client

from reflection.run import Spending
from tests.scripted import WRITING, ScriptedAgent, reflection, routed
from tests.workflows.multipath.running import (
    BAD,
    FINE,
    GOOD,
    coding,
    passage,
    report,
    research,
    researching,
    write_code,
)


def endless() -> ScriptedAgent:
    return researching(*[FINE] * 3, reflect_on_report=[reflection("mend")] * 3)


@pytest.mark.parametrize(
    ("tokens", "calls", "drafts"),
    [(1, 1, 0), (99, 1, 0), (100, 2, 1), (199, 2, 1), (200, 3, 1), (349, 3, 1), (350, 5, 2)],
)
async def test_a_token_budget_is_kept_to(
    client: Client, tokens: int, calls: int, drafts: int
) -> None:
    """A route and a reflection take 50 tokens each and a draft 100; what does not fit is not asked.

    A call is taken to be as large as the largest like it, or of all where there was none. A report
    is refined only where its reflection fits too.
    """
    model = endless()

    result = await research(client, model, passage(), budget_tokens=tokens)

    assert (len(model.calls), len(result.drafts)) == (calls, drafts)
    assert (result.stop_reason, result.open) == ("budget", True)
    assert (result.output is not None) == (drafts > 0)


async def test_a_dollar_budget_is_kept_to(client: Client) -> None:
    """What a call cost is what the next one like it is taken to cost."""
    model = endless()

    result = await research(client, model, passage(), budget_usd=0.0045)

    assert (result.stop_reason, len(model.calls)) == ("budget", 3)
    assert "US dollars are spent" in result.stop_explanation


async def test_a_dollar_budget_needs_a_price(client: Client) -> None:
    """Where the model has no price, a budget in dollars ends the run after the first call."""
    unpriced = Spending(calls=1, input_tokens=30, output_tokens=70)
    model = ScriptedAgent({"route": [routed("research")]}, judging=unpriced)

    result = await research(client, model, budget_usd=1.0)

    assert (result.stop_reason, result.output, len(model.calls)) == ("budget", None, 1)


async def test_a_second_try_has_to_fit_too(client: Client) -> None:
    """An unreadable reply is not asked for again where the budget has no room for it."""
    model = researching(FINE, reflect_on_report=[["no", reflection()]])

    result = await research(client, model, passage(), budget_tokens=220)

    assert (result.stop_reason, len(model.calls)) == ("budget", 3)
    assert (result.output or "").startswith(FINE)


async def test_tests_are_paid_for_and_running_them_is_not(client: Client) -> None:
    """After the first code there is no room for a second, though its test costs nothing."""
    model = coding(BAD, GOOD)

    result = await write_code(client, model, report(False, True, True), budget_tokens=300)

    assert (result.stop_reason, len(model.calls), len(result.drafts)) == ("budget", 3, 1)
    assert (result.drafts[0].report is not None, result.open) == (True, True)


async def test_usage_is_split_by_part(client: Client) -> None:
    """First drafts and tests, routes and reflections, and every later draft are counted apart."""
    model = coding(BAD, GOOD)

    result = await write_code(client, model, report(False, True, True), report(True, True, True))

    calls = {name: each.calls for name, each in result.usage.parts.items()}
    assert calls == {
        "generating": 2,
        "evaluating": 1,
        "revising": 1,
        "retried": 0,
        "cancelled": 0,
    }
    assert result.usage.tokens == 50 + 3 * ((WRITING.input_tokens or 0) + 70)
    assert result.usage.cost_usd == pytest.approx(0.007)
