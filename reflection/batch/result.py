"""The progress and the result of a batch: numbers only, never text."""

from typing import Literal

from pydantic import Field

from reflection.request import Record
from reflection.run import Usage

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


class BatchProgress(Record):
    """Where a batch stands: how many of `total` runs have ended, and how.

    `done` are all that ended, `failed` and `cancelled` among them. Tokens and US dollars are those
    of all runs that ended, None where one is unknown.
    """

    total: int
    done: int
    running: int
    failed: int
    cancelled: int
    tokens: int | None
    cost_usd: float | None
    stop_reason: BatchStopReason | None = None
    warnings: tuple[str, ...] = ()


class BatchResult(Record):
    """Every run of a batch by item, variant and repeat, why it ended, and what it cost.

    Tokens and US dollars are those of all runs that were started, None where one is unknown.
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
    warnings: tuple[str, ...] = ()
