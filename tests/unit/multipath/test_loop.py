"""One run of the agent: steps, drafts, quarantines, decisions, people, and its result."""

from collections.abc import Sequence

import pytest

from mull.multipath import loop
from mull.multipath.loop import MOST_WARNINGS, PASSAGE_BYTES, Run
from mull.multipath.parts import Critique, Mode
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import MultiPathResult, best_of, is_open
from mull.multipath.suite import Suite
from mull.request import Review
from mull.text import encoded_size
from tests.unit.multipath.agent_runs import (
    CASES,
    PASSAGES,
    SUITE,
    UNCLEAR,
    UNSUPPORTED,
    coded,
    draft,
    moment,
    researched,
    routed,
    verdict,
    write,
)
from tests.unit.runs import START

USERS = Suite(origin="user", kind="cases", cases=CASES)
ADD_12, ADD_00, ADD_11 = (case.call for case in CASES)
NO = verdict(False, False, False)
REPORTING, CODING = ["generate_report", "reflect_on_report"], ["generate_code", "test_code"]


@pytest.mark.parametrize("most", range(1, 7))
@pytest.mark.parametrize("mode", ["research", "code"])
def test_the_worst_path(mode: Mode, most: int) -> None:
    """Where nothing ever gets right, R_max drafts are written, the first one counted."""
    if mode == "research":
        run, steps = researched([[UNCLEAR]] * 9, max_revisions=most), REPORTING
    else:
        run, steps = coded([NO] * 9, USERS, max_revisions=most), CODING

    assert [made.after for made in run.decisions] == ["retrieve", "route", *steps * most]
    assert run.revisions == len(run.drafts) == most


def test_k_and_e_are_replaced() -> None:
    """Each round has its own critiques, suggestions and error, and adds to none."""
    run = routed("research")

    write(run, "One [1].")
    run.reflected((UNCLEAR,), ("an idea",), START)
    write(run, "Two [1].")
    run.reflected((UNSUPPORTED,), (), START)
    tested = coded([NO, verdict(True, True, True)], USERS)

    assert (run.critiques, run.suggestions) == ((UNSUPPORTED,), ())
    assert (run.output, run.revisions) == ("Two [1].", 2)
    assert (tested.error, tested.mode) == (None, "code")


@pytest.mark.parametrize(
    ("drafts", "index"),
    [
        ([], None),
        ([None], 0),
        (["fff", None], 0),
        (["pff", "ffp"], 0),
        (["ppf", "ffp"], 0),
        (["ppp", "ppf"], 0),
        (["fff", "pff", "ffp"], 1),
        ([None, None], 0),
    ],
)
def test_the_code_that_passes_most_is_kept(drafts: Sequence[str | None], index: int | None) -> None:
    """Most tests win, then the earlier; what was tested comes before what was not."""
    listed = []
    for number, passes in enumerate(drafts):
        report = None if passes is None else verdict(*(letter == "p" for letter in passes))
        known = {"report": report, "error": report.error if report else None}
        listed.append(draft(number, "code", **known))

    best = best_of(listed)

    assert (best.index if best else None) == index


@pytest.mark.parametrize(
    ("origin", "critiques", "still"),
    [
        ("generated", None, True),
        ("generated", (), False),
        ("generated", (UNCLEAR,), True),
        ("replaced", None, False),
    ],
)
def test_a_report_is_open(origin: str, critiques: tuple[Critique, ...] | None, still: bool) -> None:
    """While K is not empty, or nobody reflected on it; what a person wrote is theirs."""
    assert is_open(draft(0, "research", origin=origin, critiques=critiques)) is still
    assert is_open(None)


@pytest.mark.parametrize(
    ("suite", "passes", "drafts", "reason", "still"),
    [
        (SUITE, (True, True, True), 1, "passed", False),
        (SUITE, (True, True, False), 5, "max_revisions", True),
        (SUITE, (True, False, False), 5, "max_revisions", True),
        (SUITE, (False, False, False), 5, "max_revisions", True),
        (USERS, (True, True, False), 5, "max_revisions", True),
    ],
)
def test_only_the_model_s_own_tests_are_quarantined(
    suite: Suite, passes: Sequence[bool], drafts: int, reason: str, still: bool
) -> None:
    """A test is set aside where the model wrote it and every draft up to R_max failed it.

    The result is then open, and never passed.
    """
    run = coded([verdict(*passes)] * 5, suite)

    assert len(run.drafts) == drafts
    disputed = passes.count(False) if suite is SUITE and any(passes) else 0
    assert len(run.quarantined) == disputed
    assert (run.decisions[-1].stop_reason, run.open) == (reason, still)
    assert ("draft 5 gave 99" in run.decisions[-1].reason) is (disputed > 0)


def failures(run: Run | MultiPathResult) -> list[str | None]:
    """Name the test that E of each draft is about."""
    return [draft.error.test if draft.error else None for draft in run.drafts]


def test_a_quarantine_holds_for_all_drafts() -> None:
    """The best code is kept once the test that it failed is disputed, and the run is open.

    The newest draft and the best one keep the outcomes of each test, the others their numbers.
    """
    reports = [verdict(False, True, True), verdict(False, True, False), verdict(False, False, True)]
    run = coded(reports, max_revisions=3)

    ended = run.result()

    assert [found.test for found in run.quarantined] == [ADD_12]
    assert failures(ended) == [None, ADD_11, ADD_00]
    assert (ended.kept, ended.error, ended.open) == (0, None, True)
    assert ended.stop_reason == "max_revisions"
    assert "add(1, 2), expected 3: draft 1 gave 99, draft 2 gave" in ended.stop_explanation
    assert (run.error, run.decisions[-1].draft, run.decisions[-1].error) == (None, 0, None)
    reports = [draft.report for draft in ended.drafts if draft.report]
    assert [(len(one.outcomes), one.passed) for one in reports] == [(3, 2), (0, 1), (3, 1)]


def test_a_test_that_is_believed_again_is_believed_of_all_drafts() -> None:
    """Where a later draft passes what was doubted, the earlier ones fail it again."""
    without = [verdict(False, True, False), *[verdict(False, False, True)] * 2]

    doubting = coded(without, max_revisions=3)
    believing = coded(without, max_revisions=3, review_open=True)
    loop.grant(believing, "again", "ann", START)
    write(believing, "four")
    believing.tested(verdict(True, False, False), START)

    assert [found.test for found in doubting.quarantined] == [ADD_12]
    assert failures(doubting) == [ADD_11, ADD_00, ADD_00]
    assert believing.quarantined == ()
    assert failures(believing) == [ADD_12, ADD_12, ADD_12, ADD_00]


def test_no_test_is_doubted_before_the_last_draft() -> None:
    """However many drafts failed it: the next one may pass it."""
    run, doubted = coded([], max_revisions=4), []

    for _ in range(4):
        write(run, "n = 0\n")
        found = verdict(False, True, True).model_copy(update={"warnings": ("less memory",)})
        run.tested(found, moment(run))
        doubted.append([found.test for found in run.quarantined])

    assert doubted == [[], [], [], [ADD_12]]
    assert run.stopped
    assert run.warnings == ["less memory"]


def test_what_a_run_keeps_is_bounded() -> None:
    """A passage keeps its beginning; a warning stands there once, and there are at most fifty."""
    run = Run(MultiPathRequest(prompt="p"))

    run.retrieved([PASSAGES[0].model_copy(update={"text": "\x01" * 5_000})], START)
    for number in range(120):
        run.warn(f"warning {number // 2}")

    assert encoded_size(run.sources[0].passage.text) == PASSAGE_BYTES
    assert len(run.warnings) == len(set(run.warnings)) == MOST_WARNINGS


def test_a_person_s_draft_raises_r_max_by_what_it_takes() -> None:
    """R_max is R_n and one more; a review of a draft that is not under review is refused."""
    run = researched([[UNCLEAR]] * 2, max_revisions=2, review_open=True)
    refused = run.refused(Review(accept=True, draft=0))

    granted = loop.grant(run, "shorter", "ann", START)

    assert refused == "draft 2 is under review now"
    assert (granted.next, run.allowed, run.granted) == ("generate_report", 3, 1)
    assert [critique.aspect for critique in run.critiques] == ["person", "clarity"]


def test_a_result_says_what_is_open() -> None:
    """Critiques of the kept report, E of the kept code; there is none while a run goes on.

    A report is given out as its activity put it together, else it is done here.
    """
    run = researched([[UNCLEAR]], ["an idea"], max_revisions=1)
    first = run.result()
    second = coded([NO], max_revisions=1).result()
    run.assembled = "as the activity said"

    assert (first.open, first.critiques, first.suggestions) == (True, (UNCLEAR,), ("an idea",))
    assert "Report 1.\n\n## Further considerations\n\n- an idea" in (first.output or "")
    assert run.result().output == "as the activity said"
    assert (second.open, second.error is not None) == (True, True)
    assert second.output == "def add(a, b):\n    return a + b  # 1\n"
    with pytest.raises(ValueError, match="the run has not ended"):
        researched([[UNCLEAR]]).result()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([[UNCLEAR], [UNCLEAR, UNSUPPORTED]], "draft 1 had fewer critiques: 1 instead of 2"),
        ([[], [UNCLEAR]], None),
        ([[UNCLEAR, UNSUPPORTED], [UNCLEAR]], None),
        ([[UNCLEAR], [UNCLEAR]], None),
    ],
)
def test_a_better_report_than_the_one_kept_is_named(
    found: list[list[Critique]], said: str | None
) -> None:
    """The latest report is kept, as in the source, and the result warns where that is a loss."""
    ended = researched(found, max_revisions=2).result()

    assert ended.warnings == ((f"the latest report is kept, but {said}",) if said else ())
