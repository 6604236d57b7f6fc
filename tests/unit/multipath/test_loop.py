"""The fold of a run: what is kept, what is open, and what each decision was based on."""

from collections.abc import Sequence

import pytest

from reflection.multipath import loop
from reflection.multipath.loop import MOST_WARNINGS, PASSAGE_BYTES, Run
from reflection.multipath.request import MultiPathRequest
from reflection.multipath.result import Draft, best_of, is_open
from reflection.multipath.state import Critique
from reflection.multipath.suite import Suite
from reflection.run import Review, encoded_size
from tests.unit.multipath.folded import (
    CALLS,
    PASSAGE,
    START,
    SUITE,
    begun,
    coded,
    report,
    researched,
    write,
)

USERS = Suite(origin="user", kind="cases", cases=SUITE.cases)
YES, NO = (True, True, True), (False, False, False)


def draft(index: int, passed: Sequence[bool] | None) -> Draft:
    said = None if passed is None else report(passed)
    error = said.error if said else None
    return Draft(index=index, mode="code", text="x", origin="generated", report=said, error=error)


@pytest.mark.parametrize(
    ("drafts", "index"),
    [
        ([], None),
        ([None], 0),
        ([NO, None], 0),
        ([(True, False, False), (False, False, True)], 1),
        ([(True, True, False), (False, False, True)], 0),
        ([YES, (True, True, False)], 0),
        ([NO, NO, NO], 2),
    ],
)
def test_the_code_that_passes_most_is_kept(
    drafts: list[Sequence[bool] | None], index: int | None
) -> None:
    """Most tests win, then the latest; what was tested comes before what was not."""
    best = best_of([draft(number, passed) for number, passed in enumerate(drafts)])

    assert (best.index if best else None) == index


def test_the_latest_report_is_kept() -> None:
    """Whatever its reflection found, and though nobody reflected on it."""
    run = researched(["one"], [])
    write(run, "research", "A third [1].")

    assert run.kept is not None
    assert run.kept.index == 2


@pytest.mark.parametrize(
    ("critiques", "still"),
    [(None, True), ((), False), ((Critique(aspect="clarity", advice="mend"),), True)],
)
def test_a_report_is_open(critiques: tuple[Critique, ...] | None, still: bool) -> None:
    """It is while K is not empty, and where nobody reflected on it."""
    known = Draft(index=0, mode="research", text="x", origin="generated", critiques=critiques)

    assert is_open(known) is still


def test_nothing_is_open_in_a_person_s_text() -> None:
    """What a person put in the place of a draft is theirs; no draft at all is open."""
    theirs = Draft(index=0, mode="research", text="x", origin="replaced")

    assert (is_open(theirs), is_open(None)) == (False, True)


def test_a_decision_has_the_numbers_of_the_newest_draft() -> None:
    """Node, round, critiques and tests are those that it was based on."""
    reports, tests = researched(["one", "two"]), coded((True, True, False))

    first, second = reports.decisions[-1], tests.decisions[-1]

    assert (first.after, first.next, first.draft, first.critiques, first.revisions) == (
        "reflect_on_report",
        "generate_report",
        0,
        2,
        1,
    )
    assert (second.after, second.next, second.passed, second.total, second.error) == (
        "test_code",
        "generate_code",
        2,
        3,
        "it returned another value",
    )


def test_a_run_without_a_path_names_the_reason() -> None:
    """What the transition function does not know is added to why the run ends."""
    run = begun(None, "it asks for a picture")

    assert run.last is not None
    assert (run.last.stop_reason, run.allowed) == ("unrouted", None)
    assert run.last.reason.endswith(": it asks for a picture")


@pytest.mark.parametrize(("suite", "drafts"), [(SUITE, 3), (USERS, 5)])
def test_only_the_model_s_own_tests_are_quarantined(suite: Suite, drafts: int) -> None:
    """A test that no draft passes ends the run where the model wrote it, and not where a user."""
    run = coded(*[(True, False, True)] * 5, suite=suite, max_revisions=5)

    assert len(run.reports) >= drafts
    assert bool(run.quarantined) == (suite is SUITE)
    assert run.decisions[drafts * 2 + 1].stop_reason == (
        "passed" if suite is SUITE else "max_revisions"
    )


@pytest.mark.parametrize(
    ("passing", "still_open"), [((True, True, False), False), ((True, False, False), True)]
)
def test_code_with_few_tests_to_believe_is_open(
    passing: tuple[bool, ...], still_open: bool
) -> None:
    """It ends as passed without the quarantined tests, and is open where those are the half."""
    run = coded(*[passing] * 3, suite=SUITE)

    assert (run.decisions[-1].stop_reason, run.state.error) == ("passed", None)
    assert run.open is still_open


def test_a_quarantine_holds_for_all_drafts() -> None:
    """The best code passes once the test that it failed is doubted, and the run ends so."""
    run = coded((False, True, True), (False, True, False), (False, False, True), max_revisions=3)

    ended = loop.result(run)

    assert [each.test for each in run.quarantined] == [CALLS[0]]
    assert [each.error and each.error.test for each in run.drafts] == [None, CALLS[2], CALLS[1]]
    assert (ended.kept, ended.error, ended.open, ended.stop_reason) == (0, None, False, "passed")
    assert (run.state.error, run.decisions[-1].draft, run.decisions[-1].error) == (None, 0, None)
    assert [len(each.outcomes) for each in run.reports] == [3, 3, 3]
    assert [each.report and len(each.report.outcomes) for each in run.drafts] == [3, 0, 3]


def test_a_test_that_is_believed_again_is_believed_of_all_drafts() -> None:
    """Where a later draft passes what was doubted, the earlier ones fail it again."""
    without, with_it = [(False, True, False), *[(False, False, True)] * 2], (True, False, False)

    doubting = coded(*without, max_revisions=6)
    believing = coded(*without, with_it, max_revisions=6)

    assert [each.test for each in doubting.quarantined] == [CALLS[0]]
    assert [each.error and each.error.test for each in doubting.drafts] == [
        CALLS[2],
        CALLS[1],
        CALLS[1],
    ]
    assert believing.quarantined == ()
    assert [each.error and each.error.test for each in believing.drafts] == [
        *[CALLS[0]] * 3,
        CALLS[1],
    ]


def test_one_text_again_and_again_doubts_no_test() -> None:
    """Three drafts of the same code say no more than one, but for the last that there may be."""
    run = begun("code", max_revisions=4)
    run.suite = SUITE
    doubted = []

    for _ in range(4):
        write(run, "code", "n = 0\n")
        run.tested(report((False, True, True)))
        run.after = "test_code"
        run.move(START)
        doubted.append([each.test for each in run.quarantined])

    assert doubted == [[], [], [], [CALLS[0]]]
    assert run.stopped


def test_earlier_drafts_keep_their_numbers_alone() -> None:
    """Outcomes of each test are kept for the newest draft and the best one, E for all."""
    run = coded((True, True, False), NO, (False, True, False), suite=USERS)

    shown = [each.report for each in run.drafts if each.report]

    assert [len(each.outcomes) for each in shown] == [3, 0, 3]
    assert [each.passed for each in shown] == [2, 0, 1]
    assert all(each.error for each in run.drafts)


def test_passages_are_cut_to_what_a_result_can_hold() -> None:
    """A passage of any length keeps its beginning."""
    run = Run(MultiPathRequest(prompt="p"))

    run.retrieved([PASSAGE.model_copy(update={"text": "\x01" * 5_000})])

    assert encoded_size(run.sources[0].passage.text) == PASSAGE_BYTES


def test_warnings_of_a_test_are_the_run_s() -> None:
    """What a worker lowered is told once, however many drafts it tested."""
    run = begun("code")
    run.suite = SUITE

    for _ in range(2):
        write(run, "code", "n = 1\n")
        run.tested(report((False,) * 3).model_copy(update={"warnings": ("less memory",)}))

    assert run.warnings == ["less memory"]


def test_warnings_are_kept_once_and_not_without_end() -> None:
    """The same warning stands there once, and there are at most fifty."""
    run = Run(MultiPathRequest(prompt="p"))

    for number in range(120):
        run.warn(f"warning {number // 2}")

    assert len(run.warnings) == len(set(run.warnings)) == MOST_WARNINGS


def test_a_person_s_draft_raises_r_max_by_what_it_takes() -> None:
    """R_max is R_n and one more, so that the draft that was asked for is the last."""
    run = researched(["one"], max_revisions=1, review_open=True)

    granted = loop.grant(run, "shorter", "ann", START)

    assert (granted.next, run.allowed, run.granted) == ("generate_report", 2, 1)
    assert [each.aspect for each in run.state.critiques] == ["person", "clarity"]


def test_a_review_of_another_draft_is_refused() -> None:
    """Who looked at a draft that is not under review any more is told so."""
    run = researched(["one"], ["one"], max_revisions=2, review_open=True)

    assert loop.refused(run, Review(accept=True, draft=0)) == "draft 2 is under review by now"
    assert loop.refused(run, Review(accept=True, draft=1)) is None


def test_a_result_says_what_is_open() -> None:
    """Critiques of the kept report, E of the kept code, and whether anything is left."""
    report_, code = researched(["one"], max_revisions=1), coded(NO, max_revisions=1)

    first, second = loop.result(report_), loop.result(code)

    assert (first.open, [each.advice for each in first.critiques]) == (True, ["one"])
    assert first.suggestions == ("an idea",)
    assert (second.open, second.error is not None, second.output) == (True, True, "n = 0\n")


def test_a_run_that_goes_on_has_no_result() -> None:
    """There is one once the newest decision ended the run."""
    with pytest.raises(ValueError, match="the run goes on"):
        loop.result(researched(["one"]))


def test_what_an_activity_assembled_is_given_out() -> None:
    """The newest report is given out as its activity put it together, else it is done here."""
    run = researched([], max_revisions=1)
    last = loop.result(run).output

    run.assembled = "as the activity said"

    assert loop.result(run).output == "as the activity said"
    assert last is not None
    assert last.startswith("Report 0 [1].\n\n## Further considerations\n\n- an idea")
