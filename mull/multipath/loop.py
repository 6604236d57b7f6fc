"""One run of the agent: its state S, which each node changes, and what it decides by it.

Also what a person's review changes, and the run's record. Source of S and of the decisions: the
technical report that `mull.multipath.parts` cites, sections 2.1 and 2.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mull.drafts import DraftState
from mull.multipath.parts import Critique, Mode, Node, Passage
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

    P is the request's prompt, D are the passages of `sources`, M is `mode`, T_m `output`, E `error`
    and R_n `revisions` (1 after the first draft). K has two parts: `critiques`, which alone drive
    the loop, and `suggestions`, ideas beyond D that never do.

    In `spent`, `generating` is first drafts and tests, `evaluating` routes and reflections,
    `revising` every later draft. `after` is the last completed node. `allowed` is R_max, once the
    path is chosen. `untested` says why there is no suite. `assembled` is the newest report in its
    final form, if an activity returned it.
    """

    decision_type, record_type = Decision, MultiPathResult
    actions = ("accept", "revise", "replace")

    request: MultiPathRequest
    spent: dict[Part, list[Spending]] = field(default_factory=lambda: {part: [] for part in PARTS})
    sources: tuple[Source, ...] = ()
    routing: Routing | None = None
    output: str = ""
    critiques: tuple[Critique, ...] = ()
    suggestions: tuple[str, ...] = ()
    error: Failure | None = None
    revisions: int = 0
    after: Node | None = None
    suite: Suite | None = None
    untested: str | None = None
    quarantined: tuple[Disputed, ...] = ()
    allowed: int | None = None
    assembled: str | None = None

    @property
    def mode(self) -> Mode | None:
        """The path, None while it is undefined."""
        return self.routing.mode if self.routing else None

    @property
    def goes_on(self) -> bool:
        """False once a decision ended the run, or waits for a person."""
        return self.last is not None and self.last.next is not None

    @property
    def exhausted(self) -> bool:
        """True once R_n has reached R_max."""
        return self.revisions >= (self.allowed or 0)

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
        if self.mode is None:
            raise ValueError("no path is chosen yet, so there is no draft to replace")
        self.chosen = index = len(self.drafts)
        theirs = Draft(
            index=index, mode=self.mode, text=text, origin="replaced", author=author, timestamp=at
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
        return 1 if self.mode == "research" else 0

    def prompt(self, part: Part) -> tuple[list[str], int | None]:
        """List the texts in the prompt of a part's next call, and give its output limit, if set."""
        texts = [self.request.prompt]
        if part != "evaluating" or self.drafts:
            texts += [source.passage.text for source in self.sources]
            texts += [self.output, *(point.words for point in self.critiques)]
        if self.suite is not None and self.suite.file is not None:
            texts.append(self.suite.file.text)
        return texts, self.request.max_output_tokens

    def retrieved(self, passages: Sequence[Passage], at: datetime) -> Decision:
        """Set D, its passages numbered as sources from 1; long passages are cut."""
        self.after = "retrieve"
        documents = (
            passage.model_copy(update={"text": cut_encoded(passage.text, PASSAGE_BYTES)})
            for passage in passages
        )
        self.sources = tuple(
            Source(number=number, passage=passage) for number, passage in enumerate(documents, 1)
        )
        why = "no passage retrieved: no documents were given, or none matched"
        if passages:
            why = f"{tally_words(len(passages), 'passage')} retrieved"
        return self.settle(None, why, at, next="route")

    def routed(self, routing: Routing, at: datetime) -> Decision:
        """Set M, and R_max with it; without a path the run ends."""
        self.after, self.routing = "route", routing
        mode = routing.mode
        if mode is None:
            why = "could not choose between research and code"
            return self.stop("unrouted", f"{why}: {routing.error or routing.reason}", at)
        self.allowed = self.request.r_max(mode)
        node: Node = "generate_report" if mode == "research" else "generate_code"
        return self.settle(None, f"the path is {mode}", at, next=node)

    def _best(self) -> Draft | None:
        return best_of(self.drafts)

    def generated(self, draft: Draft, at: datetime, assembled: str | None = None) -> Decision:
        """Add a new T_m, and its final form; R_n grows by one."""
        self.drafts.append(draft)
        self.output, self.assembled = draft.text, assembled
        self.revisions += 1
        research = draft.mode == "research"
        self.after = "generate_report" if research else "generate_code"
        node: Node = "reflect_on_report" if research else "test_code"
        return self.settle(None, f"draft {self.revisions} is written", at, next=node)

    def reflected(
        self,
        critiques: tuple[Critique, ...],
        suggestions: tuple[str, ...],
        at: datetime,
        assembled: str | None = None,
    ) -> Decision:
        """Replace K by that of the newest draft, and its final form by one with the suggestions.

        The run ends if there are no critiques, or R_n has reached R_max.
        """
        self._amend(critiques=critiques, suggestions=suggestions)
        self.critiques, self.suggestions = critiques, suggestions
        self.after, self.assembled = "reflect_on_report", assembled
        if not critiques:
            return self.stop("consistent", "the reflection found nothing to fix", at)
        left = tally_words(len(critiques), "critique")
        if self.exhausted:
            drafts = tally_words(self.revisions, "draft")
            return self.stop("max_revisions", f"{left} left after {drafts}", at)
        return self.settle(None, f"{left} to fix", at, next="generate_report")

    def tested(self, report: TestReport, at: datetime) -> Decision:
        """Add the newest draft's test report, and set E of all drafts without quarantined tests.

        S gets E of the newest draft, or none if the best draft has none. The run ends if it is
        none, or R_n has reached R_max.
        """
        for warning in report.warnings:
            self.warn(warning)
        self._amend(report=report)
        last = self.exhausted
        if self.suite is not None:
            self.quarantined = quarantine(self.drafts, self.suite, last=last)
        for draft in self.drafts:
            if draft.report is not None:
                self._amend(draft.index, error=believed(draft.report, self.quarantined))
        self.error = self._deciding().error
        self.after = "test_code"
        if self.error is not None and last:
            drafts = tally_words(self.revisions, "draft")
            return self.stop("max_revisions", f"a test still fails after {drafts}", at)
        if self.error is not None:
            return self.settle(None, self.error.message, at, next="generate_code")
        if self.quarantined:
            apart = tally_words(len(self.quarantined), "test")
            told = "; ".join(test.words for test in self.quarantined)
            why = f"every test passes, except {apart} written by the model that no draft passed"
            return self.stop("max_revisions", f"{why}: {told}", at)
        return self.stop("passed", "every test passes", at)

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
        if self.after == "test_code" and self.error is None:
            draft = self._deciding()
        error, report = (draft.error, draft.report) if draft else (None, None)
        critiques = draft.critiques if draft else None
        return {
            "after": self.after,
            "revisions": self.revisions,
            "mode": self.mode,
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
                parts = self.suggestions, self.sources, self.request.creative
                output = assemble(kept.text, *parts)
        tested = [draft for draft in self.drafts if draft.report is not None]
        whole = {draft.index for draft in (best_of(tested), *tested[-1:]) if draft}
        return {
            "output": output,
            "mode": self.mode,
            "open": self.open,
            "kept": kept.index if kept else None,
            "routing": self.routing,
            "sources": self.sources,
            "critiques": kept.critiques or () if kept else (),
            "suggestions": self.suggestions,
            "error": kept.error if kept else None,
            "suite": self.suite,
            "quarantined": self.quarantined,
            "forgeable": bool(kept and kept.report and kept.report.forgeable),
            "drafts": tuple(
                draft if draft.index in whole else draft.with_numbers_alone()
                for draft in self.drafts
            ),
            "revisions": self.revisions,
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


def grant(run: Run, asked: str, author: str, at: datetime) -> Decision:
    """Grant a person exactly one more revision of the draft that they saw.

    Their words are added to K or E, and R_max is raised so that there is room for one more draft.
    """
    seen = run.best
    if seen is None:
        raise ValueError("there is no draft to revise")
    run.granted += 1
    run.allowed, run.output = run.revisions + 1, seen.text
    node: Node = "generate_report"
    if seen.mode == "code":
        run.after, node = "test_code", "generate_code"
        run.error = Failure(message=asked)
        if seen.error is not None:
            both = f"{asked}\nThe tests also say: {seen.error.message}"
            run.error = seen.error.model_copy(update={"message": both})
    else:
        run.after = "reflect_on_report"
        critique = Critique(aspect="person", advice=asked, author=author)
        run.critiques = (critique, *(seen.critiques or ()))
    why = "a person asked for another draft"
    return run.settle(None, why, at, author, asked=asked, next=node)
