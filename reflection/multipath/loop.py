"""One run of the agent, folded node by node: its state, drafts, decisions and spending.

People revise and replace what a run gives; others read its progress and its result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reflection.multipath import state as states
from reflection.multipath.report import assemble
from reflection.multipath.request import OUTPUT_BYTES, PERSONS_REVISIONS, MultiPathRequest
from reflection.multipath.result import (
    Decision,
    Draft,
    MultiPathResult,
    Progress,
    Routing,
    Source,
    Step,
    StopReason,
    best_of,
    is_open,
)
from reflection.multipath.state import Critique, Node, Passage, State, transition
from reflection.multipath.suite import Failure, Suite, TestOutcome, TestReport
from reflection.multipath.verdict import Reported, believed, quarantine
from reflection.run import (
    Budget,
    Part,
    Review,
    Spending,
    Usage,
    cut_encoded,
    encoded_size,
    refusal,
    total,
    usage,
)
from reflection.text import tally_words

REASON_BYTES = 1_000
PASSAGE_BYTES = 6_000
MOST_WARNINGS = 50
PARTS: tuple[Part, ...] = ("retrieving", "generating", "evaluating", "revising")


@dataclass
class Ledger:
    """The replies of a run by part, and the calls that brought none.

    `retrieving` is the search by meaning, `generating` are first drafts and tests, `evaluating`
    routes and reflections, `revising` every later draft.
    """

    budget: Budget
    spent: dict[Part, list[Spending]] = field(default_factory=lambda: {part: [] for part in PARTS})
    retried: int = 0
    cancelled: int = 0

    def no_room(self, part: Part) -> str | None:
        """Say why the budget has no room for the next call of a part; None where it has."""
        searched = self.spent["retrieving"]
        asked = [spending for name in PARTS[1:] for spending in self.spent[name]]
        # What a search cost says nothing of the size of a call that writes or judges.
        if searched and not asked:
            return self._used_up(total(searched))
        alike = self.spent[part] or (asked if searched else [])
        return refusal(self.budget, [*searched, *asked], alike)

    def _used_up(self, searched: Spending) -> str | None:
        """Say why a search left nothing: it used the budget up, or nobody knows what it cost."""
        tokens = ("tokens", self.budget.tokens, searched.tokens)
        dollars = ("US dollars", self.budget.usd, searched.cost_usd)
        for unit, bound, used in (tokens, dollars):
            if bound is not None and used is None:
                model = "the embedding model's provider does not report"
                return f"{model} {unit}, so {bound:,g} {unit} can't be kept to"
            if bound is not None and used is not None and used >= bound:
                return f"{used:,.6g} of {bound:,g} {unit} are spent, on the search by meaning"
        return None

    def pay(self, part: Part, spending: Spending | None, attempts: int) -> None:
        """Count a reply, and the attempts before it that brought none."""
        self.retried += attempts - (spending is not None)
        if spending is not None:
            self.spent[part].append(spending)

    def lose(self, calls: int) -> None:
        """Count calls that were cancelled before their reply came."""
        self.cancelled += calls

    @property
    def used(self) -> Usage:
        """All of it, summed up in parts; without a search by meaning there is none for it."""
        searched, drafted, judged, revised = (self.spent[part] for part in PARTS)
        return usage(drafted, judged, self.retried, self.cancelled, revised, searched or None)


@dataclass
class Run:
    """The state S of a run, and its drafts, decisions and spending so far.

    `after` is the last node that was left. `allowed` is R_max, once the path is chosen, and
    `granted` counts the drafts that people asked for. `untested` says why there is no suite.
    `reports` are those of the tests, whole; of drafts that are neither the newest nor the best
    their numbers alone are kept. `chosen` is the index of the draft that a person put in the place
    of the others. `assembled` is the newest report as it is given out, where an activity said it.
    """

    request: MultiPathRequest
    state: State = field(init=False)
    ledger: Ledger = field(init=False)
    after: Node | None = None
    routing: Routing | None = None
    sources: tuple[Source, ...] = ()
    suite: Suite | None = None
    untested: str | None = None
    quarantined: tuple[TestOutcome, ...] = ()
    drafts: list[Draft] = field(default_factory=list)
    reports: list[TestReport] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    allowed: int | None = None
    granted: int = 0
    chosen: int | None = None
    assembled: str | None = None

    def __post_init__(self) -> None:
        self.state = State(prompt=self.request.prompt)
        self.ledger = Ledger(Budget(self.request.budget_tokens, self.request.budget_usd))

    @property
    def last(self) -> Decision | None:
        """The newest decision."""
        return self.decisions[-1] if self.decisions else None

    @property
    def stopped(self) -> bool:
        """Whether the newest decision ends the run."""
        return self.last is not None and self.last.stop

    @property
    def next(self) -> Node | None:
        """The node to go to; None where the run ends, or waits for a person."""
        return self.last.next if self.last is not None else "retrieve"

    @property
    def kept(self) -> Draft | None:
        """The draft that the result is made of."""
        return self.drafts[self.chosen] if self.chosen is not None else best_of(self.drafts)

    @property
    def open(self) -> bool:
        """Whether something is left to mend, or could not be checked."""
        tests = len(self.suite.cases) if self.suite else 0
        return is_open(self.kept, len(self.quarantined), tests)

    def warn(self, warning: str) -> None:
        """Keep a warning for the result, once."""
        said = cut_encoded(warning, REASON_BYTES)
        if said not in self.warnings and len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(said)

    def left_out(self, names: Sequence[str]) -> None:
        """Warn of parameters that a provider does not take."""
        for name in names:
            self.warn(f"the provider does not take {name}, which was left out")

    def retrieved(self, passages: Sequence[Passage]) -> None:
        """Take D, and number its passages as sources from 1; what a result can't hold is cut."""
        documents = tuple(
            passage.model_copy(update={"text": cut_encoded(passage.text, PASSAGE_BYTES)})
            for passage in passages
        )
        self.state = states.retrieved(self.state, documents)
        self.sources = tuple(
            Source(number=number, passage=passage) for number, passage in enumerate(documents, 1)
        )

    def routed(self, routing: Routing) -> None:
        """Take M, and R_max with it."""
        self.routing = routing
        self.state = states.routed(self.state, routing.mode)
        self.allowed = None if routing.mode is None else self.request.r_max(routing.mode)

    def generated(self, draft: Draft, assembled: str | None = None) -> None:
        """Take a new T_m, and how it is given out."""
        self.drafts.append(draft)
        self.assembled = assembled
        self.state = states.generated(self.state, draft.text)

    def reflected(
        self,
        critiques: tuple[Critique, ...],
        suggestions: tuple[str, ...],
        assembled: str | None = None,
    ) -> None:
        """Take K of the newest draft, and how that is given out with K's suggestions."""
        self._amend(critiques=critiques, suggestions=suggestions)
        self.assembled = assembled
        self.state = states.reflected(self.state, critiques, suggestions)

    def tested(self, report: TestReport) -> None:
        """Take what the tests say of the newest draft, and E of all drafts by what is believed.

        S has E of the newest draft, but where the best one has none: then there is none.
        """
        for warning in report.warnings:
            self.warn(warning)
        self.reports.append(report)
        self._amend(report=report)
        tested = [draft for draft in self.drafts if draft.report is not None]
        known = list(zip(tested, self.reports, strict=True))
        if self.suite is not None:
            last = self.state.revisions >= (self.allowed or 0)
            whole = [Reported(draft.text, report) for draft, report in known]
            self.quarantined = quarantine(whole, self.suite, last=last)
        for draft, said in known:
            self._amend(draft.index, report=said, error=believed(said, self.quarantined))
        deciding, best = self._deciding(), self.kept
        self.state = states.tested(self.state, deciding.error if deciding else None)
        for draft in self.drafts[:-1]:
            if best is not None and draft.index != best.index:
                self.drafts[draft.index] = draft.with_numbers_alone()

    def move(self, at: datetime, author: str | None = None, asked: str | None = None) -> Decision:
        """Decide by the transition function what comes after the node that was left."""
        if self.after is None:
            raise ValueError("no node was left yet")
        step = transition(self.after, self.state, self.allowed or 0)
        if step.ending is None:
            why = "a person asked for another draft" if asked else step.reason
            return self._decide(step.node, None, why, at, author, asked=asked)
        more = ""
        if step.ending == "passed" and self.quarantined:
            apart = tally_words(len(self.quarantined), "test")
            more = f", but for {apart} of the model's own that no draft passed"
        elif step.ending == "unrouted" and self.routing is not None:
            more = f": {self.routing.error or self.routing.reason}"
        return self.stop(step.ending, step.reason + more, at)

    def stop(
        self, reason: StopReason, explanation: str, at: datetime, author: str | None = None
    ) -> Decision:
        """End the run, or wait where a person wants to see an open draft first."""
        wanted = self.request.review_open and reason != "finished_by_person"
        waits = wanted and self.kept is not None and self.open
        said = f"{explanation}; an open result waits for a review" if waits else explanation
        return self._decide(None, reason, said, at, author, waits=waits)

    def settle(
        self, reason: StopReason, explanation: str, at: datetime, author: str | None = None
    ) -> Decision:
        """End the run by what a person said, or by the end of the wait for one."""
        return self._decide(None, reason, explanation, at, author)

    def _deciding(self) -> Draft | None:
        """Return the draft that a decision is based on: the best where nothing is wrong with it."""
        best = self.kept
        if best is not None and best.report is not None and best.error is None:
            return best
        return self.drafts[-1] if self.drafts else None

    def _amend(self, index: int = -1, **known: object) -> None:
        self.drafts[index] = self.drafts[index].model_copy(update=known)

    def _decide(
        self,
        node: Node | None,
        stop_reason: StopReason | None,
        reason: str,
        at: datetime,
        author: str | None,
        *,
        waits: bool = False,
        asked: str | None = None,
    ) -> Decision:
        """Record a decision with the state that it was made in, and its draft's numbers."""
        draft = self.drafts[-1] if self.drafts else None
        if self.after == "test_code" and self.state.error is None:
            draft = self._deciding()
        error, report = (draft.error, draft.report) if draft else (None, None)
        critiques = draft.critiques if draft else None
        made = Decision(
            after=self.after,
            next=node,
            revisions=self.state.revisions,
            mode=self.state.mode,
            draft=draft.index if draft else None,
            critiques=None if critiques is None else len(critiques),
            error=cut_encoded(error.message, REASON_BYTES) if error else None,
            passed=report.passed if report else None,
            total=report.total if report else None,
            stop=stop_reason is not None and not waits,
            stop_reason=stop_reason,
            reason=cut_encoded(reason, REASON_BYTES),
            author=author,
            at=at,
            waits_for_review=waits,
            asked=asked,
        )
        self.decisions.append(made)
        return made


def refused(run: Run, given: Review) -> str | None:
    """Say why a review can't be followed; None where it can be."""
    under_review = run.kept
    if given.score is not None:
        return "a result of the agent has no score: accept, revise or replace it"
    if given.draft is not None and under_review is not None and given.draft != under_review.index:
        return f"draft {under_review.index + 1} is under review by now"
    if encoded_size(given.replace or "") > OUTPUT_BYTES:
        return f"the text is over {OUTPUT_BYTES:,} bytes"
    if given.revise is None:
        return None
    reason = run.ledger.no_room("revising")
    if run.granted >= PERSONS_REVISIONS:
        reason = f"no more than {PERSONS_REVISIONS} drafts can be asked for"
    return f"nothing can be revised any more: {reason}" if reason else None


def grant(run: Run, asked: str, author: str, at: datetime) -> Decision:
    """Let a person have one more draft of the one that they saw, and no more than that.

    Their words join K, or E, so that the transition function itself leads to the next draft.
    """
    seen = run.kept
    if seen is None:
        raise ValueError("there is no draft to revise")
    known: dict[str, object] = {"output": seen.text}
    if seen.mode == "research":
        critique = Critique(aspect="person", advice=asked, author=author)
        known["critiques"] = (critique, *(seen.critiques or ()))
    elif seen.error is None:
        known["error"] = Failure(message=asked)
    else:
        both = f"{asked}\nBesides, of the tests: {seen.error.message}"
        known["error"] = seen.error.model_copy(update={"message": both})
    run.granted += 1
    run.allowed = run.state.revisions + 1
    run.state = run.state.model_copy(update=known)
    run.after = "test_code" if seen.mode == "code" else "reflect_on_report"
    return run.move(at, author, asked)


def replace(run: Run, text: str, author: str, at: datetime) -> None:
    """Take a person's text as the result, unchecked."""
    mode = run.state.mode
    if mode is None:
        raise ValueError("there is no path yet, and so no draft to replace")
    run.chosen = index = len(run.drafts)
    theirs = Draft(
        index=index, mode=mode, text=text, origin="replaced", author=author, timestamp=at
    )
    run.drafts.append(theirs)


def progress(run: Run, step: Step, in_flight: int, review_until: datetime | None) -> Progress:
    """Say where a run stands; `in_flight` is the number of calls under way."""
    last = run.last
    return Progress(
        **_standing(run),
        step="finished" if run.stopped else step,
        in_flight=in_flight,
        review_until=review_until,
        stop_reason=last.stop_reason if last and last.stop else None,
    )


def result(run: Run) -> MultiPathResult:
    """Put the result together, once the newest decision ended the run.

    Raises ValueError while the run goes on.
    """
    last, kept = run.last, run.kept
    if last is None or not last.stop or last.stop_reason is None:
        raise ValueError("the run goes on")
    output = kept.text if kept else None
    if kept is not None and kept.mode == "research" and kept.origin != "replaced":
        output = run.assembled
        if output is None:
            # Histories from before the activities said it.
            output = assemble(kept.text, run.state.suggestions, run.sources, run.request.creative)
    return MultiPathResult(
        **_standing(run),
        output=output,
        stop_reason=last.stop_reason,
        stop_explanation=last.reason,
        open=run.open,
        kept=kept.index if kept else None,
        critiques=kept.critiques or () if kept else (),
        suggestions=run.state.suggestions,
        error=kept.error if kept else None,
        forgeable=bool(kept and kept.report and kept.report.forgeable),
        decisions=tuple(run.decisions),
    )


def _standing(run: Run) -> dict[str, Any]:
    """Return what progress and result both say."""
    written = [draft.model for draft in run.drafts if draft.model is not None]
    return {
        "prompt": run.request.prompt,
        "model": written[-1] if written else run.request.model,
        "mode": run.state.mode,
        "routing": run.routing,
        "sources": run.sources,
        "drafts": tuple(run.drafts),
        "suite": run.suite,
        "quarantined": run.quarantined,
        "revisions": run.state.revisions,
        "max_revisions": run.allowed,
        "usage": run.ledger.used,
        "warnings": tuple(run.warnings),
    }
