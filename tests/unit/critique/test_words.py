from datetime import timedelta

import pytest

from reflection.critique.evaluation import Cap, Evaluation, Feedback
from reflection.critique.loop import Reflection, progress
from reflection.critique.result import Step
from reflection.critique.words.summary import current_details
from tests.unit.critique.reflected import START, capped, judged, reflected, write

HOSTILE = "```\n# heading\n<img src=x> [link](http://x) `code` **bold** \x1b[31m \u202e|cell|"


def details(state: Reflection, step: Step = "finished", in_flight: int = 0) -> str:
    standing = progress(state, step, in_flight, None)
    return current_details(standing, state.decisions, "4bf92f35", "reflect-kafka-7f3a91c2")


def outside_fences(markdown: str) -> str:
    return "".join(markdown.split("```")[::2])


def test_a_finished_run_is_told_to_the_digit() -> None:
    """The whole text of a run of three drafts, one of which a guardrail capped."""
    state = reflected([0.42, capped(0.9), 0.75])

    assert details(state) == (
        "**Stopped (`passed`): the threshold is reached: score 0.75 reaches 0.7"
        " · 2 of at most 3 revisions · best is draft 3 with score 0.75, threshold 0.7**\n\n"
        "```text\n"
        "#  origin     score  judged  change  decision\n"
        "1  generated   0.42                  revise: score 0.42 is below 0.7, with 3 revisions"
        " left\n"
        "2  revised     0.50    0.90   +0.08  revise: score 0.5 is below 0.7, with 2 revisions"
        " left\n"
        "3  revised     0.75           +0.25  stop: score 0.75 reaches 0.7\n"
        "```\n\n"
        "```text\n"
        "criterion     weight    #1    #2    #3\n"
        "completeness       1  0.42  0.90  0.75\n"
        "correctness        1  0.42  0.90  0.75\n"
        "clarity            1  0.42  0.90  0.75\n"
        "```\n\n"
        "Feedback on draft 3:\n\n"
        '- completeness, at "second paragraph"\\: Name the license of each\\.\n\n'
        "Spent: 6 calls, 1,200 tokens in and 780 out, cost $0.0060\n\n"
        "Trace: `4bf92f35`"
    )


def test_a_step_under_way_is_named() -> None:
    """While a run goes on, the first line names the step, the calls in flight and the best."""
    state = reflected([0.42])

    first = details(state, "revising", 1).splitlines()[0]

    assert first == (
        "**Revising, 1 call in flight · 0 of at most 3 revisions"
        " · best is draft 1 with score 0.42, threshold 0.7**"
    )


def test_nothing_was_written_yet() -> None:
    """Before the first draft there is no table."""
    shown = details(reflected([]), "writing", 1)

    assert shown.startswith("**Writing the first draft, 1 call in flight · ")
    assert "no draft yet" in shown
    assert "```" not in shown


def test_a_review_that_is_needed_is_told_with_its_command() -> None:
    """A run that waits for a person says until when, and what to type."""
    state = reflected([0.42], max_revisions=0, review_below=0.6)
    standing = progress(state, "waiting_for_review", 0, START + timedelta(hours=1))

    shown = current_details(standing, state.decisions, None, "reflect-kafka-7f3a91c2")

    assert shown.startswith("**Waiting for a person's review · 0 of at most 0 revisions")
    assert (
        "**Needs review until 2026-03-01 13:00:00 UTC**: "
        "`starter.py review reflect-kafka-7f3a91c2`" in shown
    )


def test_an_evaluation_that_failed_has_no_number() -> None:
    """A draft that nobody could judge has a dash for a score, and the reason is told."""
    shown = details(reflected([None]))

    assert "1  generated      -                  stop: the draft could not be judged" in shown
    assert "draft 1 without a score" in shown


@pytest.mark.parametrize("hostile", [HOSTILE, "`", "``````", "x\n```\n# y", ""])
def test_no_text_leaves_its_block(hostile: str) -> None:
    """Two fenced blocks stay two, and outside them what comes from outside is escaped."""
    point = Feedback(advice=hostile, criterion=hostile, place=hostile, judge=hostile)
    cap = Cap(guardrail=hostile, cap=0.1, above=0.1, reason=hostile)
    bad = judged(0.4).model_copy(
        update={"feedback": (point,), "guardrails": (cap,), "author": hostile or None}
    )
    state = reflected([bad, 0.3], max_revisions=9)
    write(state, hostile, author=hostile)
    state.warn(hostile)
    state.stop("finished_by_person", hostile, START, hostile)

    shown = details(state)

    assert shown.count("```") == 4
    assert outside_fences(shown).replace("\\`", "").count("`") == 4
    assert not any(ord(each) < 32 and each != "\n" for each in shown)
    assert all(not line.startswith(("#", "<", "|")) for line in outside_fences(shown).splitlines())


def test_the_web_ui_takes_it_whatever_is_said() -> None:
    """The worst texts in every place stay within 20,000 bytes."""
    worst = "\U0001f600\U000e0100" * 5_000
    criteria = [{"name": "c" * 39 + letter, "meaning": worst[:500]} for letter in "abcdefghij"]
    point = Feedback(advice=worst, criterion=worst, place=worst, judge=worst)
    cap = Cap(guardrail=worst, cap=0.1, above=0.1, reason=worst)
    bad = Evaluation(
        score=0.4,
        judged=0.5,
        criteria={each["name"]: 0.4 for each in criteria},
        feedback=(point,) * 50,
        guardrails=(cap,) * 20,
        author=worst,
    )
    state = reflected([bad] * 11, max_revisions=10, min_gain=0, criteria=criteria)
    decisions = [
        each.model_copy(update={"reason": worst, "author": worst}) for each in state.decisions
    ]
    drafts = tuple(each.model_copy(update={"author": worst}) for each in state.drafts)
    standing = progress(state, "finished", 0, START).model_copy(
        update={"drafts": drafts, "warnings": (worst,) * 50}
    )

    shown = current_details(standing, decisions, worst, worst)

    assert len(drafts) == 11
    assert len(shown.encode()) <= 20_000


def test_left_out_drafts_are_counted() -> None:
    """Of more than ten drafts the newest are shown."""
    shown = details(reflected([0.1 + each / 20 for each in range(11)], max_revisions=10))

    assert "(1 earlier draft left out)" in shown
    assert "\n 2  revised" in shown
    assert "\n11  revised" in shown
