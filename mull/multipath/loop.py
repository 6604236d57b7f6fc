"""One run of the agent: its state, drafts, decisions and spending, updated node by node.

Also what a person's review changes, and the run's record.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mull.drafts import DraftState
from mull.multipath.report import assemble
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import (
    Decision,
    Draft,
    MultiPathResult,
    Routing,
    Source,
    StopReason,
    best_of,
    better_report,
    is_open,
)
from mull.multipath.state import Critique, Node, Passage, State, transition
from mull.multipath.suite import Disputed, Failure, Suite, TestReport
from mull.multipath.verdict import believed, quarantine
from mull.request import Review
from mull.run import Part, Spending
from mull.text import cut_encoded, tally_words

REASON_BYTES = 1_000
PASSAGE_BYTES = 6_000
MOST_WARNINGS = 50
PARTS: tuple[Part, ...] = ("generating", "evaluating", "revising")


@dataclass
class Run(DraftState[Decision, Draft]):
    """The state S of a run, and its drafts, decisions and spending so far.

    In `spent`, `generating` is first drafts and tests, `evaluating` routes and reflections,
    `revising` every later draft. `after` is the last completed node. `allowed` is R_max, once the
    path is chosen. `untested` says why there is no suite. `assembled` is the newest report in its
    final form, if an activity returned it.
    """

    decision_type, record_type = Decision, MultiPathResult
    actions = ("accept", "revise", "replace")

    request: MultiPathRequest
    spent: dict[Part, list[Spending]] = field(default_factory=lambda: {part: [] for part in PARTS})
    state: State = field(init=False)
    after: Node | None = None
    routing: Routing | None = None
    sources: tuple[Source, ...] = ()
    suite: Suite | None = None
    untested: str | None = None
    quarantined: tuple[Disputed, ...] = ()
    allowed: int | None = None
    assembled: str | None = None

    def __post_init__(self) -> None:
        self.state = State(prompt=self.request.prompt)

    @property
    def next(self) -> Node | None:
        """The next node; None if the run ends or waits for a person."""
        return self.last.next if self.last is not None else "retrieve"

    @property
    def open(self) -> bool:
        """Whether something is left to fix, or could not be checked."""
        return is_open(self.best, len(self.quarantined))

    def refused(self, given: Review) -> str | None:
        """Explain why a review is refused; None if it is accepted."""
        if given.score is not None:
            return "a result of the agent has no score: accept, revise or replace it"
        return super().refused(given)

    def replace(self, text: str, author: str, at: datetime) -> None:
        """Take a person's text as the result, unchecked."""
        mode = self.state.mode
        if mode is None:
            raise ValueError("no path is chosen yet, so there is no draft to replace")
        self.chosen = index = len(self.drafts)
        theirs = Draft(
            index=index, mode=mode, text=text, origin="replaced", author=author, timestamp=at
        )
        self.drafts.append(theirs)

    def warn(self, warning: str) -> None:
        """Keep a warning for the result, once."""
        said = cut_encoded(warning, REASON_BYTES)
        if said not in self.warnings and len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(said)

    @property
    def judges(self) -> int:
        """The calls that judge a draft: code is tested, which costs nothing."""
        return 1 if self.state.mode == "research" else 0

    def prompt(self, part: Part) -> tuple[list[str], int | None]:
        """List the texts in the prompt of a part's next call, and give its output limit, if set."""
        texts = [self.request.prompt]
        if part != "evaluating" or self.drafts:
            texts += [source.passage.text for source in self.sources]
            texts += [self.state.output, *(point.words for point in self.state.critiques)]
        if self.suite is not None and self.suite.file is not None:
            texts.append(self.suite.file.text)
        return texts, self.request.max_output_tokens

    def retrieved(self, passages: Sequence[Passage]) -> None:
        """Set D, and number its passages as sources from 1; long passages are cut."""
        documents = tuple(
            passage.model_copy(update={"text": cut_encoded(passage.text, PASSAGE_BYTES)})
            for passage in passages
        )
        self._set(documents=documents)
        self.sources = tuple(
            Source(number=number, passage=passage) for number, passage in enumerate(documents, 1)
        )

    def routed(self, routing: Routing) -> None:
        """Set M, and R_max with it."""
        self.routing = routing
        self._set(mode=routing.mode)
        self.allowed = None if routing.mode is None else self.request.r_max(routing.mode)

    def _best(self) -> Draft | None:
        return best_of(self.drafts)

    def generated(self, draft: Draft, assembled: str | None = None) -> None:
        """Add a new T_m, and its final form; R_n grows by one."""
        self.drafts.append(draft)
        self.assembled = assembled
        self._set(output=draft.text, revisions=self.state.revisions + 1)

    def reflected(
        self,
        critiques: tuple[Critique, ...],
        suggestions: tuple[str, ...],
        assembled: str | None = None,
    ) -> None:
        """Replace K by that of the newest draft, and its final form by one with the suggestions."""
        self._amend(critiques=critiques, suggestions=suggestions)
        self.assembled = assembled
        self._set(critiques=critiques, suggestions=suggestions)

    def tested(self, report: TestReport) -> None:
        """Add the newest draft's test report, and set E of all drafts without quarantined tests.

        S gets E of the newest draft, or none if the best draft has none.
        """
        for warning in report.warnings:
            self.warn(warning)
        self._amend(report=report)
        if self.suite is not None:
            last = self.state.revisions >= (self.allowed or 0)
            self.quarantined = quarantine(self.drafts, self.suite, last=last)
        for draft in self.drafts:
            if draft.report is not None:
                self._amend(draft.index, error=believed(draft.report, self.quarantined))
        self._set(error=self._deciding().error)

    def decide(self, at: datetime, author: str | None = None, asked: str | None = None) -> Decision:
        """Apply the transition function to the last completed node."""
        if self.after is None:
            raise ValueError("no node is complete yet")
        step = transition(self.after, self.state, self.allowed or 0)
        if step.ending is None:
            why = "a person asked for another draft" if asked else step.reason
            return self.settle(None, why, at, author, asked=asked, next=step.node)
        ending, more = step.ending, ""
        if ending == "passed" and self.quarantined:
            ending = "max_revisions"
            apart = tally_words(len(self.quarantined), "test")
            told = "; ".join(test.words for test in self.quarantined)
            more = f", except {apart} written by the model that no draft passed: {told}"
        elif ending == "unrouted" and self.routing is not None:
            more = f": {self.routing.error or self.routing.reason}"
        return self.stop(ending, step.reason + more, at)

    def _waits(self, reason: StopReason) -> str | None:
        wanted = self.request.review_open and reason != "finished_by_person"
        open_ = wanted and self.best is not None and self.open
        return "an open result waits for a review" if open_ else None

    def settle(
        self, reason: Any, explanation: str, at: datetime, author: str | None = None, **more: Any
    ) -> Decision:
        """Record a decision: the run ends for a reason, or goes on at the `next` node."""
        said = cut_encoded(explanation, REASON_BYTES)
        decision = super().settle(reason, said, at, author, **more)
        if decision.stop and (better := better_report(self.drafts, self.best)):
            self.warn(better)
        return decision

    def _compared(self) -> dict[str, Any]:
        draft = self.drafts[-1] if self.drafts else None
        if self.after == "test_code" and self.state.error is None:
            draft = self._deciding()
        error, report = (draft.error, draft.report) if draft else (None, None)
        critiques = draft.critiques if draft else None
        return {
            "after": self.after,
            "revisions": self.state.revisions,
            "mode": self.state.mode,
            "draft": draft.index if draft else None,
            "critiques": None if critiques is None else len(critiques),
            "error": cut_encoded(error.message, REASON_BYTES) if error else None,
            "passed": report.passed if report else None,
            "total": report.total if report else None,
        }

    def _shown(self) -> dict[str, Any]:
        """List the loop's fields; the best and the newest draft alone keep each test's outcome."""
        kept = self.best
        output = kept.text if kept else None
        report = kept is not None and kept.mode == "research" and kept.origin != "replaced"
        if self.stopped and kept and report:
            output = self.assembled
            if output is None:
                # For histories from before the activities returned it.
                parts = self.state.suggestions, self.sources, self.request.creative
                output = assemble(kept.text, *parts)
        tested = [draft for draft in self.drafts if draft.report is not None]
        whole = {draft.index for draft in (best_of(tested), *tested[-1:]) if draft}
        return {
            "output": output,
            "mode": self.state.mode,
            "open": self.open,
            "kept": kept.index if kept else None,
            "routing": self.routing,
            "sources": self.sources,
            "critiques": kept.critiques or () if kept else (),
            "suggestions": self.state.suggestions,
            "error": kept.error if kept else None,
            "suite": self.suite,
            "quarantined": self.quarantined,
            "forgeable": bool(kept and kept.report and kept.report.forgeable),
            "drafts": tuple(
                draft if draft.index in whole else draft.with_numbers_alone()
                for draft in self.drafts
            ),
            "revisions": self.state.revisions,
            "max_revisions": self.allowed,
            "prompt": self.request.prompt,
        }

    def _deciding(self) -> Draft:
        """Return the deciding draft: the best one if it passes its tests, else the newest."""
        best = self.best
        passes = best is not None and best.report is not None and best.error is None
        return best if best is not None and passes else self.drafts[-1]

    def _amend(self, index: int = -1, **known: object) -> None:
        self.drafts[index] = self.drafts[index].model_copy(update=known)

    def _set(self, **known: object) -> None:
        self.state = self.state.model_copy(update=known)


def grant(run: Run, asked: str, author: str, at: datetime) -> Decision:
    """Grant a person exactly one more revision of the draft that they saw.

    Their words are added to K or E, so the transition function leads to the next draft.
    """
    seen = run.best
    if seen is None:
        raise ValueError("there is no draft to revise")
    critique = Critique(aspect="person", advice=asked, author=author)
    error = Failure(message=asked)
    if seen.error is not None:
        both = f"{asked}\nThe tests also say: {seen.error.message}"
        error = seen.error.model_copy(update={"message": both})
    code = seen.mode == "code"
    known = {"error": error} if code else {"critiques": (critique, *(seen.critiques or ()))}
    run.granted += 1
    run.allowed = run.state.revisions + 1
    run.state = run.state.model_copy(update={"output": seen.text, **known})
    run.after = "test_code" if code else "reflect_on_report"
    return run.decide(at, author, asked)
