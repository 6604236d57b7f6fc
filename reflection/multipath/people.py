"""What people do to a run of the agent that waits for them."""

from datetime import datetime

from reflection.multipath.loop import Run
from reflection.multipath.request import OUTPUT_BYTES, PERSONS_REVISIONS
from reflection.multipath.result import Decision, Draft
from reflection.multipath.state import Critique
from reflection.multipath.suite import Failure
from reflection.review import Review
from reflection.size import encoded_size


def refused(run: Run, given: Review) -> str | None:
    """Say why a review can't be followed; None where it can be."""
    under_review = run.kept
    if given.score is not None:
        return "a result of the agent has no score: accept, revise or replace it"
    if given.draft is not None and under_review is not None and given.draft != under_review.index:
        return f"draft {under_review.index + 1} is under review by now"
    if encoded_size(given.replace or "") > OUTPUT_BYTES:
        return f"the text is over {OUTPUT_BYTES:,} bytes"
    reason = no_grant(run) if given.revise is not None else None
    return f"nothing can be revised any more: {reason}" if reason else None


def no_grant(run: Run) -> str | None:
    """Say why a person can't have one more draft; None where one can be had."""
    if run.granted >= PERSONS_REVISIONS:
        return f"no more than {PERSONS_REVISIONS} drafts can be asked for"
    return run.ledger.no_room("revising")


def grant(run: Run, asked: str, author: str, at: datetime) -> Decision:
    """Let a person have one more draft of the one that they saw, and no more than that.

    Their words join K, or E, so that the transition function itself leads to the next draft.
    """
    seen = run.kept
    if seen is None:
        raise ValueError("there is no draft to revise")
    run.granted += 1
    run.allowed = run.state.revisions + 1
    run.state = run.state.model_copy(update={"output": seen.text, **_added(seen, asked, author)})
    run.after = "test_code" if seen.mode == "code" else "reflect_on_report"
    return run.move(at, author, asked)


def replace(run: Run, text: str, author: str, at: datetime) -> None:
    """Take a person's text as the result, unchecked."""
    if run.state.mode is None:
        raise ValueError("there is no path yet, and so no draft to replace")
    run.chosen = len(run.drafts)
    run.drafts.append(
        Draft(
            index=run.chosen,
            mode=run.state.mode,
            text=text,
            origin="replaced",
            author=author,
            timestamp=at,
        )
    )


def _added(seen: Draft, asked: str, author: str) -> dict[str, object]:
    if seen.mode == "research":
        critique = Critique(aspect="person", advice=asked, author=author)
        return {"critiques": (critique, *(seen.critiques or ()))}
    if seen.error is None:
        return {"error": Failure(message=asked)}
    both = f"{asked}\nBesides, of the tests: {seen.error.message}"
    return {"error": seen.error.model_copy(update={"message": both})}
