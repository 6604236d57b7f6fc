"""What a run of the agent shows: the facts on its sheet, whichever renderer draws it."""

from datetime import timedelta

import pytest

from mull.multipath.loop import Run
from mull.multipath.parts import Mode
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import still_open
from mull.multipath.sheet import CUT, sheet
from mull.multipath.suite import Failure, Suite, TestFile, module_hint
from mull.sheet import Sheet, Waiting
from tests.unit.multipath.agent_runs import (
    CASES,
    UNCLEAR,
    coded,
    researched,
    routed,
    standing,
    verdict,
    write,
)
from tests.unit.runs import START
from tests.unit.sheets import column, fact, table

FILE = TestFile(name="test_add.py", text="def test_add(): ...")
BETTER = [verdict(True, True, False), verdict(False, False, True)]


def told(run: Run) -> Sheet:
    """Return the sheet of a run that ended, or that goes on."""
    return sheet(run.result()) if run.stopped else sheet(standing(run))


def test_what_the_tests_expect_stands_before_any_was_run() -> None:
    """Whoever follows a run sees what the code is held to."""
    rows = table(told(coded([])), "Tests").rows

    assert rows == tuple((case.call, case.expected) for case in CASES)
    assert "Tests" not in [table.title for table in told(routed("code")).tables]


def unchecked() -> Run:
    run = routed("research")
    write(run, "Kafka keeps a log [1].")
    run.settle("reflection_failed", "the judge gave no reply", START)
    return run


def early() -> Run:
    run = routed("research")
    run.stop("budget", "90 of 100 tokens are spent", START)
    return run


def cut() -> Run:
    run = routed("research")
    write(run, "Kafka keeps", cut=True)
    run.settle("finished_by_person", "finished by Ann", START, "Ann")
    return run


def replaced(mode: Mode) -> Run:
    run = routed(mode)
    write(run, "draft")
    run.replace("mine", "ann", START)
    run.settle("replaced_by_person", "replaced by ann", START, "ann")
    return run


def forgeable() -> Run:
    suite = Suite(origin="user", kind="pytest", file=FILE)
    return coded([verdict(True).model_copy(update={"forgeable": True, "output": "hello"})], suite)


@pytest.mark.parametrize(
    ("run", "flag"),
    [
        (researched([[UNCLEAR]] * 3), "the result is open: 1 critique remains"),
        (researched([[UNCLEAR] * 2] * 3), "the result is open: 2 critiques remain"),
        (unchecked(), "the result is open: the report was not reflected on"),
        (
            coded([verdict(True, False, True)], max_revisions=1),
            "the result is open: a test still fails: it returned 99, not 0",
        ),
        (routed(None), "no path could be chosen: give --mode research or --mode code"),
        (early(), "there is no report"),
        (
            coded([verdict(True, False, True)] * 2, max_revisions=2),
            "the result is open: a test is disputed: add(0, 0), expected 0: draft 1 gave 99, draft",
        ),
        (
            coded([verdict(True, False, False)] * 2, max_revisions=2),
            "the result is open: a test is disputed (and 1 other test): add(0, 0), expected 0",
        ),
        (
            coded([verdict(True, False, True)] * 5),
            "1 test written by the model, passed by no draft: not counted, please check",
        ),
        (replaced("code"), "a person's text was not tested"),
        (replaced("research"), "a person's text was not reflected on"),
        (
            coded(BETTER, max_revisions=2),
            "draft 1 is given: 2 of 3 tests pass, and no later one is better",
        ),
        (
            forgeable(),
            "the tests ran beside the code, which could have forged their verdict (forgeable)",
        ),
        (researched([[]], passages=()), "no source was found: no document backs what the"),
        (cut(), f"the text was cut: {CUT}"),
    ],
)
def test_what_must_be_known_is_flagged(run: Run, flag: str) -> None:
    """What is open stands before all else; then what is missing, unchecked or not believed."""
    shown, still = told(run), still_open(run.result())

    assert any(said.startswith(flag) for said in shown.flags)
    assert (shown.answer is None) is (not run.drafts)
    assert not flag.startswith("the result is open") or shown.flags[0].endswith(still)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("ModuleNotFoundError: No module named 'pandas'", "pandas"),
        ("No module named 'pandas.core'", "pandas"),
        ("No module named 'tkinter'", None),
        ("it returned 99, not 3", None),
    ],
)
def test_a_module_that_is_missing_comes_with_a_hint(message: str, named: str | None) -> None:
    """Which option lets the code import it, and how tests of the user's import the code."""
    hint = module_hint(Failure(message=message))

    assert (f"--packages {named}" in hint and "`solution`" in hint) if named else hint == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"total": None, "status": "timeout"}, "no test result (timeout)"),
        ({"total": None, "status": "ok", "error": None}, "passes"),
        ({"total": 1, "passed": 1}, "1 of 1 test passes"),
    ],
)
def test_a_draft_says_what_its_tests_made_of_it(changes: dict[str, object], words: str) -> None:
    """Where nobody could count them, how the run of the code ended."""
    run = routed("code", ())
    write(run, "def add(a, b): ...")
    report = verdict(True).model_copy(update=changes)
    run.drafts[0] = run.drafts[0].model_copy(update={"report": report})

    assert column(table(told(run), "Drafts"), "found") == [words]


def test_a_step_counts_tests_and_critiques() -> None:
    """What is wrong stands beside what is right; three critiques are written out."""
    steps = told(coded([verdict(True, False, False), verdict(True, True, True)])).steps
    many = told(researched([[UNCLEAR] * 5])).steps

    assert steps[3].words == (
        "test_code          draft 1: 1 of 3 tests pass; it returned 99, not 0 → generate_code"
    )
    assert steps[5].words == "test_code          draft 2: every test passes → stop: passed"
    assert many[-1].below == (*["clarity: Say which release is meant."] * 3, "and 2 more")


def test_a_wait_for_a_person_says_until_when() -> None:
    """A run that waits shows the draft that would be kept, and what comes next."""
    run = researched([[UNCLEAR]], max_revisions=1, review_open=True)
    until = START + timedelta(hours=1)

    shown = sheet(run.record(step="waiting_for_review", review_until=until))

    assert shown.waiting == Waiting(until=until)
    assert shown.steps[-1].words.endswith("→ a person's review: max_revisions")
    assert shown.answer is not None
    assert shown.answer.content == "Kafka keeps a log [1]. Report 1."


def test_a_run_that_goes_on_names_its_step() -> None:
    """The step and the calls in flight; before there is a path there is no table but usage."""
    shown = told(researched([[UNCLEAR]]))
    empty = sheet(Run(MultiPathRequest(prompt="x")).record(step="retrieve", in_flight=1))

    assert shown.busy == shown.verdict.words == "Writing the report, 1 call in flight"
    assert fact(shown, "drafts").value == "1 of at most 3"
    assert empty.busy == "Retrieving passages, 1 call in flight"
    assert [table.title for table in empty.tables] == ["Usage"]
    assert empty.charts == ()


def test_the_file_of_a_user_can_be_read() -> None:
    """It is named with what it is worth, and stands there as it is."""
    shown = told(forgeable())

    said = "test_add.py, the user's own, run beside the code, which could forge their verdict"
    assert fact(shown, "tests").value == said
    assert forgeable().result().forgeable
    texts = {text.title: text.content for text in shown.texts}
    assert texts["test_add.py"] == FILE.text
    assert texts["the end of what draft 1 printed"] == "hello"
