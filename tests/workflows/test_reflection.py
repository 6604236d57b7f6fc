"""The loop of reflection through a real server: its rounds, its judges and its guardrails."""

import json
from typing import Any

import pytest
from temporalio.client import Client

from activities.language_model.port import PermanentModelError, TransientModelError
from tests.conftest import QUERY, reflect
from tests.scripted import ADVICE, ScriptedModel, judgement, reply


async def test_a_draft_that_passes_is_not_revised(client: Client) -> None:
    model = ScriptedModel(write=["first"], judge=[0.8])

    result = await reflect(client, model)

    assert (result.draft, result.score, result.stop_reason) == ("first", 0.8, "passed")
    assert (len(model.calls), result.revisions) == (2, 0)


async def test_a_revision_has_query_draft_and_feedback(client: Client) -> None:
    model = ScriptedModel(write=["first", "second"], judge=[0.4, 0.9])

    result = await reflect(client, model)

    asked = model.calls[2].prompt
    assert all(each in asked for each in (QUERY, "first", ADVICE, "the first sentence"))
    assert (result.draft, result.score, result.stop_reason) == ("second", 0.9, "passed")
    assert [each.change for each in result.drafts] == [None, pytest.approx(0.5)]
    assert len(model.calls) == 4


@pytest.mark.parametrize(("most", "calls"), [(0, 2), (3, 8)])
async def test_n_revisions_are_n_regenerations(client: Client, most: int, calls: int) -> None:
    model = ScriptedModel(write=["a", "b", "c", "d"], judge=[0.1, 0.2, 0.3, 0.4])

    result = await reflect(client, model, max_revisions=most)

    assert (result.stop_reason, result.revisions, len(model.calls)) == (
        "max_revisions",
        most,
        calls,
    )
    assert [each.score for each in result.drafts] == [0.1, 0.2, 0.3, 0.4][: most + 1]


@pytest.mark.parametrize(
    ("scores", "best"), [([0.4, 0.2, 0.3], 0), ([0.2, 0.5, 0.3], 1), ([0.4, 0.2, 0.4], 0)]
)
async def test_the_best_draft_comes_back(client: Client, scores: list[float], best: int) -> None:
    model = ScriptedModel(write=["a", "b", "c"], judge=scores)

    result = await reflect(client, model, max_revisions=2)

    assert (result.best, result.draft) == (best, "abc"[best])


async def test_a_revision_starts_from_the_best_draft(client: Client) -> None:
    told = [json.dumps(told_to(advice, score)) for advice, score in [("A1", 0.5), ("B1", 0.2)]]
    model = ScriptedModel(write=["first", "second", "third"], judge=[*told, 0.9])

    result = await reflect(client, model, max_revisions=2)

    asked = model.calls[4].prompt
    assert ("\nfirst\n" in asked, "A1" in asked) == (True, True)
    assert ("second" in asked, "B1" in asked) == (False, False)
    assert [draft.revises for draft in result.drafts] == [None, 0, 0]


def told_to(advice: str, score: float) -> dict[str, object]:
    point = {"criterion": "clarity", "place": "the first sentence", "advice": advice}
    scores = dict.fromkeys(("completeness", "correctness", "clarity"), score)
    return {"feedback": [point], "criteria_scores": scores, "confidence": "medium"}


async def test_a_given_draft_is_judged_without_a_call_for_it(client: Client) -> None:
    model = ScriptedModel(write=[], judge=[0.75])

    result = await reflect(client, model, draft="mine")

    assert (result.draft, result.drafts[0].origin, len(model.calls)) == ("mine", "given", 1)
    assert result.usage.parts["generating"].calls == 0


@pytest.mark.parametrize(
    ("fields", "reason", "said"),
    [
        ({"reflect": False}, "disabled", "switched off"),
        ({"query": "What is the capital of France?"}, "skipped", "the estimated complexity"),
    ],
)
async def test_what_is_not_worth_it_is_not_reflected_on(
    client: Client, fields: dict[str, object], reason: str, said: str
) -> None:
    model = ScriptedModel(write=["only"])

    result = await reflect(client, model, **fields)

    assert (result.draft, result.score, result.stop_reason) == ("only", None, reason)
    assert said in result.stop_explanation
    assert len(model.calls) == 1


BUSY = TransientModelError("busy", "InternalServerError", 500, retry_after=0.01)
LONG = (
    "A tide table lists when water stands high and low at a harbour, and how high. Observers read "
    "a gauge there for a year or more. From these readings the strength and delay of each "
    "constituent are found: the moon's half-day pull, the sun's, and some thirty smaller ones. "
    "Adding the constituents up for coming dates gives the curve of the water, whose peaks and "
    "troughs are printed day by day. Pilots use it to cross a bar with a deep keel, fishermen to "
    "know when a flat falls dry, engineers to plan work on a pier, and bathers to stay safe."
)
SCORES = {"completeness": 0.9, "correctness": 0.9, "clarity": 0.9}


def said(**changed: object) -> str:
    return json.dumps({"feedback": [], "criteria_scores": {**SCORES, **changed}})


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ("I would give it a nine.", 'no JSON object with "criteria_scores"'),
        (said(clarity=float("nan")), "criteria_scores.clarity: should be a number"),
        ('{"criteria_scores": ' * 5_000, "incomplete or nested too deeply"),
    ],
)
async def test_an_unreadable_judgement_is_asked_for_once_more(
    client: Client, reply: str, error: str
) -> None:
    model = ScriptedModel(write=["first"], judge=[[reply, 0.8]])

    result = await reflect(client, model)

    assert (result.stop_reason, result.score, len(model.calls)) == ("passed", 0.8, 3)
    assert error in model.calls[2].prompt
    assert result.usage.parts["evaluating"].calls == 2


@pytest.mark.parametrize(("panel", "score"), [("mean", 0.5), ("median", 0.3)])
async def test_a_panel_judges_side_by_side(client: Client, panel: str, score: float) -> None:
    judges: dict[str, Any] = {"x/a": [0.3], "x/b": [0.9], "x/c": [0.3]}
    slow = {("judge", 0): 1.0}
    model = ScriptedModel(write=["first"], judge=judges, delays=slow)

    result = await reflect(
        client, model, judges=["x/a", "x/b", "x/c"], panel=panel, max_revisions=0
    )

    evaluation = result.drafts[0].evaluation
    assert evaluation is not None
    assert (result.score, evaluation.spread) == (score, 0.6)
    assert [(each.judge, each.score) for each in evaluation.judgements] == [
        ("x/a", 0.3),
        ("x/b", 0.9),
        ("x/c", 0.3),
    ]
    assert result.judges == ("x/a", "x/b", "x/c")


async def test_a_judge_that_fails_is_left_out_and_named(client: Client) -> None:
    judges: dict[str, Any] = {"x/a": [[BUSY, BUSY]], "x/b": [["rubbish", "rubbish"]], "x/c": [0.9]}
    model = ScriptedModel(write=["first"], judge=judges)

    result = await reflect(
        client, model, judges=["x/a", "x/b", "x/c"], max_attempts=2, max_revisions=0
    )

    assert (result.score, result.stop_reason) == (0.9, "passed")
    assert any("x/a was left out: InternalServerError" in each for each in result.warnings)
    assert any("x/b was left out: there is no JSON" in each for each in result.warnings)


async def test_a_judge_of_its_own_text_is_warned_of(client: Client) -> None:
    """Where the model that wrote also judges, the result says so; another one is no concern."""
    alone = await reflect(client, ScriptedModel(write=["first"], judge=[0.8]))
    other = await reflect(
        client, ScriptedModel(write=["first"], judge=[0.8]), judges=["other/judge"]
    )

    assert any("judged its own draft" in each for each in alone.warnings)
    assert not any("judged its own draft" in each for each in other.warnings)


async def test_a_guardrail_caps_the_score_and_says_why(client: Client) -> None:
    """Where length was asked for, a short draft that a judge praises is capped and revised."""
    model = ScriptedModel(write=["Short.", LONG], judge=[0.95, 0.95])

    result = await reflect(client, model, criteria="documentation", guardrails=["too_short"])

    first = result.drafts[0].evaluation
    assert first is not None
    assert (first.judged, first.score, first.confidence) == (0.95, 0.5, "low")
    assert [each.guardrail for each in first.guardrails] == ["too_short"]
    assert first.guardrails[0].reason.split()[0] in model.calls[2].prompt
    assert (result.best, result.score, result.stop_reason) == (1, 0.95, "passed")


async def test_a_doubt_lowers_the_confidence_alone(client: Client) -> None:
    """Where nobody asked for length, a short draft keeps its score and is doubted."""
    model = ScriptedModel(write=["Short."], judge=[0.95])

    result = await reflect(client, model, guardrails=["too_short"])

    first = result.drafts[0].evaluation
    assert first is not None
    assert (first.judged, first.score, first.confidence) == (0.95, 0.95, "low")
    assert (result.stop_reason, result.revisions) == ("passed", 0)


async def test_what_a_judge_is_asked(client: Client) -> None:
    """The prompt has each criterion's meaning, the threshold, and the query as data.

    Without a judge the writer judges; a judgement's tokens are apart from the draft's.
    """
    model = ScriptedModel(write=["first"], judge=[0.9])
    room = {"max_output_tokens": 100, "judge_max_output_tokens": 9_000}

    await reflect(
        client, model, criteria="research", score_threshold=0.65, model="x/writer", **room
    )

    prompt = model.calls[1].prompt
    assert "- citation_coverage: Every claim that needs support" in prompt
    assert "less than 0.65" in prompt
    assert json.dumps(QUERY) in prompt
    assert model.calls[1].reply_schema is not None
    assert [each.model for each in model.calls] == ["x/writer", "x/writer"]
    assert [each.max_output_tokens for each in model.calls] == [100, 9_000]


async def test_a_judge_that_failed_has_judged_nothing(client: Client) -> None:
    """It is named by the model asked for, and not among the judges of the result."""
    down = PermanentModelError("no such key", "AuthenticationError", 401)

    result = await reflect(
        client, ScriptedModel(write=["first"], judge=[down]), judges=["scripted/model"]
    )

    evaluation = result.drafts[0].evaluation
    assert evaluation is not None
    assert (result.judges, evaluation.judgements[0].model) == ((), None)
    assert not any("judged its own draft" in each for each in result.warnings)


async def test_what_a_judge_s_provider_does_not_take_is_told(client: Client) -> None:
    """A judge that was asked without its schema or seed is in the warnings."""
    told = reply(judgement("- completeness: x\n- correctness: x\n- clarity: x", 0.8))
    model = ScriptedModel(write=["first"], judge=[told.model_copy(update={"left_out": ("seed",)})])

    result = await reflect(client, model)

    assert "seed was not sent: the model refused it, or LiteLLM does not list it" in result.warnings
