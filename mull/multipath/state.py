"""The agent's state S = (P, D, M, T_m, K, E, R_n), and the transition function T(S).

Source: the technical report "A Reflective Multi-Path Agentic System" (version 5.0), section 2.1
for the state, and 2.3 for the transitions.
"""

from typing import Literal, NamedTuple

from mull.multipath.suite import Failure
from mull.request import Record
from mull.text import tally_words

Mode = Literal["research", "code"]
Node = Literal[
    "retrieve", "route", "generate_report", "reflect_on_report", "generate_code", "test_code"
]
Aspect = Literal["citation", "consistency", "clarity", "completeness", "demarcation", "person"]


class Passage(Record):
    """A member of D: a part of a document, lines `first_line` to `last_line` inclusive.

    `score` is the engine's own, for ordering alone. `source` is the file's path in its folder.
    `page` counts from 1, for documents that have pages; lines are then those of the page.
    """

    id: str
    source: str
    first_line: int
    last_line: int
    score: float
    text: str
    page: int | None = None

    @property
    def place(self) -> str:
        """Where it stands: its file, page and lines."""
        page = f", page {self.page}" if self.page is not None else ""
        last = f"-{self.last_line}" if self.last_line != self.first_line else ""
        return f"{self.source}{page}:{self.first_line}{last}"


class Critique(Record):
    """A member of K, which drives a refinement: what to change, and in which sentence.

    `sentence` is quoted from the report, None if something is missing there. `cited` is the number
    of the source concerned, from 1. `author` is the person who wrote the critique, if any.
    """

    aspect: Aspect
    advice: str
    sentence: str | None = None
    cited: int | None = None
    author: str | None = None

    @property
    def words(self) -> str:
        """The critique on one line: its aspect or the person, the sentence, the advice."""
        cited = "" if self.cited is None else f"[{self.cited}]"
        quoted = f'at "{self.sentence}"' if self.sentence else ""
        about = ", ".join(filter(None, (self.author or self.aspect, cited, quoted)))
        return f"{about}: {self.advice}"


class State(Record):
    """The agent's state; every node replaces its own part.

    `prompt` is P, `documents` D, `mode` M (None: undefined), `output` T_m, `revisions` R_n (1
    after the first draft). K has two parts: `critiques`, which alone drive the loop, and
    `suggestions`, ideas beyond D that never do. `error` is E.
    """

    prompt: str
    documents: tuple[Passage, ...] = ()
    mode: Mode | None = None
    output: str = ""
    critiques: tuple[Critique, ...] = ()
    suggestions: tuple[str, ...] = ()
    error: Failure | None = None
    revisions: int = 0


Ending = Literal["consistent", "passed", "max_revisions", "unrouted"]


class Transition(NamedTuple):
    """The next node, or None and the ending; and the reason in words."""

    node: Node | None
    ending: Ending | None
    reason: str


def transition(after: Node, state: State, max_revisions: int) -> Transition:
    """Return what follows a node, given the state after it and R_max."""
    match after:
        case "retrieve":
            found = f"{tally_words(len(state.documents), 'passage')} retrieved"
            nothing = "no passage retrieved: no documents were given, or none matched"
            return Transition("route", None, found if state.documents else nothing)
        case "route" if state.mode is None:
            return Transition(None, "unrouted", "could not choose between research and code")
        case "route":
            node: Node = "generate_report" if state.mode == "research" else "generate_code"
            return Transition(node, None, f"the path is {state.mode}")
        case "generate_report" | "generate_code":
            node = "reflect_on_report" if after == "generate_report" else "test_code"
            return Transition(node, None, f"draft {state.revisions} is written")
        case "reflect_on_report":
            return _after_reflection(state, max_revisions)
        case "test_code":
            return _after_test(state, max_revisions)


def _after_reflection(state: State, max_revisions: int) -> Transition:
    if not state.critiques:
        return Transition(None, "consistent", "the reflection found nothing to fix")
    left = tally_words(len(state.critiques), "critique")
    if state.revisions >= max_revisions:
        drafts = tally_words(state.revisions, "draft")
        return Transition(None, "max_revisions", f"{left} left after {drafts}")
    return Transition("generate_report", None, f"{left} to fix")


def _after_test(state: State, max_revisions: int) -> Transition:
    if state.error is None:
        return Transition(None, "passed", "every test passes")
    if state.revisions >= max_revisions:
        drafts = tally_words(state.revisions, "draft")
        return Transition(None, "max_revisions", f"a test still fails after {drafts}")
    return Transition("generate_code", None, state.error.message)
