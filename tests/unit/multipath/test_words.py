"""The Web UI's view of a run of the agent."""

from datetime import timedelta
from typing import get_args

import pytest

from reflection.multipath.loop import Run
from reflection.multipath.outcome import progress
from reflection.multipath.result import Step, StopReason
from reflection.multipath.suite import Suite, TestFile
from reflection.multipath.words.summary import current_details
from reflection.multipath.words.wording import STEP_WORDS, STOP_WORDS
from tests.unit.multipath.folded import PASSAGE, START, begun, coded, researched, write

HOSTILE = "```\n# heading\n<img src=x> [link](http://x) `code` **bold** \x1b[31m \u202e|cell|"


def details(run: Run, step: Step = "finished", in_flight: int = 0) -> str:
    standing = progress(run, step, in_flight, None)
    return current_details(standing, run.decisions, "4bf92f35", "agent-tides-7f3a91c2")


def outside_fences(markdown: str) -> str:
    return "".join(markdown.split("```")[::2])


def test_a_run_of_research_is_told_to_the_digit() -> None:
    """The whole text of a run of two reports."""
    run = researched(["Name the bay."], [])

    assert details(run) == (
        "**Stopped (`consistent`): the report is consistent: the reflection found"
        " nothing to mend · research · 2 of at most 3 drafts**\n\n"
        "Path: research\\: it asks for it\n\n"
        "```text\n"
        "#  origin     critiques  decision\n"
        "1  generated  1          → generate_report: 1 critique to mend\n"
        "2  refined    0          stop: the reflection found nothing to mend\n"
        "```\n\n"
        "Sources:\n\n"
        "- \\[1\\] tides/fundy\\.md\\:3-7\n\n"
        "Spent: 3 calls, 240 tokens in and 410 out, cost $0.0030\n\n"
        "Trace: `4bf92f35`"
    )


def test_a_run_of_code_is_told_to_the_digit() -> None:
    """The whole text of a run of two drafts of which the second fails too."""
    run = coded((False, False, True), (True, True, False), max_revisions=2)

    assert details(run) == (
        "**Stopped (`max_revisions`): no draft is left: a test still fails after 2 drafts"
        " · code · 2 of at most 2 drafts**\n\n"
        "Path: code\\: it asks for it\n\n"
        "```text\n"
        "#  origin     passed  error  decision\n"
        "1  generated  1 of 3  error  → generate_code: it returned another value\n"
        "2  refined    2 of 3  error  stop: a test still fails after…\n"
        "```\n\n"
        "Sources:\n\n"
        "- \\[1\\] tides/fundy\\.md\\:3-7\n\n"
        "Tests: 3 tests, the model's own\n\n"
        "Open in draft 2:\n\n"
        "- double(0)\\: it returned another value\n\n"
        "Spent: 3 calls, 240 tokens in and 410 out, cost $0.0030\n\n"
        "Trace: `4bf92f35`"
    )


def test_a_step_under_way_is_named() -> None:
    """While a run goes on, the first line names the step, the calls in flight and the path."""
    first = details(researched(["one"]), "generate_report", 1).splitlines()[0]

    assert first == ("**Writing the report, 1 call in flight · research · 1 of at most 3 drafts**")


def test_nothing_was_written_yet() -> None:
    """Before there is a path there is no table."""
    shown = details(Run(researched().request), "retrieve", 1)

    assert shown.startswith("**Retrieving passages, 1 call in flight · no path yet**")
    assert "```" not in shown


def test_a_review_that_is_needed_is_told_with_its_command() -> None:
    """A run that waits for a person says until when, and what to type."""
    run = researched(["one"], max_revisions=1, review_open=True)
    standing = progress(run, "waiting_for_review", 0, START + timedelta(hours=1))

    shown = current_details(standing, run.decisions, None, "agent-tides-7f3a91c2")

    assert (
        "**Needs review until 2026-03-01 13:00:00 UTC**: "
        "`starter.py review agent-tides-7f3a91c2`" in shown
    )


def test_tests_that_could_be_forged_are_told() -> None:
    """A user's own file runs beside the code, which whoever looks at the Web UI learns."""
    file = TestFile(name="test_double.py", text="from solution import double")
    suite = Suite(origin="user", kind="pytest", file=file)

    shown = details(coded((True, True, True), suite=suite))

    said = "Tests: test\\_double\\.py, the user's own, run beside the code, which could forge"
    assert said in shown


def test_doubted_tests_are_named() -> None:
    """A test of the model's own that no draft passed stands apart."""
    shown = details(coded(*[(True, False, True)] * 3))

    assert "Not believed, since no draft passed them:\n\n- double(2)" in shown


@pytest.mark.parametrize(
    ("words", "known"), [(STOP_WORDS, StopReason), (STEP_WORDS, Step)], ids=["stop", "step"]
)
def test_there_are_words_for_everything(words: dict[str, str], known: object) -> None:
    """Each reason to stop has words, and so has each step."""
    names = {name for each in get_args(known) for name in get_args(each) or (each,)}

    assert set(words) == names


@pytest.mark.parametrize("hostile", [HOSTILE, "`", "``````", "x\n```\n# y", ""])
def test_no_text_leaves_its_block(hostile: str) -> None:
    """The fenced block stays one, and outside it what comes from outside is escaped."""
    run = researched([hostile or "x"], max_revisions=9)
    passage = PASSAGE.model_copy(update={"source": hostile, "text": hostile})
    run.retrieved([passage])
    write(run, "research", hostile, author=hostile or None)
    run.warn(hostile)
    run.stop("finished_by_person", hostile, START, hostile)

    shown = details(run)

    assert shown.count("```") == 2
    assert not any(ord(each) < 32 and each != "\n" for each in shown)
    assert all(not line.startswith(("#", "<", "|")) for line in outside_fences(shown).splitlines())


def test_the_web_ui_takes_it_whatever_is_said() -> None:
    """The worst texts in every place stay within 20,000 bytes."""
    worst = "\U0001f600\U000e0100" * 2_000
    run = begun("research", worst, max_revisions=10)
    run.retrieved([PASSAGE.model_copy(update={"source": worst, "text": worst})] * 20)
    for _ in range(12):
        write(run, "research", worst, author=worst)
        run.reflected(researched([worst] * 20).drafts[0].critiques or (), ())
    for number in range(50):
        run.warn(f"{number}{worst}")
    decisions = [
        each.model_copy(update={"reason": worst, "author": worst}) for each in run.decisions
    ]

    shown = current_details(progress(run, "finished", 0, START), decisions, worst, worst)

    assert len(shown.encode()) <= 20_000
