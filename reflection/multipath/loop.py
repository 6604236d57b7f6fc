"""One run of the agent, folded node by node: the state that queries return."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reflection.budget import Budget
from reflection.multipath import state as states
from reflection.multipath.deciding import REASON_BYTES, Verdict, besides, decision
from reflection.multipath.keeping import is_open, kept, numbers_alone
from reflection.multipath.ledger import Ledger
from reflection.multipath.request import MultiPathRequest
from reflection.multipath.result import Decision, Draft, Routing, Source, StopReason
from reflection.multipath.state import Critique, Node, Passage, State
from reflection.multipath.suite import Suite, TestOutcome, TestReport
from reflection.multipath.transition import transition
from reflection.multipath.verdict import Reported, believed, quarantine
from reflection.size import cut_encoded

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
