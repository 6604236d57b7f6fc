"""Tests that the model wrote and that no draft passes: reported, and not believed."""

from collections.abc import Sequence

from reflection.multipath.coding.suite import Failure, Suite, TestOutcome, TestReport
from reflection.multipath.coding.verdict import first_failure

DRAFTS = 3
DRAFTS_AT_THE_END = 2


def quarantine(
    reports: Sequence[TestReport], suite: Suite, *, last: bool = False
) -> tuple[TestOutcome, ...]:
    """Return what came last of each test that is wrong itself, by all that is known.

    That is a case of the model's own that failed with every draft that ran it, three at least, or
    two at the `last` draft. A draft that the program ended before counts for no case. Where all
    cases would be, none is: the drafts are wrong then.
    """
    if suite.origin != "model" or suite.kind != "cases":
        return ()
    least = DRAFTS_AT_THE_END if last else DRAFTS
    told = [_outcomes(case.call, reports) for case in suite.cases]
    never = [each for each in told if len(each) >= least and not any(one.passed for one in each)]
    return tuple(each[-1] for each in never) if len(never) < len(suite.cases) else ()


def believed(report: TestReport, quarantined: Sequence[TestOutcome]) -> Failure | None:
    """Return E by the tests that are believed: none where only quarantined tests fail.

    A program that did not give all its results stays wrong.
    """
    doubted = {each.test for each in quarantined}
    if report.error is None or report.error.test not in doubted or report.error.status:
        return report.error
    failure = first_failure([each for each in report.outcomes if each.test not in doubted])
    whole = report.total is not None and len(report.outcomes) >= report.total
    return failure if failure or whole else _unfinished(report)


def _unfinished(report: TestReport) -> Failure:
    status = None if report.status in {"ok", "error"} else report.status
    return Failure(message="the program ended before all tests gave a result", status=status)


def _outcomes(test: str, reports: Sequence[TestReport]) -> list[TestOutcome]:
    return [each for report in reports for each in report.outcomes if each.test == test]
