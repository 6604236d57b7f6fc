"""What a run of reflection shows: the facts on its sheet, whichever renderer draws it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mull.critique import loop
from mull.critique.evaluation import Cap, Evaluation
from mull.critique.loop import Reflection
from mull.critique.result import StopReason
from mull.critique.sheet import judged_words, sheet
from mull.run import usage
from mull.sheet import Sheet, Waiting
from tests.unit.critique.reflected import capped, panel, reflected, write
from tests.unit.runs import START, spending
from tests.unit.sheets import column, fact, table


def told(state: Reflection) -> Sheet:
    """Return the sheet of a run that ended, or that goes on."""
    standing = state.record(step="revising", in_flight=1)
    return sheet(state.result()) if state.stopped else sheet(standing)


def ended(texts: Sequence[str], reason: StopReason, **cut: Any) -> Reflection:
    """A run that stopped before anything was evaluated."""
    state = reflected([])
    for text in texts:
        write(state, text, **cut)
    state.stop(reason, "the reason", START)
    return state


def unjudged() -> Reflection:
    state = reflected([0.6])
    write(state, "later")
    state.stop("deadline", "the time budget of 5 seconds is used up", START)
    return state


SIMPLE = {"complexity": 0.3}
BETTER = "no draft after draft 1 scored higher"
HELD = "draft 2 was not judged; the best earlier draft is given instead"
LEAVE_OUT = "leave out --{} to have it judged and revised"


@pytest.mark.parametrize(
    ("state", "changes", "tone", "flag"),
    [
        (ended([], "budget"), {}, "bad", "there is no draft"),
        (reflected([None]), {}, "bad", "the draft has no score"),
        (reflected([0.6, 0.5], max_revisions=1), {}, "warning", BETTER),
        (unjudged(), {}, "warning", HELD),
        (
            ended(["part"], "budget", cut=True),
            {},
            "warning",
            "the draft was cut to the size limit of a result",
        ),
        (
            ended(["part"], "disabled", finish_reason="length"),
            {},
            "warning",
            "not to be built on: the draft was cut off by its provider: raise max_output_tokens",
        ),
        (
            ended(["one"], "skipped"),
            SIMPLE,
            "plain",
            "use --min-complexity 0 to have it judged and revised anyway",
        ),
        (ended(["one"], "skipped"), {}, "plain", LEAVE_OUT.format("synthesis-follows")),
        (ended(["one"], "disabled"), {}, "plain", LEAVE_OUT.format("no-reflect")),
        (reflected([0.42, 0.75]), {}, "good", None),
    ],
)
def test_what_a_reader_has_to_know_is_flagged(
    state: Reflection, changes: dict[str, object], tone: str, flag: str | None
) -> None:
    """A draft that is missing, cut, unjudged or not the newest; and how it would be reflected on.

    Where no draft has a score the first one is the answer, and there is no curve.
    """
    shown = sheet(state.result().model_copy(update=changes))

    assert shown.verdict.tone == tone
    assert flag in shown.flags if flag else shown.flags == ()
    assert (shown.answer is None) == (not state.drafts)
    assert bool(shown.charts) == any(draft.score is not None for draft in state.drafts)


def test_a_run_that_goes_on_names_its_step_and_the_best_so_far() -> None:
    """The step, the calls in flight, the drafts and decisions so far."""
    state = reflected([0.42])
    state.left_out(["seed"])
    shown = told(state)

    assert shown.warnings == (
        "seed was not sent: the model refused it, or LiteLLM does not list it",
    )
    assert shown.verdict.words == shown.busy == "Revising, 1 call in flight"
    assert shown.verdict.tone == "running"
    assert fact(shown, "revisions").value == "0 of at most 3"
    assert fact(shown, "best").value == "draft 1 of 1, score 0.42"
    assert shown.decisions is not None
    assert column(shown.decisions, "because") == ["score 0.42 is below 0.7, with 3 revisions left"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (reflected([]), "no draft yet"),
        (ended([], "budget"), "no draft"),
        (ended(["one"], "budget"), "draft 1 of 1, not evaluated"),
        (
            reflected([None]),
            "draft 1 of 1, no score: unreadable twice: no JSON object in the reply",
        ),
    ],
)
def test_the_best_draft_has_its_score_or_why_there_is_none(state: Reflection, words: str) -> None:
    """A draft that nobody could judge has no number, and a run without a draft says so."""
    assert fact(told(state), "best").value == words


def test_the_complexity_says_what_it_decides() -> None:
    """With the request's bound if it is known, else with the bound's name."""
    state = reflected([0.75], min_complexity=0.4)
    state.complexity = 0.59

    notes = [
        fact(sheet(state.result(), request), "complexity of the query").note
        for request in (state.request, None)
    ]

    said = "how much it asks for, 0 to 1; drafts are judged above"
    assert notes == [f"{said} 0.4", f"{said} min_complexity"]


def test_a_lone_judge_is_folded_away_and_a_panel_is_not() -> None:
    """The table of judges is for the page alone, unless one of the drafts had several."""
    assert table(told(reflected([0.42])), "Panel").folded
    assert not table(told(reflected([0.42, panel()])), "Panel").folded


@pytest.mark.parametrize(
    ("score", "judges", "author", "caps", "words"),
    [
        (0.9, 0.9, None, [], ""),
        (0.5, 0.9, None, [("too_short", 0.8)], "judged 0.90, capped by too_short"),
        (0.5, 0.9, None, [("too_short", 0.8), ("strict", 0.95)],
         "judged 0.90, capped by too_short"),
        (0.4, 0.4, None, [("too_short", 0.8)], ""),
        (0.8, 0.4, "ann", [], 'scored by "ann" (unverified), judged 0.40'),
        (0.8, None, "ann", [], 'scored by "ann" (unverified)'),
        (None, None, None, [], ""),
    ],
)  # fmt: skip
def test_who_made_a_score_what_it_is(
    score: float | None,
    judges: float | None,
    author: str | None,
    caps: list[tuple[str, float]],
    words: str,
) -> None:
    """A guardrail is named where it lowered the score, and a person who gave it."""
    held = tuple(Cap(guardrail=name, cap=0.5, above=above, reason="r") for name, above in caps)
    evaluation = Evaluation(score=score, judged=judges, author=author, guardrails=held)

    assert judged_words(evaluation) == words


def test_a_cost_that_nobody_knows_is_unknown() -> None:
    """An unknown cost is never a number, and calls without a reply are told."""
    unknown = usage({"generating": [spending(1, 1).model_copy(update={"cost_usd": None})]}, 2, 0)
    ended = reflected([0.75]).result().model_copy(update={"usage": unknown})

    shown = sheet(ended)

    assert table(shown, "Usage").rows == (
        ("generating", 1, 1, 1, 0, "unknown"),
        ("retried", 2, "unknown", "unknown", "unknown", "unknown"),
        ("total", 1, 1, 1, 0, "unknown"),
    )
    assert "and 2 calls without a reply" in fact(shown, "spent").value


def test_each_decision_is_a_step_with_its_draft() -> None:
    """The score, who changed it, what was decided, and last the scores by criterion."""
    state = reflected([0.42, capped(0.9)])
    state.stop("budget", "90 of 100 tokens are spent", START)

    steps = told(state).steps

    assert [step.words for step in steps] == [
        (
            "draft 1  0.42 ▇▇▇▁▁▁▁▁  revise: score 0.42 is below 0.7, with 3 revisions left  "
            "completeness 0.42 correctness 0.42 clarity 0.42"
        ),
        (
            "draft 2  0.50 ▇▇▇▇▁▁▁▁  (judged 0.90, capped by too_short)  "
            "revise: score 0.5 is below 0.7, with 2 revisions left  "
            "completeness 0.90 correctness 0.90 clarity 0.90"
        ),
        "         stop: 90 of 100 tokens are spent",
    ]
    assert [step.tone for step in steps] == ["warning", "warning", "plain"]
    assert told(reflected([0.75])).steps[0].tone == "good"
    assert told(reflected([0.42])).steps == steps[:1]


def test_a_wait_for_a_person_says_until_when() -> None:
    """A run that waits has its decision, its step and the end of the wait."""
    state = reflected([0.42], max_revisions=0, review_below=0.6)
    until = START + timedelta(hours=1)

    shown = sheet(state.record(step="waiting_for_review", review_until=until))

    assert shown.waiting == Waiting(until=until)
    assert shown.busy == "Waiting for a person's review"
    assert "review: score 0.42 is below 0.7, and no revision is allowed" in shown.steps[-1].words
    assert shown.answer is not None


def test_a_person_who_decides_is_named_once() -> None:
    """The author is added where the reason does not name them."""
    state = reflected([0.4])
    loop.grant(state, "shorter", "ann", START)
    state.stop("finished_by_person", "finished by ann", START, "ann")

    decisions = told(state).decisions

    assert decisions is not None
    assert column(decisions, "because")[1:] == [
        'a person asked for a revision: shorter (by "ann" (unverified))',
        'finished by "ann" (unverified)',
    ]  # fmt: skip
    assert column(decisions, "decision") == ["revise", "revise", "stop: finished_by_person"]
    assert column(decisions, "at")[-1] == "2026-03-01 12:00:00 UTC"
