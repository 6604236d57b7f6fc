"""Budgets in tokens and US dollars: checked before each call, whichever loop makes it."""

from typing import Any

import pytest
from temporalio.client import Client

from mull.run import Spending
from mull.text import tally_words
from tests.conftest import QUERY, begin, reflect, served
from tests.scripted import Script, ScriptedModel, reflection, routed
from tests.workflows.multipath.running import (
    BAD,
    FINE,
    GOOD,
    PROMPT,
    coding,
    passage,
    report,
    research,
    researching,
    write_code,
)

REQUESTS: dict[str, dict[str, Any]] = {
    "SelfConsistencyWorkflow": {"question": "How much?"},
    "ReflectOnResultWorkflow": {"query": QUERY, "guardrails": [], "max_revisions": 3},
    "MultiPathWorkflow": {"prompt": PROMPT, "max_revisions": 3},
}
ASK, REFLECT, AGENT = REQUESTS
ANSWERS = {ASK: "final_answer", REFLECT: "draft", AGENT: "kept"}
SAMPLE = Spending(calls=1, input_tokens=80, output_tokens=20)
PAGE = Spending(calls=1, input_tokens=30, output_tokens=70)


def model_of(workflow: str, unpriced: bool) -> ScriptedModel:
    """A sample or a draft takes 100 tokens, and a judgement, a route or a reflection 50."""
    if workflow == ASK:
        return ScriptedModel(sample=["1"] * 5, spending={"sample": SAMPLE} if unpriced else None)
    if workflow == REFLECT:
        spending = {"write": PAGE} if unpriced else None
        return ScriptedModel(
            write=["a", "b", "c", "d"], judge=[0.1, 0.2, 0.3, 0.4], spending=spending
        )
    script: Script = {
        "route": [routed("research")],
        "generate_report": [FINE] * 3,
        "reflect_on_report": [reflection("mend")] * 3,
    }
    return ScriptedModel(
        **script, spending=dict.fromkeys(("route", "reflect_on_report"), PAGE) if unpriced else None
    )


@pytest.mark.parametrize(
    ("workflow", "tokens", "calls", "answer"),
    [
        (ASK, 350, 3, "1"),
        (REFLECT, 1, 1, "a"),
        (REFLECT, 199, 1, "a"),
        (REFLECT, 200, 2, "a"),
        (REFLECT, 299, 2, "a"),
        (REFLECT, 300, 4, "b"),
        (REFLECT, 449, 4, "b"),
        (REFLECT, 450, 6, "c"),
        (AGENT, 99, 1, None),
        (AGENT, 100, 2, 0),
        (AGENT, 200, 3, 0),
        (AGENT, 349, 3, 0),
        (AGENT, 350, 5, 1),
    ],
)
async def test_a_token_budget_is_kept_to(
    client: Client, workflow: str, tokens: int, calls: int, answer: object
) -> None:
    """What does not fit any more is not asked, and what there is comes back.

    A call is taken to be as large as the largest like it, or of all where there was none. A draft
    is revised only where its judging fits too.
    """
    model = model_of(workflow, unpriced=False)

    async with served(client, model):
        request = {**REQUESTS[workflow], "budget_tokens": tokens}
        result = await (await begin(client, request, workflow)).result()

    assert (len(model.calls), result["stop_reason"]) == (calls, "budget")
    assert result[ANSWERS[workflow]] == answer
    assert f"of {tally_words(tokens, 'token')} are spent" in result["stop_explanation"]


UNPRICED = "a limit of $1.00 can't be kept: the model's price is unknown, so bound its tokens by"


@pytest.mark.parametrize(
    ("workflow", "usd", "calls", "unpriced", "said"),
    [
        (
            ASK,
            1.0,
            1,
            True,
            UNPRICED,
        ),
        (
            REFLECT,
            1.0,
            1,
            True,
            UNPRICED,
        ),
        (
            AGENT,
            1.0,
            1,
            True,
            UNPRICED,
        ),
        (REFLECT, 0.0055, 2, False, "of $0.0055 are spent"),
        (REFLECT, 0.0065, 4, False, "of $0.0065 are spent"),
        (AGENT, 0.0045, 3, False, "of $0.0045 are spent"),
    ],
)
async def test_a_dollar_budget_is_kept_to(
    client: Client, workflow: str, usd: float, calls: int, unpriced: bool, said: str
) -> None:
    model = model_of(workflow, unpriced)

    async with served(client, model):
        request = {**REQUESTS[workflow], "budget_usd": usd}
        handle = await begin(client, request, workflow)
        result = await handle.result()
        doubt = await (await handle.describe()).memo_value("doubt", "")

    assert (result["stop_reason"], len(model.calls)) == ("budget", calls)
    assert said in result["stop_explanation"]
    assert (said in doubt) == (doubt != "")
    assert doubt or not unpriced


async def test_a_judge_without_a_price_is_told(client: Client) -> None:
    critic = ScriptedModel(write=["a"], judge=[0.9], spending={"judge": PAGE})

    result = await reflect(client, critic, budget_usd=1.0)

    said = "the price of a call for evaluating is unknown: budget_usd counts it as the dearest"
    assert result.score == 0.9
    assert any(warning.startswith(said) for warning in result.warnings)


@pytest.mark.parametrize(("most", "calls"), [(100, 2), (4096, 1)])
async def test_a_judge_is_sized_by_its_own_prompt_and_limit(
    client: Client, most: int, calls: int
) -> None:
    """A judge that may take under 1,000 tokens is asked after a draft of 8,000 of 9,000."""
    large = Spending(calls=1, input_tokens=7_000, output_tokens=1_000, cost_usd=0.002)
    model = ScriptedModel(write=["a"], judge=[0.9], spending={"write": large})

    result = await reflect(client, model, budget_tokens=9_000, judge_max_output_tokens=most)

    assert (len(model.calls), result.score) == (calls, 0.9 if calls == 2 else None)


async def test_a_revision_needs_room_for_the_whole_panel(client: Client) -> None:
    """Its score would be of fewer judges than the score that it is compared with."""
    judges = {"x/a": [0.1, 0.9], "x/b": [0.1, 0.9]}
    asked: list[int] = []

    for tokens in (399, 400):
        model = ScriptedModel(write=["a", "b"], judge=judges)
        await reflect(client, model, judges=list(judges), budget_tokens=tokens)
        asked.append(len(model.calls))

    assert asked == [3, 6]


async def test_a_panel_under_a_budget_is_asked_one_by_one(client: Client) -> None:
    judges = {"x/a": [0.9], "x/b": [0.9], "x/c": [0.9]}
    model = ScriptedModel(write=["a"], judge=judges)

    result = await reflect(client, model, judges=[*judges], budget_tokens=240, max_revisions=0)

    assert (result.score, len(model.calls), result.usage.tokens) == (0.9, 3, 200)
    assert any("x/c was left out: 200 of 240 tokens" in each for each in result.warnings)


async def test_a_second_try_has_to_fit_too(client: Client) -> None:
    model = researching(FINE, reflect_on_report=[["no", reflection()]])

    result = await research(client, model, passage(), budget_tokens=220)

    assert (result.stop_reason, len(model.calls)) == ("budget", 3)
    assert (result.output or "").startswith(FINE)


async def test_tests_are_paid_for_and_running_them_is_not(client: Client) -> None:
    model = coding(BAD, GOOD)

    result = await write_code(client, model, report(False, True, True), budget_tokens=300)

    assert (result.stop_reason, len(model.calls), len(result.drafts)) == ("budget", 3, 1)
    assert (result.drafts[0].report is not None, result.open) == (True, True)


async def test_usage_is_split_by_part(client: Client) -> None:
    judged = await reflect(client, ScriptedModel(write=["a", "b"], judge=[0.1, 0.2]))
    coded = await write_code(
        client, coding(BAD, GOOD), report(False, True, True), report(True, True, True)
    )

    parts = {
        name: (each.calls, each.input_tokens, each.output_tokens, each.cost_usd)
        for name, each in judged.usage.parts.items()
        if each.calls
    }
    assert parts == {
        "generating": (1, 30, 70, 0.002),
        "evaluating": (2, 80, 20, pytest.approx(0.002)),
        "revising": (1, 30, 70, 0.002),
    }
    assert (judged.usage.calls, judged.usage.tokens) == (4, 300)
    calls = {name: each.calls for name, each in coded.usage.parts.items() if each.calls}
    assert calls == {"generating": 2, "evaluating": 1, "revising": 1}
    assert coded.usage.tokens == 350
    assert coded.usage.cost_usd == pytest.approx(0.007)
