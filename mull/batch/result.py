"""The progress and the result of a batch, in one record: numbers only, never text."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Literal, Self, get_args

from pydantic import Field

from mull.drafts import Result
from mull.request import MOST_LISTED, Finish, Record
from mull.run import Counts, Usage
from mull.text import tally_words

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


# The counts of a batch to which its pages under way add theirs.
SUMMED = *get_args(RunStatus), "done", "running", "tokens", "cost_usd", "known_tokens", "known_usd"


class RunResult(Record):
    """The part of a run's result that a batch reads."""

    usage: Usage


def count_runs(runs: Collection[BatchRun]) -> Counts:
    """Count runs that have ended."""
    costs = [(run.tokens, run.cost_usd) for run in runs]
    return Counts.of(costs, **Counter[str](run.status for run in runs))


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


class BatchResult(Result):
    """Where a batch stands, and in the end its result: how its runs ended, and what they cost.

    Of `total` runs so many are `done`, failed and cancelled ones among them, `running`, or
    `not_started` so far. Tokens and US dollars are those of all runs that ended, None where one is
    unknown, and beside them what is known. In the end `runs` has every run by item, variant and
    repeat. Where the items come in `pages`, their own results have these; `total` is then of those
    accepted so far, `done` of the pages that have ended, and `running` of those under way, which it
    names: their own progress says how far they are.
    """

    runs: tuple[BatchRun, ...] = ()
    stop_reason: BatchStopReason | None = None
    stop_explanation: str = ""
    total: int
    done: int = 0
    running: int = 0
    completed: int
    failed: int
    cancelled: int
    not_started: int
    tokens: int | None
    cost_usd: float | None
    known_tokens: int = 0
    known_usd: float = 0.0
    warnings: tuple[str, ...] = ()
    paused: bool = False
    pages: int = 0
    pages_accepted: int = 0
    under_way: tuple[int, ...] = ()

    @property
    def ended(self) -> bool:
        """True once no run goes on, and no more will be started."""
        return self.stop_reason is not None and not (self.running or self.under_way)

    @property
    def doubt(self) -> str:
        """Say how many runs have no result; what those with one are worth, their own say."""
        without = self.total - self.completed
        cut = f" ({self.stop_explanation})" * (self.stop_reason == "budget")
        said = f"{without:,} of {tally_words(self.total, 'run')} without a result{cut}"
        return said if without else ""

    def with_pages(self, pages: Iterable[Self]) -> Self:
        """Add the counts of its pages under way, which it counts as running until they end."""
        parts = [self.model_copy(update={"running": 0}), *pages]
        counts = {name: [getattr(part, name) for part in parts] for name in SUMMED}
        sums = {name: None if None in each else sum(each) for name, each in counts.items()}
        return self.model_copy(update=sums)
