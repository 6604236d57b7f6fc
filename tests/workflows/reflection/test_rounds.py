"""The loop of reflection through a real server: which calls, which draft, which stop reason."""

import json

import pytest
from temporalio.client import Client

from tests.conftest import QUERY, reflect
from tests.scripted import ADVICE, ScriptedCritic


async def test_a_draft_that_passes_is_not_revised(client: Client) -> None:
    """One call writes, one judges, and the first draft comes back."""
    model = ScriptedCritic(["first"], [0.8])

    result = await reflect(client, model)

    assert (result.draft, result.score, result.stop_reason) == ("first", 0.8, "passed")
    assert (len(model.calls), result.revisions) == (2, 0)


async def test_a_revision_has_query_draft_and_feedback(client: Client) -> None:
    """What is wrong goes back to the writer, and the better draft is scored too."""
    model = ScriptedCritic(["first", "second"], [0.4, 0.9])

    result = await reflect(client, model)

    asked = model.calls[2].prompt
    assert all(each in asked for each in (QUERY, "first", ADVICE, "the first sentence"))
    assert (result.draft, result.score, result.stop_reason) == ("second", 0.9, "passed")
    assert [each.change for each in result.drafts] == [None, pytest.approx(0.5)]
    assert len(model.calls) == 4


@pytest.mark.parametrize(("most", "calls"), [(0, 2), (3, 8)])
async def test_n_revisions_are_n_regenerations(client: Client, most: int, calls: int) -> None:
    """`max_revisions` N makes N revisions, and each draft, the last one too, is scored."""
    model = ScriptedCritic(["a", "b", "c", "d"], [0.1, 0.2, 0.3, 0.4])

    result = await reflect(client, model, max_revisions=most)

    assert (result.stop_reason, result.revisions, len(model.calls)) == (
        "max_revisions",
        most,
        calls,
    )
    assert [each.score for each in result.drafts] == [0.1, 0.2, 0.3, 0.4][: most + 1]


@pytest.mark.parametrize(
    ("scores", "best"),
    [([0.4, 0.2, 0.3], 0), ([0.2, 0.5, 0.3], 1), ([0.4, 0.2, 0.4], 0)],
)
async def test_the_best_draft_comes_back(client: Client, scores: list[float], best: int) -> None:
    """The best-scored draft is the result, the earlier among equals, whatever came last."""
    model = ScriptedCritic(["a", "b", "c"], scores)

    result = await reflect(client, model, max_revisions=2)

    assert (result.best, result.draft) == (best, "abc"[best])


async def test_a_revision_starts_from_the_best_draft(client: Client) -> None:
    """The third draft is made of the first, which the second fell behind, by its own feedback."""
    told = [json.dumps(told_to(advice, score)) for advice, score in [("A1", 0.5), ("B1", 0.2)]]
    model = ScriptedCritic(["first", "second", "third"], [*told, 0.9])

    result = await reflect(client, model, max_revisions=2)

    asked = model.calls[4].prompt
    assert ("\nfirst\n" in asked, "A1" in asked) == (True, True)
    assert ("second" in asked, "B1" in asked) == (False, False)
    assert [draft.revises for draft in result.drafts] == [None, 0, 0]


def told_to(advice: str, score: float) -> dict[str, object]:
    """What a judge replies who has one thing to say."""
    point = {"criterion": "clarity", "place": "the first sentence", "advice": advice}
    scores = dict.fromkeys(("completeness", "correctness", "clarity"), score)
    return {"feedback": [point], "criteria_scores": scores, "confidence": "medium"}


async def test_a_given_draft_is_judged_without_a_call_for_it(client: Client) -> None:
    """A draft of the user's own costs no writing, and is the result where it passes."""
    model = ScriptedCritic([], [0.75])

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
    """One call writes the draft, nothing judges it, and the rule that skipped it is named."""
    model = ScriptedCritic(["only"])

    result = await reflect(client, model, **fields)

    assert (result.draft, result.score, result.stop_reason) == ("only", None, reason)
    assert said in result.stop_explanation
    assert len(model.calls) == 1
