"""What people do to a run of reflection that waits for them."""

from datetime import datetime

from reflection.critique.evaluation import Evaluation
from reflection.critique.loop import Reflection
from reflection.critique.request import PERSONS_REVISIONS
from reflection.critique.result import Decision, Draft


def grant(state: Reflection, asked: str, author: str, at: datetime) -> Decision:
    """Let a person have one more revision, and no more than that."""
    state.granted += 1
    state.allowed = state.revisions + 1
    return state.go_on("a person asked for a revision", at, author, asked)


def no_grant(state: Reflection) -> str | None:
    """Say why a person can't have one more revision; None where one can be had."""
    if state.granted >= PERSONS_REVISIONS:
        return f"no more than {PERSONS_REVISIONS} revisions can be asked for"
    return state.no_room("revising")


def replace(state: Reflection, text: str, author: str, at: datetime) -> None:
    """Take a person's text as the result, unscored."""
    state.chosen = len(state.drafts)
    state.drafts.append(
        Draft(index=state.chosen, text=text, origin="replaced", author=author, timestamp=at)
    )


def score(state: Reflection, given: float, author: str) -> None:
    """Take a person's score of the best draft, 0 to 1, for its own."""
    best = state.best
    if best is None:
        return
    known = best.evaluation or Evaluation()
    own = known.model_copy(update={"score": given, "author": author, "error": None})
    state.drafts[best.index] = best.model_copy(update={"evaluation": own, "change": None})
    state.chosen = best.index
