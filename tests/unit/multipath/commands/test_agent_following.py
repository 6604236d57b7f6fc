"""A run of the agent while it goes on."""

import pytest

from commands.rendering.multipath import NodesLive, indexing_words, print_progress, print_review
from reflection.multipath import loop
from reflection.multipath.loop import Run, result
from tests.unit.critique.shown import console, written
from tests.unit.multipath.commands.agent_runs import (
    START,
    UNCLEAR,
    UNSUPPORTED,
    coded,
    researched,
    routed,
    standing,
    verdict,
)


def followed(run: Run, width: int = 80, *, terminal: bool = False) -> list[str]:
    on = console(width, terminal=terminal)
    live = NodesLive(on, "agent-kafka-7f3a91c2")
    live.show(standing(run), run.decisions)
    return written(on).splitlines()


def test_each_node_is_a_line() -> None:
    """A node's line has the reason of its decision, and what comes next."""
    assert followed(researched([[UNSUPPORTED, UNCLEAR], []])) == [
        "retrieve           2 passages retrieved → route",
        "route              research: it asks for a comparison → generate_report",
        "generate_report    draft 1 is written → reflect_on_report",
        "reflect_on_report  draft 1: 2 critiques to mend → generate_report",
        (
            '                   citation, [1], at "Kafka deletes records after a day [1].":'
            " The passage does not say so."
        ),
        "                   clarity: Say which release is meant.",
        "generate_report    draft 2 is written → reflect_on_report",
        "reflect_on_report  draft 2: the reflection found nothing to mend → end (consistent)",
    ]


def test_code_says_how_many_tests_pass() -> None:
    """What is wrong stands beside what is right."""
    lines = followed(coded([verdict(True, False, False), verdict(True, True, True)]))

    assert lines[3] == (
        "test_code          draft 1: 1 of 3 tests pass; it returned 99, not 0 → generate_code"
    )
    assert lines[5] == "test_code          draft 2: every test passes → end (passed)"


def test_a_narrow_terminal_keeps_the_reason_and_the_end() -> None:
    """Where a line does not fit, the next node is left out, which has the next line anyway."""
    lines = followed(researched([[UNSUPPORTED, UNCLEAR], []]), 60, terminal=True)

    assert lines[3] == "reflect_on_report  draft 1: 2 critiques to mend"
    assert lines[7] == "reflect_on_report  draft 2: the reflecti… → end (consistent)"


def test_many_critiques_are_counted() -> None:
    """Three are written out, a line each, and then how many more there are."""
    lines = followed(researched([[UNCLEAR] * 5]))

    assert [line.strip() for line in lines[4:]] == [
        *["clarity: Say which release is meant."] * 3,
        "and 2 more",
    ]


def test_no_line_is_printed_twice() -> None:
    """Each look prints what is new, and the end what the last look missed."""
    run, on = routed("research"), console(200)
    live = NodesLive(on, "agent-kafka-7f3a91c2")

    live.show(standing(run), run.decisions)
    live.show(standing(run), run.decisions)
    live.end(result(researched([[]])))

    assert [line.split()[0] for line in written(on).splitlines()] == [
        "retrieve",
        "route",
        "generate_report",
        "reflect_on_report",
    ]


def test_a_wait_is_told_with_its_command_once() -> None:
    """Whoever follows a run that waits for a person sees what to type."""
    run, on = researched([[UNCLEAR]], max_revisions=1, review_open=True), console(200)
    live = NodesLive(on, "agent-kafka-7f3a91c2")

    live.show(standing(run), run.decisions)
    live.show(standing(run), run.decisions)

    assert "an open result waits for a review → a person's review" in written(on)
    assert written(on).count("starter.py review") == 1
    assert written(on).endswith("waits for a person: starter.py review agent-kafka-7f3a91c2")


def test_what_a_person_asked_for_stands_with_their_name() -> None:
    """A draft that a person wants is told with their words."""
    run = researched([[UNCLEAR]], max_revisions=1, review_open=True)

    loop.grant(run, "Name the license.", "ann", START)

    lines = followed(run)
    assert sum("Say which release is meant." in line for line in lines) == 1
    assert lines[-1] == (
        "reflect_on_report  draft 1: a person asked for another draft: Name the license. (by ann)"
        " → generate_report"
    )


def test_a_running_run_shows_its_drafts_and_decisions() -> None:
    """What goes on is shown with its step, its path, its decisions and its spending."""
    run, on = coded([verdict(True, False, True)]), console(120)

    print_progress(on, standing(run, "generate_code"), run.decisions)

    shown = written(on)
    assert "step       Writing the code, 1 call in flight, 1 of at most 5 drafts written" in shown
    assert (
        "test_code              1  generate_code  draft 1: 2 of 3 tests pass; it returned" in shown
    )
    assert "failed  add(0, 0): expected 0, got 99" in shown


def test_what_is_reviewed_is_shown_whole() -> None:
    """A person sees the prompt, the whole draft, and what is open in it."""
    run, on = researched([[UNCLEAR]], max_revisions=1, review_open=True), console()

    print_review(on, standing(run))

    shown = written(on)
    assert "prompt    Compare Kafka and Pulsar for an audit log." in shown
    assert "critique  clarity: Say which release is meant." in shown
    assert "\nKafka keeps a log [1]. Report 1.\n" in shown


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ([2_500, 10_000], "Reading documents ▇▇▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁ 2,500 of 10,000 files"),
        ([7, 5], "Reading documents ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ 5 of 5 files"),
        ([], None),
        ([3], None),
        ([0, 0], None),
        (["a", "b"], None),
    ],
)
def test_the_reading_of_documents_has_a_bar(details: list[object], said: str | None) -> None:
    """Two counts of a heartbeat make one; anything else is not shown."""
    assert indexing_words(details) == said
