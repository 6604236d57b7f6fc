"""Words that the terminal and the page of a run add to those that every place has."""

from collections.abc import Sequence

from reflection.multipath.result import Decision, Draft, MultiPathResult
from reflection.multipath.suite import Failure, TestReport
from reflection.multipath.words.wording import by_words, draft_words
from reflection.plain import plain
from reflection.words.amounts import tally_words

END = "end"
REVIEW = "a person's review"


def found_words(draft: Draft) -> str:
    """Say in a few words what its reflection or its tests made of a draft: its K or E."""
    if draft.mode == "code":
        return _passing(draft.report, draft.error) if draft.report else "not tested"
    if draft.critiques is None:
        return "not reflected on"
    return critiques_words(len(draft.critiques)) if draft.critiques else "consistent"


def counts_words(passed: int, total: int) -> str:
    """Say how many of all tests pass."""
    return f"{passed:,} of {tally_words(total, 'test')} {'passes' if total == 1 else 'pass'}"


def critiques_words(count: int) -> str:
    """Count critiques."""
    return tally_words(count, "critique")


def failure_rows(failure: Failure) -> list[tuple[str, str]]:
    """List the parts of E that there are, but for its traceback."""
    known = [
        ("test", failure.test),
        ("expected", failure.expected),
        ("got", failure.got),
        ("status", failure.status),
    ]
    return [(name, value) for name, value in known if value is not None]


def next_words(decision: Decision) -> str:
    """Say what comes next: a node, a person's review, or the end and its reason."""
    if decision.waits_for_review:
        return REVIEW
    if decision.stop:
        return f"{END} ({decision.stop_reason})" if decision.stop_reason else END
    return decision.next or "-"


def reason_words(decision: Decision, most: int) -> str:
    """Say on what a decision rests, on one line: the draft, its tests, the reason, the person."""
    checked = decision.after in {"reflect_on_report", "test_code"} and decision.draft is not None
    about = f"{draft_words(decision.draft)}: " if checked else ""
    said = f"{decision.reason}: {decision.asked}" if decision.asked else decision.reason
    named = decision.author and decision.author in decision.reason
    by = f" ({by_words(decision)})" if decision.author and not named else ""
    return plain(f"{about}{_failing(decision)}{said}{by}", most)


def thing_words(mode: str | None) -> str:
    """Name what a path gives."""
    return {"research": "report", "code": "code"}.get(mode or "", "output")


def still_open(result: MultiPathResult) -> str:
    """Say what is still open in a result; nothing where it is closed, or where there is none."""
    if not result.open or result.output is None:
        return ""
    if result.critiques:
        remain = "remains" if len(result.critiques) == 1 else "remain"
        return f"{critiques_words(len(result.critiques))} {remain}"
    if result.error is not None:
        return f"a test still fails: {plain(result.error.message, 300)}"
    if result.quarantined:
        return f"{len(result.quarantined)} of its tests are quarantined: no draft passed them"
    checked = "tested the code" if result.mode == "code" else "reflected on the report"
    return f"nobody {checked}"


def draft_of(drafts: Sequence[Draft], index: int | None) -> Draft | None:
    """Find a draft by its index."""
    return next((each for each in drafts if each.index == index), None)


def _passing(report: TestReport, error: Failure | None) -> str:
    """Say how many tests hold; where nobody could count them, how the run of the code ended."""
    if report.total is not None:
        return counts_words(report.passed, report.total)
    if report.status == "ok":
        return "a test fails" if error else "passes"
    return f"no test counted ({plain(report.status, 40)})"


def _failing(decision: Decision) -> str:
    if decision.passed is None or decision.total is None or decision.error is None:
        return ""
    return f"{counts_words(decision.passed, decision.total)}; "
