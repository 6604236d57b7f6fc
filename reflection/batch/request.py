"""The request of a batch."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import FailFast, Field, JsonValue, StringConstraints, model_validator
from pydantic_core import to_json

from reflection.batch.result import BatchRun
from reflection.critique.request import ReflectOnResultRequest
from reflection.request import Frozen, Request, explain, parse_request
from reflection.sampling.request import SelfConsistencyRequest

# The largest event is 512 KiB: the request, which carries every run's record when it continues as
# new, and the result, in which each record has an id.
EVENT_BYTES = 500_000
RUNS = 2_000
# The bytes of a record with the largest numbers, without its id and its variant's name. One that
# failed has no numbers, and an error in their place.
RECORD_BYTES = 150
NUMBERS_BYTES = 30
ERROR_BYTES = 120
ID_BYTES = range(48, 101)
# Several runs are started by one message to the server, of at most 4 MB.
STARTED_BYTES = 2_500_000

RunType = Literal["ReflectOnResultWorkflow", "SelfConsistencyWorkflow"]
REQUESTS: dict[RunType, type[Request]] = {
    "ReflectOnResultWorkflow": ReflectOnResultRequest,
    "SelfConsistencyWorkflow": SelfConsistencyRequest,
}

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")]
Item = dict[str, str]


class Variant(Frozen):
    """One way to run every item: the workflow's type, its request, and how often.

    `takes` names the fields of the request that come from the item: `{"query": "question"}` sets
    `query` to the item's `question`. `name` becomes part of the ids of its runs.
    """

    name: Name
    workflow: RunType
    request: dict[str, JsonValue] = Field(default_factory=dict)
    takes: dict[str, str] = Field(min_length=1)
    repeats: int = Field(1, ge=1, le=100)

    def fields_for(self, item: Item) -> dict[str, JsonValue]:
        """Return the request of a run with this item."""
        return {**self.request, **{field: item[taken] for field, taken in self.takes.items()}}


class Planned(NamedTuple):
    """One planned run, by positions counted from 0."""

    item: int
    variant: int
    repeat: int


class BatchRequest(Request):
    """Every item by every variant, with the variant's repeats, and the limits of the batch.

    At most `max_concurrency` runs are in flight. Budgets limit the tokens (in and out together)
    and US dollars of all runs: a run is not started if it would exceed them at the cost of the
    largest run so far. `carried` are runs that have already ended and are not repeated. After
    `runs_per_execution` runs, or when the server suggests it, the batch continues as new, to keep
    its history short.
    """

    subject_field = "items"

    items: Annotated[tuple[Item, ...], FailFast()] = Field(min_length=1)
    variants: Annotated[tuple[Variant, ...], FailFast()] = Field(min_length=1, max_length=50)
    max_concurrency: int = Field(4, ge=1, le=32, description="Runs at once, at most.")
    budget_tokens: int | None = Field(None, ge=1, description="Tokens in and out together.")
    budget_usd: float | None = Field(None, gt=0, allow_inf_nan=False, description="US dollars.")
    runs_per_execution: int = Field(500, ge=1, le=RUNS)
    carried: Annotated[tuple[BatchRun, ...], FailFast()] = Field((), max_length=RUNS)

    @property
    def total(self) -> int:
        """The number of runs."""
        return len(self.items) * sum(variant.repeats for variant in self.variants)

    @property
    def concurrency(self) -> int:
        """The most runs in flight: `max_concurrency`, or fewer to fit one message."""
        items = max(map(_size, self.items))
        variants = max(map(_size, self.variants))
        return max(1, min(self.max_concurrency, STARTED_BYTES // (items + variants)))

    @property
    def given_bytes(self) -> int:
        """The bytes of the items and the variants."""
        return _size(self.items) + _size(self.variants)

    @property
    def record_bytes(self) -> int:
        """The most bytes of all records without ids."""
        each = (variant.repeats * (RECORD_BYTES + len(variant.name)) for variant in self.variants)
        return len(self.items) * sum(each)

    @property
    def id_bytes(self) -> int:
        """The most bytes of the batch's id, with which the ids of its runs begin."""
        left = EVENT_BYTES - self.record_bytes
        return min(ID_BYTES[-1], left // self.total - self._place_bytes)

    def error_bytes(self, id_bytes: int) -> int:
        """Return the most bytes of a run's error, beside a batch's id of so many bytes."""
        ids = self.total * (id_bytes + self._place_bytes)
        left = EVENT_BYTES - self.record_bytes - max(self.given_bytes, ids)
        return min(ERROR_BYTES, NUMBERS_BYTES + left // self.total)

    @property
    def _place_bytes(self) -> int:
        return max(len(f"/{len(self.items)}-{variant.name}-99") for variant in self.variants)

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

    @model_validator(mode="after")
    def _small(self) -> Self:
        if self.total > RUNS:
            raise ValueError(f"{self.total:,} runs exceed the limit of {RUNS:,}")
        most = EVENT_BYTES - max(self.record_bytes, _size(self.carried))
        if self.given_bytes > most:
            given = f"{self.given_bytes:,} bytes of items and variants"
            raise ValueError(f"{given} exceed the limit of {most:,} beside {self.total:,} runs")
        if self.id_bytes < ID_BYTES[0]:
            raise ValueError(f"{self.total:,} runs need shorter names of their variants")
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = [variant.name for variant in self.variants]
        if len(set(names)) < len(names):
            raise ValueError("two variants have the same name")
        if any(run.variant not in names or run.item >= len(self.items) for run in self.carried):
            raise ValueError("carried: a run names an unknown item or variant")
        for variant in self.variants:
            self._check(variant)
        return self

    def _check(self, variant: Variant) -> None:
        twice = sorted(variant.takes.keys() & variant.request.keys())
        if twice:
            raise ValueError(f"variant {variant.name}: {twice[0]} is in both request and takes")
        for place, item in enumerate(self.items):
            missing = sorted(set(variant.takes.values()) - item.keys())
            if missing:
                raise ValueError(f"item {place} has no {missing[0]}, which {variant.name} takes")
            try:
                fields = json.dumps(variant.fields_for(item))
                parse_request(REQUESTS[variant.workflow], fields)
            except ValueError as error:
                said = f"variant {variant.name} with item {place}: {explain(error)}"
                raise ValueError(said) from None


def _size(value: object) -> int:
    return len(to_json(value))
