"""What goes wrong while a run works: what there is comes back, and what happened."""

from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.documents.retrieval import RetrievalError
from activities.language_model.port import (
    LanguageModel,
    PermanentModelError,
    SampleError,
    TransientModelError,
)
from mull.text import CUT_NOTE, encoded_size
from tests.conftest import QUERY, begin, failure, reflect
from tests.scripted import (
    ScriptedModel,
    ScriptedRetriever,
    code,
    reflection,
    reply,
    routed,
    written_tests,
)
from tests.workflows.multipath.running import (
    BAD,
    CASES,
    FINE,
    GOOD,
    PROMPT,
    TASK,
    WRONG,
    ScriptedTester,
    Tested,
    coding,
    finding,
    passage,
    report,
    research,
    researching,
    served,
)

DOWN = PermanentModelError("no such key", "AuthenticationError", 401)
BUSY = TransientModelError("busy", "InternalServerError", 500, retry_after=0.01)
EMPTY = SampleError("the reply is empty", "EmptyReply")
FILTERED = SampleError("filtered", "ContentPolicyViolationError", 400)
BROKEN = ApplicationError("no namespace", type="sandbox_error")
PASSED, FAILED = report(True, True, True), report(False, True, True)
UNREAD = ["no", "no again"]
ROUTED = 'there is no JSON object with "mode"'
NO_BETTER = "no better draft could be generated"
ASK: dict[str, Any] = {"question": "How much?"}
REFLECT: dict[str, Any] = {"query": QUERY, "guardrails": []}
RESEARCH: dict[str, Any] = {"prompt": PROMPT, "docs": "tides"}
CODE: dict[str, Any] = {"prompt": TASK}
KINDS = {
    "question": "SelfConsistencyWorkflow",
    "query": "ReflectOnResultWorkflow",
    "prompt": "MultiPathWorkflow",
}


async def run(
    client: Client,
    request: dict[str, Any],
    model: LanguageModel,
    tester: ScriptedTester | None = None,
    retriever: ScriptedRetriever | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Run once to the end: two attempts for each call, and one passage to be found."""
    kind = next(KINDS[name] for name in KINDS if name in request)
    async with served(client, model, tester, retriever or finding(passage())):
        handle = await begin(client, {"max_attempts": 2, **request, **fields}, kind)
        result: dict[str, Any] = await handle.result()
        return result


@pytest.mark.parametrize(
    ("request_", "model", "kind"),
    [
        (ASK, ScriptedModel(sample=[DOWN] * 5), "AuthenticationError"),
        (REFLECT, ScriptedModel(write=[DOWN]), "AuthenticationError"),
        (REFLECT, ScriptedModel(write=[[BUSY, BUSY]]), "InternalServerError"),
        (REFLECT, ScriptedModel(write=[[EMPTY] * 2]), "EmptyReply"),
        (RESEARCH, researching(route=[DOWN]), "AuthenticationError"),
        (RESEARCH, researching(route=[[BUSY, BUSY]]), "InternalServerError"),
        (RESEARCH, researching(generate_report=[DOWN]), "AuthenticationError"),
        (RESEARCH, researching(generate_report=[[BUSY, BUSY]]), "InternalServerError"),
        (CODE, coding(generate_code=[DOWN]), "AuthenticationError"),
    ],
)
async def test_where_no_call_can_be_made_the_run_fails(
    client: Client, request_: dict[str, Any], model: LanguageModel, kind: str
) -> None:
    workflow = next(KINDS[name] for name in KINDS if name in request_)

    async with served(client, model, ScriptedTester(), finding(passage())):
        error = await failure(await begin(client, {**request_, "max_attempts": 2}, workflow))

    assert error.type == kind


async def test_documents_that_can_t_be_searched_fail_the_run(client: Client) -> None:
    retriever = ScriptedRetriever([RetrievalError("the folder tides is not allowed")])

    async with served(client, researching(FINE), None, retriever):
        error = await failure(await begin(client, RESEARCH, "MultiPathWorkflow"))

    assert (error.type, error.message) == ("RetrievalError", "the folder tides is not allowed")
    assert error.non_retryable
    assert len(retriever.tasks) == 1


UNSCORED = {"draft": "first", "score": None}
SCORED = {"draft": "first", "score": 0.4, "revisions": 0}
NOTHING = {"output": None, "open": True}
OPEN = {"kept": 0, "open": True, "revisions": 1}
UNTESTED = {"output": GOOD + "\n", "open": True, "revisions": 1}
UNMENDED = {"output": BAD + "\n", **OPEN}
POETRY = routed("neither", "it is a poem")


def critic(drafts: list[Any], *scores: Any) -> ScriptedModel:
    return ScriptedModel(write=drafts, judge=scores)


def refining(said: Any) -> ScriptedModel:
    return researching(WRONG, FINE, generate_report=[WRONG, said])


def repairing(said: Any) -> ScriptedModel:
    return coding(generate_code=[code(BAD), said])


# What is asked for by a model of which something fails, why the run stops and what it says of it,
# what is kept, and what the tests of code say.
FAILING: list[tuple[dict[str, Any], LanguageModel, str, str, dict[str, Any], Tested | None]] = [
    (REFLECT, critic(["first"], DOWN), "evaluation_failed", "AuthenticationError", UNSCORED, None),
    (REFLECT, critic(["first"], [BUSY] * 2), "evaluation_failed", "busy", UNSCORED, None),
    (REFLECT, critic(["first"], UNREAD), "evaluation_failed", "no JSON object", UNSCORED, None),
    (REFLECT, critic(["first", "second"], 0.4, UNREAD),
     "evaluation_failed", "no JSON object", {"draft": "first", "score": 0.4}, None),
    (REFLECT, critic(["first", DOWN], 0.4),
     "revision_failed", "could not be revised", SCORED, None),
    (REFLECT, critic(["first", [BUSY] * 2], 0.4), "revision_failed", "busy", SCORED, None),
    (REFLECT, critic(["first", [EMPTY] * 2], 0.4), "revision_failed", "is empty", SCORED, None),
    (RESEARCH, researching(route=[UNREAD]), "unrouted", ROUTED, NOTHING, None),
    (RESEARCH, researching(route=[POETRY]), "unrouted", "a poem", {"output": None}, None),
    (RESEARCH, researching(generate_report=[[EMPTY] * 3]),
     "generation_failed", "no draft could be generated", NOTHING, None),
    (RESEARCH, refining(DOWN), "generation_failed", NO_BETTER, OPEN, None),
    (RESEARCH, refining([BUSY] * 2), "generation_failed", NO_BETTER, OPEN, None),
    (RESEARCH, researching(FINE, reflect_on_report=[DOWN]), "reflection_failed", "", OPEN, None),
    (RESEARCH, researching(FINE, reflect_on_report=[UNREAD]), "reflection_failed", "", OPEN, None),
    (CODE, coding(GOOD, write_tests=[DOWN]), "test_failed", "no usable tests", UNTESTED, None),
    (CODE, coding(GOOD, write_tests=[UNREAD]), "test_failed", "no usable tests", UNTESTED, None),
    (CODE, coding(generate_code=[UNREAD]),
     "generation_failed", "the reply contains no Python code", NOTHING, None),
    (CODE, repairing(DOWN), "generation_failed", NO_BETTER, UNMENDED, FAILED),
    (CODE, repairing([EMPTY] * 2), "generation_failed", "is empty", UNMENDED, FAILED),
    (CODE, coding(GOOD), "test_failed", "sandbox_error: no namespace", UNTESTED, BROKEN),
]  # fmt: skip


@pytest.mark.parametrize("failing", FAILING)
async def test_what_fails_leaves_what_there_is(client: Client, failing: Any) -> None:
    request, model, reason, said, kept, tested = failing
    tester = ScriptedTester(*([] if tested is None else [tested]))

    result = await run(client, request, model, tester)

    assert result["stop_reason"] == reason
    assert said in result["stop_explanation"]
    assert kept.items() <= result.items()


ROUTE = routed("research")
FEW = written_tests("double", {"double(1)": "2"})
TESTS = written_tests("double", CASES)
AGAIN: list[tuple[dict[str, Any], ScriptedModel, str, str]] = [
    (RESEARCH, researching(FINE, route=[["no", ROUTE]]), "route", ROUTED),
    (RESEARCH, researching(FINE, route=[[routed("poetry"), ROUTE]]), "route", "mode: should be"),
    (RESEARCH, researching(FINE, route=[[FILTERED, ROUTE]]), "route", "PolicyViolationError: "),
    (RESEARCH, researching(FINE, reflect_on_report=[["Looks fine to me.", reflection()]]),
     "reflect_on_report", 'no JSON object with "issues"'),
    (CODE, coding(GOOD, write_tests=[[FEW, TESTS]]),
     "write_tests", "only 1 of its tests can be used"),
    (CODE, coding(generate_code=[["I can't do that.", code(GOOD)]]),
     "generate_code", "the reply contains no Python code"),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "model", "node", "shown"), AGAIN)
async def test_an_unreadable_reply_is_asked_for_once_more(
    client: Client, request_: dict[str, Any], model: ScriptedModel, node: str, shown: str
) -> None:
    result = await run(client, request_, model, ScriptedTester(PASSED))

    assert result["stop_reason"] in {"consistent", "passed"}
    assert shown in model.asked(node)[1].prompt
    assert (len(model.asked(node)), result["revisions"]) == (2, 1)


async def test_retries_are_counted(client: Client) -> None:
    """A call that fails in passing is made again by Temporal, and the result counts it."""
    model = researching(FINE, generate_report=[[BUSY, FINE]])

    result = await research(client, model, passage())

    assert (result.drafts[0].attempts, result.usage.parts["retried"].calls) == (2, 1)


def slow_critic(*place: Any) -> ScriptedModel:
    return ScriptedModel(write=["first"], judge=[0.9], delays={place: 60})


def slow_agent(*place: Any) -> ScriptedModel:
    return researching(WRONG, FINE, delays={place: 60})


@pytest.mark.parametrize(
    ("request_", "model", "kept"),
    [
        (REFLECT, slow_critic("write", 0), {"draft": None, "best": None}),
        (REFLECT, slow_critic("judge", 0), UNSCORED),
        (RESEARCH, slow_agent("route", 0), {"kept": None, "output": None}),
        (RESEARCH, slow_agent("generate_report", 0), {"kept": None, "output": None}),
        (RESEARCH, slow_agent("reflect_on_report", 0), OPEN),
    ],
)
async def test_the_deadline_during_a_call(
    client: Client, request_: dict[str, Any], model: LanguageModel, kept: dict[str, Any]
) -> None:
    result = await run(client, request_, model, budget_seconds=2)

    cancelled = result["usage"]["parts"]["cancelled"]["calls"]
    assert (result["stop_reason"], cancelled) == ("deadline", 1)
    assert kept.items() <= result.items()


async def test_the_deadline_during_what_asks_no_model(client: Client) -> None:
    slow = ScriptedTester(PASSED, delay=60)

    searched = await run(
        client, RESEARCH, researching(FINE), None, finding(delay=60), budget_seconds=1
    )
    tested = await run(client, CODE, coding(BAD), slow, budget_seconds=2)

    assert (searched["output"], searched["stop_reason"]) == (None, "deadline")
    assert (tested["output"], tested["stop_reason"]) == (BAD + "\n", "deadline")


async def test_a_cut_draft_is_kept(client: Client) -> None:
    """A draft that was cut off at its tokens' limit is judged, and can't pass as it is.

    A report is reflected on, and says that it is cut; so is one that no result can hold.
    """
    long = reply("The table is made from observations, and " * 30, finish_reason="length")
    judged = await reflect(
        client,
        ScriptedModel(write=[long], judge=[0.95]),
        max_revisions=0,
        guardrails=["unfinished"],
    )
    cut = researching(FINE, generate_report=[reply(FINE, finish_reason="length")])
    reported = await research(client, cut, passage())
    large = await research(client, researching(FINE + " And so on." * 10_000), passage())

    said = "draft 1 was cut off by its provider: it is not whole"
    assert judged.drafts[0].finish_reason == "length"
    assert said in judged.warnings
    assert said in reported.warnings
    assert (judged.score, judged.stop_reason) == (0.5, "max_revisions")
    assert (reported.drafts[0].cut, reported.stop_reason) == (True, "consistent")
    assert (encoded_size(large.drafts[0].text), large.drafts[0].cut) == (60_000, True)
    assert large.drafts[0].text.endswith(CUT_NOTE)
    assert "draft 1 was cut to 60,000 bytes, the size for a result" in large.warnings


async def test_what_a_provider_does_not_take_is_told(client: Client) -> None:
    without: Any = reply(FINE).model_copy(update={"left_out": ("seed",)})
    model = researching(FINE, generate_report=[without])

    result = await research(client, model, passage(), seed=7)

    assert "seed was not sent: the model refused it, or LiteLLM does not list it" in result.warnings
    assert result.drafts[0].seed is None


async def test_a_draft_does_not_pass_where_a_guardrail_could_not_run(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the worker's own script fails the evaluation; no judge is asked, and it is named."""
    from mull.critique import guardrails

    def mine(_: guardrails.Checked) -> None:
        raise NotImplementedError

    mine.__module__ = "__main__"
    monkeypatch.setitem(guardrails._GUARDRAILS, "mine", mine)

    result = await reflect(client, ScriptedModel(write=["first"], judge=[]), guardrails=["mine"])

    assert (result.draft, result.score, result.stop_reason) == ("first", None, "evaluation_failed")
    assert "guardrail mine is not registered in a module that can" in result.stop_explanation
