"""The request of a batch."""

from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import FailFast, Field, JsonValue, StringConstraints, model_validator
from pydantic_core import to_json

from mull.agents.request import ReflexionRequest
from mull.batch.result import BatchRun, PagesStanding
from mull.critique.request import ReflectOnResultRequest
from mull.multipath.request import MultiPathRequest
from mull.option import bound_option
from mull.request import MOST_MEMBERS, TASK_TIMEOUT, Frozen, Request, parse_request
from mull.run import Counts
from mull.sampling.request import SelfConsistencyRequest
from mull.turn.request import ToolTurnRequest

# The largest event is 512 KiB: a request with its items, its variants, and the record of each run
# where it goes on in a new history.
EVENT_BYTES = 500_000
RUNS = 500
RECORD_BYTES = 275
ERROR_BYTES = 120
# The ids of the runs begin with the batch's, and stand in the result's records.
ID_BYTES = 100
# A page is in three events of its batch and its own history.
PAGES = 5_000
PAGE_ITEMS = 500
PAGE_BYTES = 250_000
SHARED_BYTES = 150_000
PAGE_ID = "/page-{}"
# A page was sent to a history that ends: it is sent again.
BATCH_CONTINUES = "BatchContinues"
# Several runs are started by one message to the server, of at most 4 MB.
STARTED_BYTES = 2_500_000

RunType = Literal[
    "ReflectOnResultWorkflow", "SelfConsistencyWorkflow", "MultiPathWorkflow", "ToolTurnWorkflow",
    "ReflexionWorkflow",
]  # fmt: skip
REQUESTS: dict[RunType, type[Request]] = {
    "MultiPathWorkflow": MultiPathRequest,
    "ToolTurnWorkflow": ToolTurnRequest,
    "ReflexionWorkflow": ReflexionRequest,
    "ReflectOnResultWorkflow": ReflectOnResultRequest,
    "SelfConsistencyWorkflow": SelfConsistencyRequest,
}

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")]
Item = Annotated[dict[str, JsonValue], Field(max_length=MOST_MEMBERS)]
# A line is known by its id and compared with its gold; they are not fields of a request.
LABELS = ("id", "gold")


class Variant(Frozen):
    """One way to run every item: the workflow's type, its request, and how often.

    `takes` names the fields of the request that come from the item: `{"query": "question"}` sets
    `query` to the item's `question`. Without it all of the item is put into the request, but for
    its `id` and `gold`. `name` becomes part of the ids of its runs.
    """

    name: Name
    workflow: RunType
    request: Item = Field(default_factory=dict)
    takes: dict[str, str] | None = Field(default=None, min_length=1, max_length=MOST_MEMBERS)
    repeats: int = Field(default=1, ge=1, le=100)

    def fields_for(self, item: Item) -> dict[str, JsonValue]:
        """Return the request of a run with this item."""
        takes = self.takes or {name: name for name in item if name not in LABELS}
        given = {field: item[taken] for field, taken in takes.items() if taken in item}
        return {**self.request, **given}

    def request_for(self, item: Item) -> Any:
        """Build the request of a run with this item. Raises ValueError if it is wrong."""
        fields = to_json(self.fields_for(item), inf_nan_mode="constants")
        return parse_request(REQUESTS[self.workflow], fields)


class Planned(NamedTuple):
    """One planned run, by positions counted from 0."""

    item: int
    variant: int
    repeat: int


class BatchPage(Request):
    """A part of a batch's items, by its number from 0; `carried` are runs that need not be made."""

    number: int = Field(ge=0, lt=PAGES)
    items: Annotated[tuple[Item, ...], FailFast()] = Field(min_length=1, max_length=PAGE_ITEMS)
    carried: Annotated[tuple[BatchRun, ...], FailFast()] = Field(default=(), max_length=RUNS)

    @property
    def digest(self) -> str:
        """A digest of the items, by which the same page is known again."""
        return sha256(to_json(self.items)).hexdigest()[:16]

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if (size := _size(self.items)) > PAGE_BYTES:
            raise ValueError(f"{size:,} bytes of items; a page has at most {PAGE_BYTES:,}")
        return self


class BatchRequest(Request):
    """Every item by every variant, with the variant's repeats, and the limits of the batch.

    The items are here, for at most 500 runs, or come later in as many `pages` as it says, by the
    update `add_page`; each page is the batch of a child workflow, which has its number as `page`. A
    run whose request is wrong fails by itself. `digest` is whatever its client knows the items
    again by. `allowed` bounds the runs at once until an update changes it (0: it is held), `spent`
    is what the pages before it cost, and `standing` where the pages stood in an earlier history.

    At most `max_concurrency` runs are in flight. Budgets limit the tokens (in and out together)
    and US dollars of all runs: a run is not started if it would exceed them at the cost of the
    largest run so far. `carried` are runs that have already ended and are not repeated. After
    `runs_per_execution` runs, or when the server suggests it, the batch continues as new, to keep
    its history short.
    """

    subject_field = "items"

    items: Annotated[tuple[Item, ...], FailFast()] = Field(default=(), max_length=RUNS)
    variants: Annotated[tuple[Variant, ...], FailFast()] = Field(
        min_length=1,
        max_length=50,
        description="Ways to run every item: a name, a workflow's type, and fields of its request.",
    )
    max_concurrency: int = bound_option(4, "Runs at once, at most.", common=True, ge=1, le=32)
    budget_tokens: int | None = bound_option(
        None, "The most tokens, in and out, of all runs together.", ge=1
    )
    budget_usd: float | None = bound_option(
        None, "The most US dollars, of all runs together.", common=True, gt=0, allow_inf_nan=False
    )
    runs_per_execution: int = Field(default=500, ge=1, le=2_000)
    carried: Annotated[tuple[BatchRun, ...], FailFast()] = Field(default=(), max_length=RUNS)
    pages: int = Field(default=0, ge=0, le=PAGES)
    page: int | None = Field(default=None, ge=0, lt=PAGES)
    digest: str | None = Field(default=None, max_length=100)
    allowed: int | None = Field(default=None, ge=0)
    spent: Counts = Counts()
    standing: PagesStanding | None = None

    def of_page(self, page: BatchPage) -> "BatchRequest":
        """Return the request of a page's own batch, which is held."""
        own = {"items": page.items, "carried": page.carried, "page": page.number, "allowed": 0}
        return self.model_copy(update={**own, "pages": 0, "standing": None, "digest": None})

    def task_timeout(self) -> timedelta | None:
        """Return a short one only where the items are in one piece: pages are not bounded."""
        return TASK_TIMEOUT if self.items else None

    @property
    def total(self) -> int:
        """The number of runs, but for those of its pages."""
        return len(self.items) * sum(variant.repeats for variant in self.variants)

    @property
    def concurrency(self) -> int:
        """The most runs in flight: `max_concurrency`, or fewer to fit one message."""
        items = max(map(_size, self.items), default=0)
        variants = max(map(_size, self.variants))
        return max(1, min(self.max_concurrency, STARTED_BYTES // (items + variants)))

    def plan(self) -> Iterator[Planned]:
        """Yield every run in starting order.

        Variants take turns, and each item starts with a different one, so that a slow hour at a
        provider affects all variants equally.
        """
        count = len(self.variants)
        most = max(variant.repeats for variant in self.variants)
        for repeat, item, turn in product(range(most), range(len(self.items)), range(count)):
            variant = (item + repeat + turn) % count
            if repeat < self.variants[variant].repeats:
                yield Planned(item, variant, repeat)

    def fields_of(self, planned: Planned) -> dict[str, JsonValue]:
        """Return the request of a planned run."""
        return self.variants[planned.variant].fields_for(self.items[planned.item])

    def check(self) -> Self:
        """Raise ValueError where the parts do not fit together, or are too large."""
        if bool(self.items) == bool(self.pages):
            raise ValueError("items: give some, or the number of pages in which they come")
        if self.total > RUNS:
            raise ValueError(f"{self.total:,} runs exceed the limit of {RUNS:,}")
        shared = _size(self.variants)
        if self.pages and shared > SHARED_BYTES:
            raise ValueError(f"variants: {shared:,} bytes; with pages at most {SHARED_BYTES:,}")
        given, most = shared + _size(self.items), EVENT_BYTES - RECORD_BYTES * self.total
        if given > most:
            said = f"{given:,} bytes of items and variants exceed the limit of {most:,}"
            raise ValueError(f"{said} beside {self.total:,} runs")
        if max(map(_size, self.carried), default=0) > RECORD_BYTES:
            raise ValueError(f"carried: a run with over {RECORD_BYTES} bytes")
        names = {variant.name for variant in self.variants}
        if len(names) < len(self.variants):
            raise ValueError("two variants have the same name")
        if any(run.variant not in names or run.item >= len(self.items) for run in self.carried):
            raise ValueError("carried: a run names an unknown item or variant")
        for variant in self.variants:
            if twice := sorted((variant.takes or {}).keys() & variant.request.keys()):
                said = f"variant {variant.name}: {twice[0]} is in both request and takes"
                raise ValueError(said)
        return self

    _checked = model_validator(mode="after")(check)


def _size(value: object) -> int:
    return len(to_json(value))
