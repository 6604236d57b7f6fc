"""Budgets in tokens, US dollars and seconds, and what they leave."""

from temporalio.client import Client

from reflection.run import Spending
from tests.conftest import ask
from tests.scripted import ScriptedModel


async def test_a_token_budget_is_never_overrun(client: Client) -> None:
    """Samples of 100 tokens fit three times into 350, whatever the rule still wants."""
    model = ScriptedModel(["1", "2", "3", "4", "5"])

    result = await ask(client, model, budget_tokens=350)

    assert (result.stop_reason, len(model.calls), result.waves) == ("budget", 3, (1, 2))
    assert result.decisions[-1].index is None
    assert "300 of 350 tokens are spent" in result.stop_explanation


async def test_a_dollar_budget_needs_a_price(client: Client) -> None:
    """Where the model has no price, a budget in dollars ends the run after the first call."""
    unpriced = Spending(calls=1, input_tokens=80, output_tokens=20)
    model = ScriptedModel(["1"] * 5, spending=unpriced)

    result = await ask(client, model, budget_usd=1.0)

    assert (result.stop_reason, len(model.calls)) == ("budget", 1)
    assert "does not report US dollars" in result.stop_explanation
    assert result.usage.cost_usd is None


async def test_a_deadline_keeps_what_came_and_cancels_the_rest(client: Client) -> None:
    """At the deadline the answers that are in are counted, and the slow calls cancelled."""
    model = ScriptedModel(["129", "129", "7", "129", "129"], delays=[0, 0, 60, 0, 60])

    result = await ask(client, model, budget_seconds=3)

    assert (result.stop_reason, result.final_answer) == ("deadline", "129")
    assert [each.index for each in result.responses] == [0, 1, 3]
    assert result.usage.parts["cancelled"].calls == 2
