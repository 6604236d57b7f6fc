"""A result that waits for a person, in each loop: what they may say, and what ends the wait."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from temporalio.client import Client
from temporalio.exceptions import CancelledError

from activities.language_model.port import LanguageModel
from mull.critique.result import ReflectOnResultResult
from mull.multipath.result import MultiPathResult
from tests.conftest import QUERY, Handle, ask, begin, failure, reflect, refusal, served, until
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel, code, reflection
from tests.workflows.multipath import running as agents


class Waiting(NamedTuple):
    """A run that waits for a person: what they see, what the loop refuses, and a replacement."""

    workflow: str
    request: dict[str, Any]
    model: Callable[[], LanguageModel]
    seen: tuple[str, object]
    refused: Sequence[tuple[Any, str]]
    replaced: dict[str, object]
    # Too few for one more revision.
    budget_tokens: int | None = None


def poor(*more: float) -> ScriptedModel:
    """Drafts of which the first two have scores of 0.4 and 0.3, and the others these."""
    return ScriptedModel(write=["a", "b", "c", "d"], judge=[0.4, 0.3, *more])


def open_reports(*more: str) -> ScriptedModel:
    """Reports of which the first has a critique, and the others what `more` says of them."""
    return agents.researching(*[agents.WRONG] * 4, reflect_on_report=[reflection("mend it"), *more])


ASK = Waiting(
    "SelfConsistencyWorkflow",
    {"question": "How?", "max_responses": 5, "review_when": "high", "answers": "number"},
    lambda: ScriptedModel(sample=["1", "2", "3", "4", "5"]),
    ("final_answer", "1"),
    [
        ({"score": 0.5}, "an answer can only be accepted or replaced"),
        ({"revise": "better"}, "an answer can only be accepted or replaced"),
        ({"replace": "7" * 3_000}, "the answer is too long"),
        ({"replace": "banana"}, "the answer can't be read as number"),
    ],
    {"final_answer": "7", "voted_answer": "1", "reviewer": "ann"},
)
REFLECT = Waiting(
    "ReflectOnResultWorkflow",
    {"query": QUERY, "guardrails": [], "review_below": 0.6},
    poor,
    ("draft", "a"),
    [
        ({"replace": "x" * 100_000}, "the text is over 81,250 bytes"),
        ({"replace": "x" * 100_001}, ""),
        ({"score": 1.5}, ""),
        ({"accept": True, "score": 0.5}, "give one of accept, revise, replace and score"),
        ({"revise": "shorter"}, "300 of 320 tokens"),
    ],
    {"draft": " 7 \n", "score": None},
    320,
)
AGENT = Waiting(
    "MultiPathWorkflow",
    {"prompt": agents.PROMPT, "max_revisions": 1, "review_open": True},
    open_reports,
    ("kept", 0),
    [
        ({"score": 0.5}, "a result of the agent has no score: accept, revise or replace it"),
        ({"replace": "x" * 60_001}, "the text is over 60,000 bytes"),
        ({"revise": "shorter"}, "200 of 250 tokens"),
    ],
    {"output": " 7 \n", "open": False, "critiques": []},
    250,
)
REFUSED: list[tuple[Any, str]] = [
    ({}, "give one of accept, revise, replace and score"),
    ({"revise": "  "}, "give some text"),
    ({"replace": ""}, ""),
    ({"akzept": True}, ""),
    ("yes", ""),
    (b"rubbish", ""),
]
each_loop = pytest.mark.parametrize("loop", [ASK, REFLECT, AGENT], ids=lambda loop: loop.workflow)


async def needs_review(handle: Handle, waits: bool = True) -> None:
    """Wait until the run's search attribute says that it waits for a person, or no more."""

    def said(run: Any) -> bool:
        found = {pair.key.name: pair.value for pair in run.typed_search_attributes}
        return found.get("MullNeedsReview") is waits

    await until(handle.describe, said)


@asynccontextmanager
async def waiting(
    client: Client, loop: Waiting, model: LanguageModel | None = None, **fields: Any
) -> AsyncIterator[Handle]:
    async with served(client, model or loop.model()):
        handle = await begin(client, {**loop.request, **fields}, loop.workflow)
        await needs_review(handle)
        yield handle


async def ended(handle: Handle) -> dict[str, Any]:
    result: dict[str, Any] = await asyncio.wait_for(handle.result(), PATIENCE)
    return result


async def test_what_is_good_waits_for_nobody(client: Client) -> None:
    certain = await ask(client, ScriptedModel(sample=["1"] * 5), review_when="high")
    passed = await reflect(client, ScriptedModel(write=["a"], judge=[0.9]), review_below=0.6)
    closed = await agents.run(client, agents.researching("It is high."), review_open=True)

    assert (certain.stop_reason, passed.stop_reason) == ("rule", "passed")
    assert closed.stop_reason == "consistent"


@each_loop
async def test_a_person_accepts(client: Client, loop: Waiting) -> None:
    async with waiting(client, loop) as handle:
        await handle.execute_update("review", {"accept": True, "author": "ann"})
        result = await ended(handle)
        await needs_review(handle, waits=False)

    field, value = loop.seen
    *_, before, last = result["decisions"]
    assert (result[field], result["stop_reason"]) == (value, "accepted_by_person")
    assert (before["stop"], last["stop"], last["author"]) == (loop is ASK, True, "ann")
    assert last["at"] > before["at"]
    if loop is not ASK:
        assert before["reason"].endswith("waits for a review")
        assert (before["stop_reason"], before["waits_for_review"]) == ("max_revisions", True)


@each_loop
async def test_a_person_replaces_the_result(client: Client, loop: Waiting) -> None:
    async with waiting(client, loop) as handle:
        await handle.execute_update("review", {"replace": " 7 \n", "author": "ann"})
        result = await ended(handle)

    assert result["stop_reason"] == "replaced_by_person"
    assert loop.replaced.items() <= result.items()
    if loop is not ASK:
        assert result["drafts"][-1]["origin"] == "replaced"
        assert result["drafts"][-1]["author"] == "ann"


@each_loop
async def test_wrong_reviews_are_refused_and_change_nothing(client: Client, loop: Waiting) -> None:
    of_another = [] if loop is ASK else [({"accept": True, "draft": 1}, "draft 1 is under review")]
    bound: dict[str, Any] = {"budget_tokens": loop.budget_tokens}

    async with waiting(client, loop, **bound) as handle:
        before = await handle.query("progress")
        for wrong, said in (*REFUSED, *loop.refused, *of_another):
            refused = await refusal(handle, "review", wrong)
            assert said in refused
        after = await handle.query("progress")
        await handle.execute_update("review", {"accept": True, "draft": 0})
        result = await ended(handle)

    assert after == before
    assert (result["stop_reason"], result["decisions"][-1]["author"]) == (
        "accepted_by_person",
        "a person",
    )


@each_loop
async def test_the_wait_ends_by_itself(client: Client, loop: Waiting) -> None:
    async with waiting(client, loop, review_timeout_seconds=2) as handle:
        until = (await handle.query("progress"))["review_until"]
        result = await ended(handle)

    decided = datetime.fromisoformat(result["decisions"][-2]["at"])
    assert datetime.fromisoformat(until) == decided + timedelta(seconds=2)
    assert (result[loop.seen[0]], result["stop_reason"]) == (loop.seen[1], "review_timeout")


@each_loop
async def test_finishing_ends_the_wait(client: Client, loop: Waiting) -> None:
    async with waiting(client, loop) as handle:
        if loop is ASK:
            await refusal(handle, "add_answer", {"answer": "7"})
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await ended(handle)

    assert (result[loop.seen[0]], result["stop_reason"]) == (loop.seen[1], "finished_by_person")
    assert result["decisions"][-1]["author"] == "ann"


@each_loop
async def test_cancelling_ends_the_wait(client: Client, loop: Waiting) -> None:
    async with waiting(client, loop) as handle:
        before = await handle.query("progress")
        await handle.cancel()
        await failure(handle, CancelledError)
        await needs_review(handle, waits=False)
        after = await handle.query("progress")

    shown = "answer_distribution" if loop is ASK else "drafts"
    assert after[shown] == before[shown] != {}


async def judged(handle: Handle) -> ReflectOnResultResult:
    return ReflectOnResultResult.model_validate(await ended(handle))


async def walked(handle: Handle) -> MultiPathResult:
    return MultiPathResult.model_validate(await ended(handle))


async def test_a_person_s_words_reach_the_writer(client: Client) -> None:
    """The draft that was shown is revised by the person's words, judged, and may pass.

    What the person waited takes nothing of the run's seconds.
    """
    model = poor(0.9)

    async with waiting(client, REFLECT, model, budget_seconds=8) as handle:
        await asyncio.sleep(8.5)
        await handle.execute_update("review", {"revise": "name the harbour", "author": "ann"})
        result = await judged(handle)

    assert (result.draft, result.stop_reason, result.revisions) == ("c", "passed", 2)
    assert (result.drafts[2].revises, result.drafts[2].author) == (0, "ann")
    assert "name the harbour" in model.calls[4].prompt
    assert [each.asked for each in result.decisions if each.asked] == ["name the harbour"]


async def test_a_person_s_words_join_k(client: Client) -> None:
    model = open_reports(reflection())

    async with waiting(client, AGENT, model) as handle:
        await handle.execute_update("review", {"revise": "name the bay", "author": "ann"})
        result = await walked(handle)

    asked = model.asked("generate_report")[1].prompt
    assert "name the bay" in asked
    assert "mend it" in asked
    assert (result.stop_reason, result.revisions, result.max_revisions) == ("consistent", 2, 2)
    assert (result.drafts[1].author, result.drafts[1].origin) == ("ann", "refined")
    (granted,) = [each for each in result.decisions if each.asked]
    assert (granted.after, granted.next) == ("reflect_on_report", "generate_report")
    assert (granted.asked, granted.author) == ("name the bay", "ann")


async def test_a_person_s_words_join_e(client: Client) -> None:
    drafts = ["a = 1", "a = 2", "a = 3"]
    model = agents.coding(generate_code=[code(each) for each in drafts])
    reports = [(True, True, False), (False, False, True), (True, True, True)]
    tester = agents.ScriptedTester(*(agents.report(*each) for each in reports))
    known = {"prompt": agents.TASK, "max_revisions": 2, "review_open": True}

    async with agents.served(client, model, tester):
        handle = await agents.start(client, **known)
        await needs_review(handle)
        await handle.execute_update("review", {"revise": "count", "author": "ann", "draft": 0})
        result = await walked(handle)

    asked = model.asked("generate_code")[2].prompt
    assert all(each in asked for each in ("count", "it returned another value", "a = 1"))
    assert "a = 2" not in asked
    assert (result.output, result.stop_reason) == ("a = 3\n", "passed")
    assert result.drafts[2].author == "ann"


@pytest.mark.parametrize("loop", [REFLECT, AGENT], ids=lambda loop: loop.workflow)
async def test_what_is_poor_again_waits_again(client: Client, loop: Waiting) -> None:
    model = poor(0.2) if loop is REFLECT else open_reports(reflection("mend that"))

    async with waiting(client, loop, model) as handle:
        await handle.execute_update("review", {"revise": "shorter"})
        await needs_review(handle, waits=False)
        await needs_review(handle)
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    # The best report is the latest, and the best draft the one with the highest score.
    assert result.get("best", result.get("kept")) == (0 if loop is REFLECT else 1)
    assert (result["stop_reason"], result["revisions"]) == ("accepted_by_person", 2)


async def test_a_person_s_revision_is_one_and_no_more(client: Client) -> None:
    model = ScriptedModel(write=["a", "b", "c", "d", "e"], judge=[0.4, 0.4, 0.4, 0.5, 0.55])

    async with waiting(client, REFLECT, model, max_revisions=8) as handle:
        await handle.execute_update("review", {"revise": "shorter"})
        await needs_review(handle, waits=False)
        await needs_review(handle)
        await handle.execute_update("review", {"accept": True})
        result = await judged(handle)

    waits = [each.stop_reason for each in result.decisions if each.waits_for_review]
    assert waits == ["plateau", "max_revisions"]
    assert (result.draft, result.revisions) == ("d", 3)


async def test_a_person_has_five_drafts_and_no_more(client: Client) -> None:
    model = agents.researching(*[agents.WRONG] * 6, reflect_on_report=[reflection("mend it")] * 6)

    async with waiting(client, AGENT, model) as handle:
        for drafts in range(2, 7):
            await handle.execute_update("review", {"revise": "again"})
            made = 1 + 3 * drafts
            await until(lambda: handle.query("decisions"), lambda found: len(found) >= made)
        refused = await refusal(handle, "review", {"revise": "again"})
        await handle.execute_update("review", {"accept": True})
        result = await walked(handle)

    assert "at most 5 revisions can be requested" in refused
    assert result.revisions == 6


@pytest.mark.parametrize("judgement", [[0.4, 0.3], [["rubbish", "rubbish"]]], ids=["poor", "none"])
async def test_a_person_scores_the_draft(client: Client, judgement: list[Any]) -> None:
    """The person's score is the draft's, whatever a judge said, or if none could judge it."""
    model = ScriptedModel(write=["a", "b"], judge=judgement)

    async with waiting(client, REFLECT, model) as handle:
        await handle.execute_update("review", {"score": 0.8, "author": "ann"})
        result = await judged(handle)

    evaluation = result.drafts[0].evaluation
    assert evaluation is not None
    assert (result.draft, result.score, result.stop_reason) == ("a", 0.8, "scored_by_person")
    assert (evaluation.judged, evaluation.author) == (
        (0.4, "ann") if len(judgement) == 2 else (None, "ann")
    )
