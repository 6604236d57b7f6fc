"""The record of a decision: what comes next, why, and on what that was based.

Which draft a run keeps, and whether anything is left open in it.

What a run spent so far, in parts, and what its budget still has room for.

One run of the agent, folded node by node: the state that queries return.

What people do to a run of the agent that waits for them.

From the state of a run to what others read of it: progress and result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

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
)
from reflection.multipath.state import Critique, Ending, Node, Passage, State, transition
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


@dataclass
class Ledger:
    """The replies of a run by part, and the calls that brought none.

    `retrieving` is the search by meaning, `generating` are first drafts and tests, `evaluating`
    routes and reflections, `revising` every later draft.
    """

    budget: Budget
    spent: dict[Part, list[Spending]] = field(
        default_factory=lambda: {
            "retrieving": [],
            "generating": [],
            "evaluating": [],
            "revising": [],
        }
    )
    retried: int = 0
    cancelled: int = 0

    def no_room(self, part: Part) -> str | None:
        """Say why the budget has no room for the next call of a part; None where it has."""
        searched = self.spent["retrieving"]
        asked = [
            each for name, listed in self.spent.items() if name != "retrieving" for each in listed
        ]
        if searched and not asked:
            return _used_up(self.budget, total(searched))
        # What a search cost says nothing of the size of a call that writes or judges.
        alike = self.spent[part] or (asked if searched else [])
        return refusal(self.budget, [*searched, *asked], alike)

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
        return usage(
            self.spent["generating"],
            self.spent["evaluating"],
            self.retried,
            self.cancelled,
            self.spent["revising"],
            self.spent["retrieving"] or None,
        )


def _used_up(budget: Budget, searched: Spending) -> str | None:
    """Say why a search left nothing of a budget: it used it up, or nobody knows what it cost."""
    for unit, bound, used in _bounds(budget, searched):
        if bound is not None and used is None:
            model = "the embedding model's provider does not report"
            return f"{model} {unit}, so {bound:,g} {unit} can't be kept to"
        if bound is not None and used is not None and used >= bound:
            return f"{used:,.6g} of {bound:,g} {unit} are spent, on the search by meaning"
    return None


def _bounds(budget: Budget, spent: Spending) -> Sequence[tuple[str, float | None, float | None]]:
    return ("tokens", budget.tokens, spent.tokens), ("US dollars", budget.usd, spent.cost_usd)


PASSAGE_BYTES = 6_000
MOST_WARNINGS = 50


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
        return self.drafts[self.chosen] if self.chosen is not None else kept(self.drafts)

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
        documents = tuple(_bounded(each) for each in passages)
        self.state = states.retrieved(self.state, documents)
        self.sources = tuple(
            Source(number=number, passage=each) for number, each in enumerate(documents, 1)
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
        known = self._known()
        if self.suite is not None:
            last = self.state.revisions >= (self.allowed or 0)
            self.quarantined = quarantine(list(known.values()), self.suite, last=last)
        for index, each in known.items():
            error = believed(each.report, self.quarantined)
            self._amend(index, report=each.report, error=error)
        deciding = self._deciding()
        self.state = states.tested(self.state, deciding.error if deciding else None)
        self._slim()

    def move(self, at: datetime, author: str | None = None, asked: str | None = None) -> Decision:
        """Decide by the transition function what comes after the node that was left."""
        if self.after is None:
            raise ValueError("no node was left yet")
        step = transition(self.after, self.state, self.allowed or 0)
        if step.ending is None:
            why = "a person asked for another draft" if asked else step.reason
            return self._record(Verdict(step.node, None, why, at, author, asked=asked))
        more = besides(step.ending, self.routing, self.quarantined)
        return self.stop(step.ending, step.reason + more, at)

    def stop(
        self, reason: StopReason, explanation: str, at: datetime, author: str | None = None
    ) -> Decision:
        """End the run, unless a person shall first say what becomes of its result."""
        waits = self._waits(reason)
        said = f"{explanation}; an open result waits for a review" if waits else explanation
        return self._record(Verdict(None, reason, said, at, author, waits))

    def settle(
        self, reason: StopReason, explanation: str, at: datetime, author: str | None = None
    ) -> Decision:
        """End the run by what a person said, or by the end of the wait for one."""
        return self._record(Verdict(None, reason, explanation, at, author))

    def _waits(self, reason: StopReason) -> bool:
        """Tell whether a person shall look at the result; without a draft there is none."""
        wanted = self.request.review_open and reason != "finished_by_person"
        return wanted and self.kept is not None and self.open

    def _known(self) -> dict[int, Reported]:
        """Return the texts and the whole reports of all drafts that were tested, by their index."""
        tested = [each for each in self.drafts if each.report is not None]
        pairs = zip(tested, self.reports, strict=True)
        return {draft.index: Reported(draft.text, report) for draft, report in pairs}

    def _deciding(self) -> Draft | None:
        """Return the draft that a decision is based on: the best where nothing is wrong with it."""
        best = self.kept
        if best is not None and best.report is not None and best.error is None:
            return best
        return self.drafts[-1] if self.drafts else None

    def _slim(self) -> None:
        best = self.kept
        for each in self.drafts[:-1]:
            if best is not None and each.index != best.index:
                self.drafts[each.index] = numbers_alone(each)

    def _amend(self, index: int = -1, **known: object) -> None:
        self.drafts[index] = self.drafts[index].model_copy(update=known)

    def _record(self, verdict: Verdict) -> Decision:
        passed = self.after == "test_code" and self.state.error is None
        newest = self.drafts[-1] if self.drafts else None
        made = decision(verdict, self.after, self.state, self._deciding() if passed else newest)
        self.decisions.append(made)
        return made


def _bounded(passage: Passage) -> Passage:
    return passage.model_copy(update={"text": cut_encoded(passage.text, PASSAGE_BYTES)})


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


def progress(run: Run, step: Step, in_flight: int, review_until: datetime | None) -> Progress:
    """Say where a run stands; `in_flight` is the number of calls under way."""
    last = run.last
    return Progress(
        prompt=run.request.prompt,
        model=_model(run),
        step="finished" if run.stopped else step,
        in_flight=in_flight,
        mode=run.state.mode,
        routing=run.routing,
        sources=run.sources,
        drafts=tuple(run.drafts),
        suite=run.suite,
        quarantined=run.quarantined,
        revisions=run.state.revisions,
        max_revisions=run.allowed,
        usage=run.ledger.used,
        review_until=review_until,
        stop_reason=last.stop_reason if last and last.stop else None,
        warnings=tuple(run.warnings),
    )


def result(run: Run) -> MultiPathResult:
    """Put the result together, once the newest decision ended the run.

    Raises ValueError while the run goes on.
    """
    last, kept = run.last, run.kept
    if last is None or not last.stop or last.stop_reason is None:
        raise ValueError("the run goes on")
    return MultiPathResult(
        output=_output(run, kept),
        mode=run.state.mode,
        stop_reason=last.stop_reason,
        stop_explanation=last.reason,
        open=run.open,
        kept=kept.index if kept else None,
        routing=run.routing,
        sources=run.sources,
        critiques=kept.critiques or () if kept else (),
        suggestions=run.state.suggestions,
        error=kept.error if kept else None,
        suite=run.suite,
        quarantined=run.quarantined,
        forgeable=bool(kept and kept.report and kept.report.forgeable),
        drafts=tuple(run.drafts),
        decisions=tuple(run.decisions),
        revisions=run.state.revisions,
        max_revisions=run.allowed,
        usage=run.ledger.used,
        prompt=run.request.prompt,
        model=_model(run),
        warnings=tuple(run.warnings),
    )


def _output(run: Run, kept: Draft | None) -> str | None:
    """Put a report together with its sources and further considerations; the rest is as it is."""
    if kept is None or kept.mode == "code" or kept.origin == "replaced":
        return kept.text if kept else None
    if run.assembled is not None:
        return run.assembled
    # Histories from before the activities said it.
    return assemble(kept.text, run.state.suggestions, run.sources, run.request.creative)


def _model(run: Run) -> str | None:
    written = [each.model for each in run.drafts if each.model is not None]
    return written[-1] if written else run.request.model
