from commands.rendering.critique import DraftsLive, print_progress, print_review
from reflection.critique.loop import Reflection, progress, result
from tests.unit.critique.reflected import (
    START,
    capped,
    reflected,
)
from tests.unit.critique.shown import console, standing, written


def followed(state: Reflection, width: int = 80, *, terminal: bool = False) -> list[str]:
    on = console(width, terminal=terminal)
    live = DraftsLive(on, "reflect-kafka-7f3a91c2")
    live.show(standing(state), state.decisions)
    return written(on).splitlines()


def test_each_draft_is_a_line() -> None:
    """A draft's line has its score, its scores by criterion, and what was decided."""
    lines = followed(reflected([0.42, 0.75]))

    assert lines == [
        (
            "draft 1  0.42 ▇▇▇▁▁▁▁▁  completeness 0.42 correctness 0.42 clarity 0.42  "
            "revise: score 0.42 is below 0.7, with 3 revisions left"
        ),
        (
            "draft 2  0.75 ▇▇▇▇▇▇▁▁  completeness 0.75 correctness 0.75 clarity 0.75  "
            "stop: score 0.75 reaches 0.7"
        ),
    ]


def test_a_capped_score_names_its_guardrail() -> None:
    """What the judges said stands beside what the guardrail left of it."""
    line = followed(reflected([capped(0.9)]))[0]

    assert line.startswith("draft 1  0.50 ▇▇▇▇▁▁▁▁  (judged 0.90, capped by too_short)  ")


def test_a_narrow_terminal_keeps_the_score_and_the_decision() -> None:
    """Where the line does not fit, the scores by criterion are left out."""
    lines = followed(reflected([0.42, 0.75]), terminal=True)

    assert lines == [
        "draft 1  0.42 ▇▇▇▁▁▁▁▁  revise: score 0.42 is below 0.7, with 3 revisions left",
        "draft 2  0.75 ▇▇▇▇▇▇▁▁  stop: score 0.75 reaches 0.7",
    ]


def test_a_second_decision_about_a_draft_does_not_repeat_it() -> None:
    """What ends the run after an evaluation stands below that draft's line."""
    state = reflected([0.42])
    state.stop("budget", "90 of 100 tokens are spent", START)

    assert followed(state)[1] == "         stop: 90 of 100 tokens are spent"


def test_no_line_is_printed_twice() -> None:
    """Each look prints what is new, and the end what the last look missed."""
    state, on = reflected([0.42]), console(200)
    live = DraftsLive(on, "reflect-kafka-7f3a91c2")

    live.show(standing(state), state.decisions)
    live.show(standing(state), state.decisions)
    live.end(result(reflected([0.42, 0.75])))

    assert [line.split("  ")[0] for line in written(on).splitlines()] == ["draft 1", "draft 2"]


def test_a_wait_is_told_with_its_command_once() -> None:
    """Whoever follows a run that waits for a person sees what to type."""
    state, on = reflected([0.42], max_revisions=0, review_below=0.6), console(200)
    live = DraftsLive(on, "reflect-kafka-7f3a91c2")

    live.show(standing(state), state.decisions)
    live.show(standing(state), state.decisions)

    assert "review: score 0.42 is below 0.7, and no revision is allowed" in written(on)
    assert written(on).count("starter.py review") == 1
    assert written(on).endswith("waits for a person: starter.py review reflect-kafka-7f3a91c2")


def test_a_running_run_shows_its_drafts_and_decisions() -> None:
    """What goes on is shown with its step, its drafts, its decisions and its spending."""
    state, on = reflected([0.42]), console(100)

    print_progress(on, progress(state, "revising", 1, None), state.decisions)

    assert "step       Revising, 1 call in flight, 0 of at most 3 revisions made" in written(on)
    assert "#1 0.42  revise: score 0.42 is below 0.7, with 3 revisions left" in written(on)


def test_what_is_reviewed_is_shown_whole() -> None:
    """A person sees the query, the whole draft, its scores and its feedback."""
    state, on = reflected([capped(0.9)], max_revisions=0, review_below=0.6), console()

    print_review(on, standing(state))

    shown = written(on)
    assert "query      Compare Kafka and Pulsar for an audit log." in shown
    assert "guardrail  too_short: 240 characters are few for this query (at most 0.5)" in shown
    assert "\nKafka keeps a log. Revision 0.\n" in shown
