"""T(S): which node is next. Source: section 2.3 of the report that `state` names."""

from typing import Literal, NamedTuple

from reflection.multipath.state import Node, State
from reflection.words.amounts import tally_words

Ending = Literal["consistent", "passed", "max_revisions", "unrouted"]


class Transition(NamedTuple):
    """The next node, or None with the reason to end; and why, in words."""

    node: Node | None
    ending: Ending | None
    reason: str


def transition(after: Node, state: State, max_revisions: int) -> Transition:
    """Return what comes after a node, by the state that it left and R_max."""
    match after:
        case "retrieve":
            return Transition("route", None, _found(state))
        case "route":
            return _after_route(state)
        case "generate_report":
            return Transition("reflect_on_report", None, f"draft {state.revisions} is written")
        case "generate_code":
            return Transition("test_code", None, f"draft {state.revisions} is written")
        case "reflect_on_report":
            return _after_reflection(state, max_revisions)
        case "test_code":
            return _after_test(state, max_revisions)


def _found(state: State) -> str:
    if not state.documents:
        return "no passage retrieved: none was asked for, or none was found"
    return f"{tally_words(len(state.documents), 'passage')} retrieved"


def _after_route(state: State) -> Transition:
    match state.mode:
        case "research":
            return Transition("generate_report", None, "the path is research")
        case "code":
            return Transition("generate_code", None, "the path is code")
        case None:
            return Transition(None, "unrouted", "nobody could say whether to research or to code")


def _after_reflection(state: State, max_revisions: int) -> Transition:
    if not state.critiques:
        return Transition(None, "consistent", "the reflection found nothing to mend")
    left = tally_words(len(state.critiques), "critique")
    if state.revisions >= max_revisions:
        return Transition(None, "max_revisions", f"{left} left after {_drafts(state)}")
    return Transition("generate_report", None, f"{left} to mend")


def _after_test(state: State, max_revisions: int) -> Transition:
    if state.error is None:
        return Transition(None, "passed", "every test passes")
    if state.revisions >= max_revisions:
        return Transition(None, "max_revisions", f"a test still fails after {_drafts(state)}")
    return Transition("generate_code", None, state.error.message)


def _drafts(state: State) -> str:
    return tally_words(state.revisions, "draft")
