"""Which draft a run keeps, and whether anything is left open in it."""

from collections.abc import Sequence

from reflection.multipath.result import Draft


def kept(drafts: Sequence[Draft]) -> Draft | None:
    """Return the latest report, or the code that passes most tests, the latest among equals.

    Untested code comes after all that was tested. None where there is no draft.
    """
    return max(drafts, key=_rank, default=None)


def is_open(draft: Draft | None, quarantined: int = 0, tests: int = 0) -> bool:
    """Tell whether a draft has critiques or an error, or could not be checked, or is none at all.

    Code is open, too, where half of its tests or more are quarantined: few are left to believe.
    What a person wrote is theirs, and stays as it is.
    """
    if draft is None:
        return True
    if draft.origin == "replaced":
        return False
    if draft.mode == "code":
        doubtful = quarantined > 0 and 2 * quarantined >= tests
        return draft.report is None or draft.error is not None or doubtful
    return draft.critiques is None or bool(draft.critiques)


def numbers_alone(draft: Draft) -> Draft:
    """Leave out what each test gave, so that the longest run's result can be kept; E stays."""
    if draft.report is None:
        return draft
    slim = draft.report.model_copy(update={"outcomes": (), "output": "", "error": None})
    return draft.model_copy(update={"report": slim})


def _rank(draft: Draft) -> tuple[bool, int, int]:
    if draft.mode == "research" or draft.report is None:
        return False, -1, draft.index
    return draft.error is None, draft.report.passed, draft.index
