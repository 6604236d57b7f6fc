"""The record of a run of the multi-path agent: its drafts, its decisions, and its result."""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Literal

from mull.drafts import NO_ANSWER, Made, RunRecord
from mull.multipath.parts import Critique, Mode, Node, Passage
from mull.multipath.suite import Disputed, Failure, Suite, TestReport
from mull.request import Record
from mull.run import Decided
from mull.text import Shown, place, tally_words, terminal_safe

StopReason = Literal[
    "consistent",
    "passed",
    "max_revisions",
    "unrouted",
    "budget",
    "deadline",
    "generation_failed",
    "reflection_failed",
    "test_failed",
    "accepted_by_person",
    "replaced_by_person",
    "review_timeout",
    "finished_by_person",
]
Origin = Literal["generated", "refined", "replaced"]
# A router's reason may repeat a long prompt.
REASON_COLUMNS = 60
CODE = re.compile(r"```|>>> |\b(?:Python|pytest|def) ")


class Source(Record):
    """A passage as a report cites it: `number` is the n of `[n]`, from 1."""

    number: int
    passage: Passage


class Routing(Record):
    """Which path was chosen, by whom and why; `mode` is None if none could be chosen."""

    mode: Mode | None
    reason: str
    chosen_by: Literal["request", "model"]
    error: str | None = None

    def words(self, prompt: str) -> str:
        """Which path was chosen, by whom, and why; a prompt about code gets a hint."""
        if self.mode is None:
            return f"no path: {self.error or self.reason or 'no reason given'}"
        if self.chosen_by == "request":
            return f"{self.mode}: as the request says"
        why = f"{self.mode}: {terminal_safe(self.reason, REASON_COLUMNS)}"
        about_code = self.mode != "code" and CODE.search(prompt)
        return f"{why} (for code: --mode code)" if about_code else why


class Draft(Made):
    """One T_m with its K or E, from its reflection or its tests.

    `critiques` is None if it was not reflected on, and `report` if it was not tested. `error` is E
    without quarantined tests.
    """

    mode: Mode
    text: str
    origin: Origin
    cut: bool = False
    attempts: int = 0
    critiques: tuple[Critique, ...] | None = None
    suggestions: tuple[str, ...] = ()
    report: TestReport | None = None
    error: Failure | None = None

    def with_numbers_alone(self) -> "Draft":
        """Drop the outcomes of single tests, so that the longest run's result fits; E is kept."""
        if self.report is None:
            return self
        numbers = self.report.model_copy(update={"outcomes": (), "output": "", "error": None})
        return self.model_copy(update={"report": numbers})


def best_of(drafts: Sequence[Draft]) -> Draft | None:
    """Return the latest report, or the code that passes most tests, the earlier of equals.

    Tested code is preferred to untested code. None if there is no draft.
    """

    def rank(draft: Draft) -> tuple[bool, int, int]:
        if draft.mode == "research":
            return False, -1, draft.index
        passed = draft.report.passed if draft.report else -1
        return passed >= 0 and draft.error is None, passed, -draft.index

    return max(drafts, key=rank, default=None)


def better_report(drafts: Sequence[Draft], kept: Draft | None) -> str:
    """Say which earlier report had fewer critiques than the one that is kept; empty if none had.

    The latest report is kept, as in the source, and not the one with the fewest critiques.
    """
    if kept is None or not kept.critiques or kept.mode != "research":
        return ""
    earlier = [draft for draft in drafts[: kept.index] if draft.critiques is not None]
    least = min(earlier, key=lambda draft: len(draft.critiques or ()), default=kept)
    if len(least.critiques or ()) >= len(kept.critiques):
        return ""
    counts = f"{len(least.critiques or ())} instead of {len(kept.critiques)}"
    return f"the latest report is kept, but draft {least.index + 1} had fewer critiques: {counts}"


def is_open(draft: Draft | None, quarantined: int = 0) -> bool:
    """Tell whether a draft has critiques or an error, could not be checked, or is missing.

    Code is also open if a test is quarantined. A text that a person wrote is never open.
    """
    if draft is None:
        return True
    if draft.origin == "replaced":
        return False
    if draft.mode == "code":
        return draft.report is None or draft.error is not None or quarantined > 0
    return draft.critiques is None or bool(draft.critiques)


class Decision(Decided):
    """One transition: the completed node, the next one (None: the end), and its numbers.

    `critiques`, `passed` and `total` are counts of the newest draft, None where they do not apply.
    `asked` is the change that a person requested, in their words.
    """

    after: Annotated[Node | None, Shown("after")]
    next: Node | None = None
    revisions: Annotated[int, Shown("revisions (R_n)|number")]
    mode: Mode | None
    draft: Annotated[int | None, Shown("draft|number|extra", place)]
    critiques: Annotated[int | None, Shown("critiques (K)|number|extra")]
    error: str | None
    passed: int | None
    total: int | None
    stop_reason: StopReason | None
    waits_for_review: bool = False
    asked: str | None = None


class MultiPathResult(RunRecord):
    """The report or the code, why the run ended, what is still open, and what it cost.

    `output` is the report in Markdown, with its sources and further considerations, or the code
    that passed most tests (`kept` is its draft's index); None if there is none. `open` is true if
    `critiques` or an `error` remain, nothing could be checked, or a test is `quarantined`: written
    by the model, failed by every draft, and not counted. `forgeable` is true if tests ran beside
    the code. `sources` are what a report may cite as [n].
    """

    answer_field = "output"

    output: str | None
    mode: Mode | None
    stop_reason: StopReason | None = None
    open: bool
    kept: int | None
    routing: Routing | None
    sources: tuple[Source, ...]
    critiques: tuple[Critique, ...]
    suggestions: tuple[str, ...]
    error: Failure | None
    suite: Annotated[Suite | None, Shown("tests", attrgetter("words"))]
    quarantined: tuple[Disputed, ...]
    forgeable: bool
    drafts: tuple[Draft, ...]
    decisions: tuple[Decision, ...]
    revisions: int
    max_revisions: int | None
    prompt: str

    @property
    def doubt(self) -> str:
        """Say why not to build on the result; empty if a person accepted it.

        Tests that pass show that code is whole, whatever was cut off after it.
        """
        if (kept := kept_of(self)) is None:
            return self.because(NO_ANSWER)
        if self.stop_reason == "accepted_by_person":
            return ""
        cut = kept.mode == "research" and kept.cut
        return self.because(still_open(self)) or ("the report was cut off" if cut else "")

    def below(self, _: float) -> str | None:
        """Describe what is still open; None if nothing is."""
        still = still_open(self)
        return f"the result is not closed ({still})" if still else None


def kept_of(seen: MultiPathResult) -> Draft | None:
    """Return the draft that is the result, or would be now."""
    return next((draft for draft in seen.drafts if draft.index == seen.kept), None)


def still_open(seen: MultiPathResult) -> str:
    """Say what is still open in a result; empty if nothing is, or if there is none."""
    kept = kept_of(seen)
    if kept is None or not seen.open:
        return ""
    if kept.critiques:
        remain = "remains" if len(kept.critiques) == 1 else "remain"
        return f"{tally_words(len(kept.critiques), 'critique')} {remain}"
    if kept.error is not None:
        return f"a test still fails: {kept.error.message}"
    if seen.quarantined:
        first, others = seen.quarantined[0], len(seen.quarantined) - 1
        more = f" (and {tally_words(others, 'other test')})" if others else ""
        return f"a test is disputed{more}: {first.words}"
    return "the code was not tested" if kept.mode == "code" else "the report was not reflected on"
