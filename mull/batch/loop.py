"""The state of a batch: which run or page begins next, what has ended, and the result."""

from abc import ABC, abstractmethod
from typing import Any

from mull.batch.request import ERROR_BYTES, PAGE_ID, BatchPage, BatchRequest, Planned
from mull.batch.result import (
    Allowance,
    BatchResult,
    BatchRun,
    BatchStopReason,
    PageEnd,
    PagesStanding,
    RunStatus,
    count_runs,
)
from mull.request import Finish
from mull.run import Budget, Counts, Usage
from mull.text import cut_encoded

# Pages under way at once: while the last runs of one end, the other still keeps its places busy.
SIDE_BY_SIDE = 2
# The last ones are kept: a new history begins with them.
WARNINGS = 100


class BatchState(ABC):
    """What is known of a batch, whether it makes runs or has pages that do.

    `identity` is the id of its workflow, and `counts` are of the runs that have ended.
    """

    def __init__(self, request: BatchRequest, identity: str) -> None:
        self.request = request
        self.identity = identity
        stood = request.standing or PagesStanding()
        self.counts, self.warnings, self.finish = stood.counts, stood.warnings, stood.finish
        self.stop_reason, self.stop_explanation = stood.stop_reason, stood.stop_explanation

    def stop(self, reason: BatchStopReason, explanation: str) -> None:
        """Begin nothing more. The first reason counts."""
        if self.stop_reason is None:
            self.stop_reason, self.stop_explanation = reason, explanation

    def finished(self, by: Finish) -> None:
        """Begin nothing more, because a person said so."""
        self.finish = by
        self.stop("finished_by_person", f"finished by {by.author or 'a person'}")

    def warn(self, warning: str) -> None:
        """Add a warning that is not there yet."""
        if warning not in self.warnings:
            self.warnings = (*self.warnings, warning)[-WARNINGS:]

    @abstractmethod
    def progress(self) -> BatchResult:
        """Say where the batch stands."""

    def result(self) -> BatchResult:
        """Build the result once everything has ended that will ever begin."""
        self.stop("completed", f"all {self.progress().total:,} runs have ended")
        return self.progress()

    def _seen(self, total: int, running: int, **known: Any) -> BatchResult:
        counts = self.counts
        done = counts.total - counts.not_started
        return BatchResult(
            stop_reason=self.stop_reason,
            stop_explanation=self.stop_explanation,
            total=total,
            done=done,
            running=running,
            **counts.model_dump(include={"completed", "failed", "cancelled"}),
            not_started=total - done - running,
            # If the usage of one run is unknown, that of all is.
            tokens=None if counts.unknown_tokens else counts.tokens,
            cost_usd=None if counts.unknown_usd else counts.cost_usd,
            known_tokens=counts.tokens,
            known_usd=counts.cost_usd,
            warnings=self.warnings,
            pages=self.request.pages,
            **known,
        )


class Batch(BatchState):
    """The runs of a batch by their state."""

    def __init__(self, request: BatchRequest, identity: str) -> None:
        super().__init__(request, identity)
        self.in_flight: list[Planned] = []
        self._concurrency = request.concurrency
        self._places = {variant.name: place for place, variant in enumerate(request.variants)}
        self.ended_runs = {self._planned(run): run for run in request.carried}
        self.counts = count_runs(self.ended_runs.values())
        self.waiting = [planned for planned in request.plan() if planned not in self.ended_runs]
        self.most = self._concurrency if request.allowed is None else request.allowed
        # A page with nothing left to run waits for its turn, since its batch counts it only then.
        self._held = request.page is not None and self.most == 0
        self._spent = request.spent
        self._budget = Budget(request.budget_tokens, request.budget_usd)

    @property
    def over(self) -> bool:
        """True once every run that will ever be started has ended."""
        begins = self.stop_reason is None and (self.waiting or self._held)
        return not (begins or self.in_flight)

    def id_of(self, planned: Planned) -> str:
        """Name the workflow of a run."""
        name = self.request.variants[planned.variant].name
        return f"{self.identity}/{planned.item}-{name}-{planned.repeat}"

    def summary_of(self, planned: Planned) -> str:
        """Describe a run in a few words, counted from 1."""
        variant = self.request.variants[planned.variant]
        again = f", {planned.repeat + 1} of {variant.repeats}" if variant.repeats > 1 else ""
        return f"item {planned.item + 1} by {variant.name}{again}"

    def next(self) -> Planned | None:
        """Take the run to start now; None if a run in flight has to end first, or none is left."""
        if self.stop_reason or not self.waiting or len(self.in_flight) >= self.most:
            return None
        held_back = (self._spent + self.counts).no_room(self._budget, len(self.in_flight))
        if held_back is None:
            self.in_flight.append(self.waiting.pop(0))
            return self.in_flight[-1]
        if not self.in_flight:
            self.stop("budget", held_back)
        return None

    def allow(self, given: Allowance) -> None:
        """Make so many runs at once from now on, within what is left of the budgets."""
        self.most = min(given.max_concurrency, self._concurrency)
        self._spent, self._held = given.spent, False

    def pause(self, *, paused: bool) -> None:
        """Start no run until it is resumed, or go on."""
        self.most = 0 if paused else self._concurrency

    def going_on(self) -> BatchRequest:
        """Return the request that goes on with it in a new history."""
        carried = tuple(run for _, run in sorted(self.ended_runs.items()))
        known = {"carried": carried, "allowed": self.most, "spent": self._spent}
        return self.request.model_copy(update=known)

    def _planned(self, run: BatchRun) -> Planned:
        return Planned(run.item, self._places[run.variant], run.repeat)

    def ended(self, run: BatchRun) -> None:
        """Record a run in flight that has ended."""
        planned = self._planned(run)
        self.in_flight.remove(planned)
        self.ended_runs[planned] = run
        self.counts += count_runs([run])

    def run(
        self,
        planned: Planned,
        status: RunStatus,
        usage: Usage | None = None,
        error: str | None = None,
    ) -> BatchRun:
        """Make the record of a run, without its id; its error is cut to keep the result small."""
        return BatchRun(
            item=planned.item,
            variant=self.request.variants[planned.variant].name,
            repeat=planned.repeat,
            workflow_id="",
            status=status,
            error=None if error is None else cut_encoded(error, ERROR_BYTES),
            tokens=usage.tokens if usage else None,
            cost_usd=usage.cost_usd if usage else None,
        )

    def progress(self) -> BatchResult:
        """Say where the batch stands, without its runs."""
        return self._seen(self.request.total, len(self.in_flight), paused=self.most == 0)

    def page_end(self) -> PageEnd:
        """Say how this page ended, with every run that did not begin."""
        return PageEnd(
            page=self.request.page or 0,
            counts=self.counts + Counts(not_started=len(self.waiting)),
            stop_reason=self.stop_reason or "completed",
            stop_explanation=self.stop_explanation,
        )

    def result(self) -> BatchResult:
        """Build the result once nothing is in flight; runs not started are listed too."""
        missing = {planned: self.run(planned, "not_started") for planned in self.waiting}
        runs = tuple(
            run if run.workflow_id else run.model_copy(update={"workflow_id": self.id_of(planned)})
            for planned, run in sorted((self.ended_runs | missing).items())
        )
        return super().result().model_copy(update={"runs": runs})


class Pages(BatchState):
    """The pages of a batch by their numbers; their items are in their own workflows.

    `accepted` has the digest of each page and the number of its runs, `begun` is how many were
    allowed to make runs, and `in_flight` how many runs each of those may make at once.
    """

    def __init__(self, request: BatchRequest, identity: str) -> None:
        super().__init__(request, identity)
        stood = request.standing or PagesStanding()
        self.accepted, self.in_flight = list(stood.accepted), dict(stood.in_flight)
        self.begun, self.paused = stood.begun, stood.paused

    @property
    def over(self) -> bool:
        """True once every page that will ever be here has ended."""
        complete = self.stop_reason is not None or len(self.accepted) == self.request.pages
        return complete and self.begun == len(self.accepted) and not self.in_flight

    @property
    def waits(self) -> bool:
        """True while it is paused, and nothing is to be done."""
        return self.paused and self.stop_reason is None

    def id_of(self, number: int) -> str:
        """Name the workflow of a page."""
        return self.identity + PAGE_ID.format(number)

    def has(self, page: BatchPage) -> bool:
        """True if this very page is here already."""
        known = self.accepted[page.number : page.number + 1]
        return bool(known) and known[0][0] == page.digest

    def refuses(self, page: BatchPage) -> str | None:
        """Say why a page can't be accepted; None if it can, or is here already."""
        here = len(self.accepted)
        if page.number < here:
            other = f"page {page.number} is here already, with other items"
            return None if self.has(page) else other
        if self.stop_reason is not None:
            return f"the batch has stopped: {self.stop_explanation}"
        if page.number >= self.request.pages:
            return f"page {page.number}: the batch has {self.request.pages:,} pages, from 0"
        if page.number > here:
            return f"page {page.number}: page {here} comes first"
        try:
            self.request.of_page(page).check()
        except ValueError as error:
            return str(error)
        return None

    def accept(self, page: BatchPage) -> None:
        """Take a page that is held in its own workflow."""
        self.accepted.append((page.digest, self.request.of_page(page).total))

    def next(self) -> int | None:
        """Take the page that may make runs now, or be told to end; None if there is none."""
        whole = self.request.max_concurrency
        bounded = self.request.budget_tokens is not None or self.request.budget_usd is not None
        # The budget left to a page is known once the page before it has ended.
        lanes = 1 if bounded else min(SIDE_BY_SIDE, self.request.pages, whole)
        if self.waits or len(self.in_flight) >= lanes or self.begun == len(self.accepted):
            return None
        number = self.begun
        share = min(whole - sum(self.in_flight.values()), -(-whole // lanes))
        self.begun, self.in_flight[number] = number + 1, share
        return number

    def allowance(self, number: int) -> Allowance:
        """Say what a page in flight may do now."""
        share = 0 if self.waits else self.in_flight[number]
        return Allowance(max_concurrency=share, spent=self.counts, finish=self.finish)

    def ended(self, end: PageEnd) -> None:
        """Add a page's runs to the sums, once."""
        if self.in_flight.pop(end.page, None) is not None:
            self.counts += end.counts
            if end.stop_reason == "budget":
                self.stop("budget", end.stop_explanation)

    def lost(self, number: int) -> None:
        """Count all runs of a page as failed if its workflow ended without a report."""
        runs = self.accepted[number][1]
        self.warn(f"the workflow {self.id_of(number)} ended without a report")
        del self.in_flight[number]
        self.counts += Counts(failed=runs, unknown_tokens=runs, unknown_usd=runs)

    def pause(self, *, paused: bool) -> None:
        """Start no run until it is resumed, or go on."""
        self.paused = paused

    def finished(self, by: Finish) -> None:
        """End all pages, and cancel their runs in flight; where all have ended it is too late."""
        if not self.over:
            super().finished(by)

    def progress(self) -> BatchResult:
        """Say where the batch stands."""
        return self._seen(
            sum(runs for _, runs in self.accepted),
            sum(self.accepted[number][1] for number in self.in_flight),
            paused=self.paused,
            pages_accepted=len(self.accepted),
            under_way=tuple(self.in_flight),
        )

    def going_on(self) -> BatchRequest:
        """Return the request that goes on with it in a new history."""
        known = {name: getattr(self, name) for name in PagesStanding.model_fields}
        known |= {"in_flight": tuple(self.in_flight.items())}
        return self.request.model_copy(update={"standing": PagesStanding(**known)})
