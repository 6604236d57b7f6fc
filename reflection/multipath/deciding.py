"""The record of a decision: what comes next, why, and on what that was based."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from reflection.multipath.result import Decision, Draft, Routing, StopReason
from reflection.multipath.state import Node, State
from reflection.multipath.suite import TestOutcome
from reflection.multipath.transition import Ending
from reflection.size import cut_encoded
from reflection.words.amounts import tally_words

REASON_BYTES = 1_000


class Verdict(NamedTuple):
    """What was decided, by whom and when: the next node, or a reason to end, or to ask a person."""

    next: Node | None
    stop_reason: StopReason | None
    reason: str
    at: datetime
    author: str | None = None
    waits: bool = False
    asked: str | None = None


def decision(verdict: Verdict, after: Node | None, state: State, newest: Draft | None) -> Decision:
    """Record a verdict with the state that it was made in, and the newest draft's numbers."""
    error, report = (newest.error, newest.report) if newest else (None, None)
    critiques = newest.critiques if newest else None
    return Decision(
        after=after,
        next=verdict.next,
        revisions=state.revisions,
        mode=state.mode,
        draft=newest.index if newest else None,
        critiques=None if critiques is None else len(critiques),
        error=cut_encoded(error.message, REASON_BYTES) if error else None,
        passed=report.passed if report else None,
        total=report.total if report else None,
        stop=verdict.stop_reason is not None and not verdict.waits,
        stop_reason=verdict.stop_reason,
        reason=cut_encoded(verdict.reason, REASON_BYTES),
        author=verdict.author,
        at=verdict.at,
        waits_for_review=verdict.waits,
        asked=verdict.asked,
    )


def besides(ending: Ending, routing: Routing | None, quarantined: Sequence[TestOutcome]) -> str:
    """Say what the transition function does not know of an end."""
    if ending == "passed" and quarantined:
        apart = tally_words(len(quarantined), "test")
        return f", but for {apart} of the model's own that no draft passed"
    if ending == "unrouted" and routing is not None:
        return f": {routing.error or routing.reason}"
    return ""
