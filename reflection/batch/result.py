"""The progress and the result of a batch: numbers only, never text."""

from collections import Counter
from collections.abc import Collection
from math import fsum
from typing import Any, Literal

from pydantic import Field

from reflection.request import MOST_LISTED, Finish, Record, Result
from reflection.run import Budget, Usage, room_for

RunStatus = Literal["completed", "failed", "cancelled", "not_started"]
BatchStopReason = Literal["completed", "budget", "finished_by_person"]


class BatchRun(Record):
    """The outcome of one run; read its own result by its `workflow_id`.

    A run that is carried over has no `workflow_id` where it can be told from the batch's.
    `item` and `repeat` count from 0, and `variant` is its name. Tokens in and out together and US
    dollars are None where the provider did not say, and for a run without a result.
    """

    item: int = Field(ge=0)
    variant: str
    repeat: int = Field(ge=0)
    workflow_id: str
    status: RunStatus
    error: str | None = None
    tokens: int | None = None
    cost_usd: float | None = None


class RunResult(Record):
    """The part of a run's result that a batch reads."""

    usage: Usage


class Counts(Record):
    """How runs ended, and what they cost.

    The tokens and US dollars are those that are known; of how many runs they are unknown, and what
    the largest run took, stands beside them.
    """

    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    not_started: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    unknown_tokens: int = 0
    unknown_usd: int = 0
    largest_tokens: int | None = None
    largest_usd: float | None = None

    @classmethod
    def of(cls, runs: Collection[BatchRun]) -> "Counts":
        """Count runs that have ended."""
        tokens = [run.tokens for run in runs if run.tokens is not None]
        costs = [run.cost_usd for run in runs if run.cost_usd is not None]
        return cls(
            **Counter[str](run.status for run in runs),
            tokens=sum(tokens),
            cost_usd=fsum(costs),
            unknown_tokens=len(runs) - len(tokens),
            unknown_usd=len(runs) - len(costs),
            largest_tokens=max(tokens, default=None),
            largest_usd=max(costs, default=None),
        )

    def __add__(self, other: "Counts") -> "Counts":
        sums = dict[str, Any]()
        for name, mine in self:
            known = [size for size in (mine, getattr(other, name)) if size is not None]
            sums[name] = max(known, default=None) if name.startswith("largest") else sum(known)
        return Counts(**sums)

    @property
    def total(self) -> int:
        """The number of runs."""
        return self.completed + self.failed + self.cancelled + self.not_started

    @property
    def shown(self) -> dict[str, Any]:
        """The fields of a progress or a result; what is unknown of one run is unknown of all."""
        return {
            "failed": self.failed,
            "cancelled": self.cancelled,
            "tokens": None if self.unknown_tokens else self.tokens,
            "cost_usd": None if self.unknown_usd else self.cost_usd,
            "known_tokens": self.tokens,
            "known_usd": self.cost_usd,
        }

    def no_room(self, budget: Budget, in_flight: int) -> str | None:
        """Explain why one more run does not fit a budget, beside those in flight; None if it does.

        A run without a result is assumed to cost as much as the largest. Until one has a result
        the size of a run is unknown, so runs are made one at a time.
        """
        if budget == Budget():
            return None
        if not self.completed:
            return "the first run shows how large a run is" if in_flight else None
        for unit, bound, known, unknown, largest in (
            ("tokens", budget.tokens, self.tokens, self.unknown_tokens, self.largest_tokens),
            ("US dollars", budget.usd, self.cost_usd, self.unknown_usd, self.largest_usd),
        ):
            spent = None if largest is None else known + largest * (unknown + in_flight)
            room = room_for(unit, bound, [spent], 1, largest, "run", "a run took up to")
            if not room.calls:
                return room.reason
        return None


class Allowance(Record):
    """What a page may do now: so many runs at once (0: wait), after what others have `spent`.

    `finish` ends it, with the runs in flight cancelled.
    """

    max_concurrency: int
    spent: Counts = Counts()
    finish: Finish | None = None


class PageEnd(Record):
    """How a page ended, as it tells its batch."""

    page: int
    counts: Counts
    stop_reason: BatchStopReason
    stop_explanation: str


class PagesStanding(Record):
    """Where the pages of a batch stand: all of it that a new history needs.

    Of each accepted page there is the digest and the number of its runs. `begun` pages have been
    allowed to make runs; those in flight are kept with the runs that each may make at once.
    """

    accepted: tuple[tuple[str, int], ...] = Field((), max_length=MOST_LISTED)
    begun: int = 0
    in_flight: tuple[tuple[int, int], ...] = Field((), max_length=MOST_LISTED)
    counts: Counts = Counts()
    paused: bool = False
    stop_reason: BatchStopReason | None = None
    stop_explanation: str = ""
    finish: Finish | None = None
    warnings: tuple[str, ...] = Field((), max_length=MOST_LISTED)


class BatchProgress(Record):
    """Where a batch stands: how many of `total` runs have ended, and how.

    `done` are all that ended, `failed` and `cancelled` among them. Tokens and US dollars are those
    of all runs that ended, None where one is unknown, and beside them what is known. Where the
    items come in `pages`, `total` is of those accepted so far, `done` of the pages that have ended,
    and `running` of those under way, which it names: their own progress says how far they are.
    """

    total: int
    done: int
    running: int
    failed: int
    cancelled: int
    tokens: int | None
    cost_usd: float | None
    known_tokens: int = 0
    known_usd: float = 0.0
    stop_reason: BatchStopReason | None = None
    warnings: tuple[str, ...] = ()
    paused: bool = False
    pages: int = 0
    pages_accepted: int = 0
    under_way: tuple[int, ...] = ()


class BatchResult(Result):
    """Every run of a batch by item, variant and repeat, why it ended, and what it cost.

    Tokens and US dollars are those of all runs that were started, None where one is unknown, and
    beside them what is known. Where the items came in pages, the runs are in the results of these,
    and here are their sums.
    """

    runs: tuple[BatchRun, ...]
    stop_reason: BatchStopReason
    stop_explanation: str
    total: int
    completed: int
    failed: int
    cancelled: int
    not_started: int
    tokens: int | None
    cost_usd: float | None
    known_tokens: int = 0
    known_usd: float = 0.0
    warnings: tuple[str, ...] = ()
