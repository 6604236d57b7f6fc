"""What a run of reflection shows: the facts on its sheet, whichever renderer draws it."""

from datetime import timedelta
from typing import get_args

import pytest

from reflection.critique import loop
from reflection.critique.evaluation import Cap, Evaluation, Feedback, Judgement
from reflection.critique.loop import Reflection, progress, result
from reflection.critique.result import ReflectOnResultResult, Step
from reflection.critique.sheet import STEP_WORDS, judged_words, sheet
from reflection.run import usage
from reflection.sheet import Sheet, Waiting
from tests.unit.critique.reflected import (
    ADVICE,
    JUDGE,
    START,
    WRITER,
    capped,
    judged,
    reflected,
    spending,
    write,
)
from tests.unit.sheets import column, fact, table


def told(state: Reflection) -> Sheet:
    """Return the sheet of a run that ended, or that goes on."""
    standing = progress(state, "revising", 1, None)
    return sheet(result(state)) if state.stopped else sheet(standing, state.decisions)


def skipped(**changes: object) -> ReflectOnResultResult:
    state = reflected([])
    write(state, "only one")
    state.stop("skipped", "the estimated complexity 0.30 is not above 0.5", START)
    return result(state).model_copy(update=changes)


def test_a_finished_run_says_why_it_ended_and_what_the_best_draft_is_worth() -> None:
    """The verdict, the answer, and the numbers it rests on."""
    shown = told(reflected([0.42, 0.75]))

    assert shown.subject == "Compare Kafka and Pulsar for an audit log."
    assert shown.verdict.words == "score 0.75 reaches 0.7"
    assert (shown.verdict.stop_reason, shown.verdict.tone) == ("passed", "good")
    assert shown.answer is not None
    assert shown.answer.content == "Kafka keeps a log. Revision 1."
    assert fact(shown, "best").value == "draft 2 of 2, score 0.75"
    assert fact(shown, "threshold").value == "0.7"
    assert fact(shown, "revisions").value == "1"
    assert fact(shown, "spent").value == "4 calls, 800 tokens in and 520 out, cost $0.0040"
    assert (fact(shown, "model").value, fact(shown, "judge").value) == (WRITER, JUDGE)
    assert (shown.flags, shown.waiting, shown.busy) == ((), None, "")


def test_a_run_that_goes_on_names_its_step_and_the_best_so_far() -> None:
    """The step, the calls in flight, the drafts and decisions so far."""
    state = reflected([0.42])
    state.warn("the provider does not take seed; it was not sent")
    shown = told(state)

    assert shown.warnings == ("the provider does not take seed; it was not sent",)
    assert shown.verdict.words == shown.busy == "Revising, 1 call in flight"
    assert shown.verdict.tone == "running"
    assert fact(shown, "revisions").value == "0 of at most 3"
    assert fact(shown, "best").value == "draft 1 of 1, score 0.42"
    assert shown.decisions is not None
    assert column(shown.decisions, "because") == ["score 0.42 is below 0.7, with 3 revisions left"]


def test_before_the_first_draft_there_is_nothing_to_show() -> None:
    """No table, no curve, no answer; and where a run ends so, it says that there is no draft."""
    state = reflected([])
    shown = told(state)
    state.stop("budget", "90 of 100 tokens are spent", START)

    assert fact(shown, "best").value == "no draft yet"
    assert [table.title for table in shown.tables] == ["Usage"]
    assert (shown.charts, shown.answer, shown.steps) == ((), None, ())
    assert told(state).flags == ("there is no draft",)
    assert told(state).verdict.tone == "bad"


def test_every_step_has_words() -> None:
    """No run stands without a sentence for it."""
    assert set(STEP_WORDS) == set(get_args(Step))


def test_the_drafts_stand_in_their_order_and_the_best_is_marked() -> None:
    """A capped score has the judges' beside it, and a change its sign."""
    shown = told(reflected([0.42, capped(0.9), 0.75]))
    drafts = table(shown, "Drafts")

    assert drafts.rows == (
        ("1", "generated", 0.42, None, None, 30, WRITER),
        ("2", "revised", 0.5, "judged 0.90, capped by too_short", "+0.08", 30, WRITER),
        ("3 best", "revised", 0.75, None, "+0.25", 30, WRITER),
    )
    assert drafts.tones == ("plain", "plain", "good")
    assert [text.title for text in shown.texts] == ["draft 1, generated", "draft 2, revised"]


def test_scores_by_criterion_have_a_column_for_each_draft() -> None:
    """Weights and meanings stand beside them, so that the whole score can be followed."""
    criteria = [
        {"name": "tone", "meaning": "It is courteous.", "weight": 2},
        {"name": "facts", "meaning": "It is true."},
    ]
    scored = Evaluation(score=0.8, judged=0.8, criteria={"tone": 0.9, "facts": 0.6})

    found = table(told(reflected([scored], criteria=criteria)), "Criteria")

    assert [column.name for column in found.columns] == [
        "criterion", "weight", "draft 1", "meaning",
    ]  # fmt: skip
    assert found.rows == (
        ("tone", "2", 0.9, "It is courteous."),
        ("facts", "1", 0.6, "It is true."),
    )


def test_the_panel_stands_judge_by_judge() -> None:
    """Each judge's score, the one that was left out and why, and the spread."""
    judgements = (
        Judgement(judge="a", score=0.6, scores={"tone": 0.6}),
        Judgement(judge="b", score=0.9, confidence="low"),
        Judgement(judge="c", error="no reply in time"),
    )
    evaluation = judged(0.75).model_copy(update={"judgements": judgements, "spread": 0.3})

    shown = told(reflected([evaluation]))
    panel = table(shown, "Panel")

    assert column(panel, "judge") == ["a", "b", "c"]
    assert column(panel, "score") == [0.6, 0.9, None]
    assert column(panel, "left out because") == [None, None, "no reply in time"]
    assert column(panel, "tone") == [0.6, None, None]
    assert fact(shown, "spread").value == "0.30"
    assert not panel.folded
    assert table(told(reflected([0.75])), "Panel").folded


def test_guardrails_and_feedback_of_the_best_draft_come_first() -> None:
    """What has to be changed is read first, and what was said of several drafts stands once."""
    shown = told(reflected([0.42, capped(0.9), 0.45], max_revisions=2))

    assert table(shown, "Guardrails").rows == (
        (2, "too_short", "0.5", "0.8", "240 characters are few for this query"),
    )
    assert table(shown, "Feedback").rows == (
        ("2, 1, 3", "completeness", "second paragraph", "Name the license of each.", JUDGE),
    )


def test_a_guardrails_feedback_has_its_name() -> None:
    """What is said by no criterion is said by somebody; the same said twice is one row."""
    given = Feedback(advice="Say more.", judge="too_short")
    state = reflected([judged(0.4).model_copy(update={"feedback": (given, ADVICE, given)})])

    assert column(table(told(state), "Feedback"), "criterion") == ["too_short", "completeness"]


@pytest.mark.parametrize(
    ("score", "judges", "author", "caps", "words"),
    [
        (0.9, 0.9, None, [], ""),
        (0.5, 0.9, None, [("too_short", 0.8)], "judged 0.90, capped by too_short"),
        (0.5, 0.9, None, [("too_short", 0.8), ("strict", 0.95)],
         "judged 0.90, capped by too_short"),
        (0.4, 0.4, None, [("too_short", 0.8)], ""),
        (0.8, 0.4, "ann", [], "scored by ann, judged 0.40"),
        (0.8, None, "ann", [], "scored by ann"),
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


def test_an_evaluation_that_failed_has_no_number_and_its_error() -> None:
    """A draft that nobody could judge has no score, no curve, and the reason is told."""
    shown = told(reflected([None]))

    assert column(table(shown, "Drafts"), "score") == [None]
    assert shown.charts == ()
    assert shown.flags == ("the draft has no score",)
    assert shown.verdict.tone == "bad"
    assert "no score: unreadable twice: no JSON object" in fact(shown, "best").value


def test_the_curve_has_the_scores_and_the_threshold() -> None:
    """What the judges said is a curve of its own where a guardrail or a person held."""
    one, both = told(reflected([0.0, 0.5, 1.0])).charts[0], told(reflected([capped(0.9)])).charts[0]

    assert [curve.points for curve in one.curves] == [(0.0, 0.5, 1.0)]
    assert [(bound.label, bound.value) for bound in one.bounds] == [("threshold 0.7", 0.7)]
    assert {curve.name: curve.points for curve in both.curves} == {
        "score": (0.5,), "judges' score": (0.9,),
    }  # fmt: skip


def test_a_better_draft_before_the_last_is_said_to_be_taken() -> None:
    """A revision that is worse, or that nobody judged, does not replace what was better."""
    worse = reflected([0.6, 0.5], max_revisions=1)
    unjudged = reflected([0.6])
    write(unjudged, "later")
    unjudged.stop("deadline", "the time budget of 5 seconds is used up", START)

    assert told(worse).flags == ("draft 1 scored higher than the drafts after it",)
    assert told(unjudged).flags == (
        "draft 2 was not judged; the best earlier draft is given instead",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "complexity", "hint"),
    [
        ("skipped", 0.3, "use --min-complexity 0 to have it judged and revised anyway"),
        ("skipped", None, "leave out --synthesis-follows to have it judged and revised"),
        ("disabled", None, "leave out --no-reflect to have it judged and revised"),
    ],
)
def test_what_was_not_reflected_on_says_how_it_would_be(
    reason: str, complexity: float | None, hint: str
) -> None:
    """A run that skips reflection names the option that has it reflect all the same."""
    shown = sheet(skipped(stop_reason=reason, complexity=complexity))

    assert hint in shown.flags
    assert shown.verdict.tone == "plain"


def test_a_cost_that_nobody_knows_is_unknown() -> None:
    """An unknown cost is never a number, and calls without a reply are told."""
    unknown = usage({"generating": [spending(1, 1).model_copy(update={"cost_usd": None})]}, 2, 0)
    ended = result(reflected([0.75])).model_copy(update={"usage": unknown})

    shown = sheet(ended)

    assert table(shown, "Usage").rows == (
        ("generating", 1, 1, 0, 1, "unknown"),
        ("retried", 2, "unknown", "unknown", "unknown", "unknown"),
        ("total", 1, 1, 0, 1, "unknown"),
    )
    assert "and 2 calls without a reply" in fact(shown, "spent").value


def test_a_toy_is_said_to_be_one() -> None:
    """Who sees the drafts of an embedded model does not judge models by them."""
    ended = result(reflected([0.75])).model_copy(update={"model": "embedded/toy"})

    note = fact(sheet(ended), "model").note

    assert note == "a toy: what it writes shows how Mull works, not how good models are"


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

    shown = sheet(progress(state, "waiting_for_review", 0, until), state.decisions)

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
        "a person asked for a revision: shorter (by ann)", "finished by ann",
    ]  # fmt: skip
    assert column(decisions, "decision") == ["revise", "revise", "stop: finished_by_person"]
    assert column(decisions, "at")[-1] == "2026-03-01 12:00:00 UTC"


def test_the_first_draft_is_the_best_where_none_has_a_score() -> None:
    """A run that ends before any evaluation has its draft all the same, cut or whole."""
    state = reflected([])
    write(state, "part", cut=True)
    state.stop("budget", "90 of 100 tokens are spent", START)

    shown = told(state)

    assert shown.answer is not None
    assert shown.answer.content == "part"
    assert "cut to the size limit of a result" in shown.answer.note
    assert "the draft was cut to the size limit of a result" in shown.flags
