"""Tests that the model wrote and that no draft passes: reported, and not believed."""

from collections.abc import Sequence
from typing import NamedTuple

from reflection.multipath.coding.judging.verdict import first_failure
from reflection.multipath.coding.suite import Failure, Suite, TestOutcome, TestReport

DRAFTS = 3
DRAFTS_AT_THE_END = 2

_Told = tuple[str, TestOutcome]


class Reported(NamedTuple):
    """The text of a draft, and what the tests say of it, whole."""

    text: str
    report: TestReport


def quarantine(
    drafts: Sequence[Reported], suite: Suite, *, last: bool = False
) -> tuple[TestOutcome, ...]:
    """Return what came last of each test that is wrong itself, by all that is known.

    That is a case of the model's own that failed with every draft that ran it: three different
    texts at least, or any two drafts at the `last` one. A draft that the program ended before
    counts for no case. Where all cases would be, none is: the drafts are wrong then.
    """
    if suite.origin != "model" or suite.kind != "cases":
        return ()
    told = [_outcomes(case.call, drafts) for case in suite.cases]
    never = [each for each in told if _fails_always(each, last=last)]
    return tuple(each[-1][1] for each in never) if len(never) < len(suite.cases) else ()


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


def _outcomes(test: str, drafts: Sequence[Reported]) -> list[_Told]:
    return [
        (each.text.strip(), outcome)
        for each in drafts
        for outcome in each.report.outcomes
        if outcome.test == test
    ]


def _fails_always(told: Sequence[_Told], *, last: bool) -> bool:
    # A writer that repeats itself has tried nothing else, and may yet.
    different = len({text for text, _ in told})
    enough = len(told) >= DRAFTS_AT_THE_END if last else different >= DRAFTS
    return enough and not any(outcome.passed for _, outcome in told)
