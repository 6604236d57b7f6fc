"""The state of a batch: which run starts next, which have ended, and the result."""

from collections import Counter
from math import fsum
from typing import Any, get_args

from reflection.batch.request import BatchRequest, Planned
from reflection.batch.result import (
    BatchProgress,
    BatchResult,
    BatchRun,
    BatchStopReason,
    RunStatus,
)
from reflection.run import Budget, Spending, Usage, room
from reflection.text import cut_encoded, encoded_size


class Batch:
    """The runs of a batch by their state; `identity` is its workflow's id."""

    def __init__(self, request: BatchRequest, identity: str) -> None:
        self.request = request
        self.in_flight: list[Planned] = []
        self.stop_reason: BatchStopReason | None = None
        self.warnings: list[str] = []
        self._identity = identity
        self._most = request.concurrency
        self._explanation = ""
        self._budget = Budget(request.budget_tokens, request.budget_usd)
        places = {variant.name: place for place, variant in enumerate(request.variants)}
        self._error_bytes = request.error_bytes(encoded_size(identity))
        self._ended = dict[Planned, BatchRun]()
        for run in request.carried:
            planned = Planned(run.item, places[run.variant], run.repeat)
            named = {"workflow_id": run.workflow_id or self.id_of(planned)}
            self._ended[planned] = run.model_copy(update=named)
        self.waiting = [planned for planned in request.plan() if planned not in self._ended]

    @property
    def runs(self) -> tuple[BatchRun, ...]:
        """The runs that have ended, by item, variant and repeat."""
        return tuple(run for _, run in sorted(self._ended.items()))

    def carried(self) -> tuple[BatchRun, ...]:
        """List the runs that have ended for the next history, without what can be told again."""
        ended = dict(sorted(self._ended.items()))
        told = {at: self.id_of(at) == run.workflow_id for at, run in ended.items()}
        short = {"workflow_id": ""}
        return tuple(run.model_copy(update=short if told[at] else {}) for at, run in ended.items())

    @property
    def over(self) -> bool:
        """True once no more runs will be started."""
        return self.stop_reason is not None or not self.waiting

    def id_of(self, planned: Planned) -> str:
        """Name the workflow of a run."""
        name = self.request.variants[planned.variant].name
        return f"{self._identity}/{planned.item}-{name}-{planned.repeat}"

    def summary_of(self, planned: Planned) -> str:
        """Describe a run in a few words, counted from 1."""
        variant = self.request.variants[planned.variant]
        again = f", {planned.repeat + 1} of {variant.repeats}" if variant.repeats > 1 else ""
        return f"item {planned.item + 1} by {variant.name}{again}"

    def next(self) -> Planned | None:
        """Take the run to start now; None if a run in flight has to end first, or none is left."""
        if self.over or len(self.in_flight) >= self._most:
            return None
        held_back = self._no_room()
        if held_back is None:
            self.in_flight.append(self.waiting.pop(0))
            return self.in_flight[-1]
        if not self.in_flight:
            self.stop("budget", held_back)
        return None

    def ended(
        self,
        planned: Planned,
        status: RunStatus,
        usage: Usage | None = None,
        error: str | None = None,
    ) -> None:
        """Record how a run ended."""
        self.in_flight.remove(planned)
        self._ended[planned] = self.run(planned, status, usage, error)

    def run(
        self,
        planned: Planned,
        status: RunStatus,
        usage: Usage | None = None,
        error: str | None = None,
    ) -> BatchRun:
        """Make the record of a run; its error is cut to keep the result small."""
        return BatchRun(
            item=planned.item,
            variant=self.request.variants[planned.variant].name,
            repeat=planned.repeat,
            workflow_id=self.id_of(planned),
            status=status,
            error=None if error is None else cut_encoded(error, self._error_bytes),
            tokens=usage.tokens if usage else None,
            cost_usd=usage.cost_usd if usage else None,
        )

    def stop(self, reason: BatchStopReason, explanation: str) -> None:
        """Start nothing more."""
        self.stop_reason, self._explanation = reason, explanation

    def progress(self) -> BatchProgress:
        """Say where the batch stands."""
        found = Counter(run.status for run in self._ended.values())
        return BatchProgress(
            done=found.total(),
            running=len(self.in_flight),
            failed=found["failed"],
            cancelled=found["cancelled"],
            stop_reason=self.stop_reason,
            **self._so_far(),
        )

    def result(self) -> BatchResult:
        """Build the result once nothing is in flight; runs not started are listed too."""
        if self.stop_reason is None:
            self.stop("completed", f"all {self.request.total:,} runs have ended")
        missing = {planned: self.run(planned, "not_started") for planned in self.waiting}
        runs = tuple(run for _, run in sorted((self._ended | missing).items()))
        found = Counter(run.status for run in runs)
        return BatchResult(
            runs=runs,
            stop_reason=self.stop_reason or "completed",
            stop_explanation=self._explanation,
            **{status: found[status] for status in get_args(RunStatus)},
            **self._so_far(),
        )

    def _no_room(self) -> str | None:
        """Explain why the next run does not fit the budget; None if it does.

        A run without a result is assumed to cost as much as the largest. Until one has a result
        the size of a run is unknown, so runs are made one at a time.
        """
        if self._budget == Budget():
            return None
        known = [run for run in self._ended.values() if run.status == "completed"]
        if not known:
            return "the first run shows how large a run is" if self.in_flight else None
        spent = [
            # A record has tokens in and out together.
            Spending(calls=1, cost_usd=run.cost_usd, input_tokens=run.tokens, output_tokens=0)
            for run in known
        ]
        unknown = len(self._ended) - len(known) + len(self.in_flight)
        fits = room(self._budget, spent + [Spending()] * unknown, 1, what="run")
        return None if fits.calls else fits.reason

    def _so_far(self) -> dict[str, Any]:
        """Return what the ended runs spent (unknown if any of them is), and the warnings."""
        tokens = [run.tokens for run in self._ended.values()]
        costs = [run.cost_usd for run in self._ended.values()]
        return {
            "total": self.request.total,
            "tokens": None if None in tokens else sum(count or 0 for count in tokens),
            "cost_usd": None if None in costs else fsum(cost or 0.0 for cost in costs),
            "warnings": tuple(self.warnings),
        }
