"""The list of runs: which are listed, what a row has of each, and how it is said."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from commands.found import status_words
from commands.terminal import SUBJECT_COLUMNS
from mull.client import ASKED
from mull.errors import MullError
from mull.handle import Run
from mull.keys import UnreadableError
from mull.loops import BATCH, BY_WORKFLOW, SESSION, TURN
from mull.text import quoted, tally_words, terminal_safe

SHOWN = (
    "MullStopReason",
    "MullConfidence",
    "MullScore",
    "MullUncertainty",
    "MullSamples",
    "MullRevisions",
    "MullCostUsd",
    "MullNeedsReview",
)
# What MullRevisions counts, for results without an agreement or a score.
COUNTED = {
    "MultiPathWorkflow": "draft",
    "ReflexionWorkflow": "episode",
    "RetroformerWorkflow": "episode",
}
# A list has to appear quickly: a batch that does not answer within this time is shown as running.
PATIENCE_SECONDS = 2
# Runs of a list for which the server is asked for more, and turns of a session that it shows.
MOST_READ = 20
# A server retries for long to read a token that it did not make.
LIST = timedelta(seconds=10)
PARENT = "ParentWorkflowId"
# A child is not listed by itself, unless it is a turn of a session that waits for a person.
WAITING = "MullNeedsReview = true AND ExecutionStatus = 'Running'"
WAITING_CHILDREN = f"({PARENT} IS NULL OR ({WAITING}))"
HERE = "ExecutionStatus != 'ContinuedAsNew'"

Row: TypeAlias = Mapping[str, Any]


class Listed(NamedTuple):
    """Rows of a list, and the server's token for those behind them, if there are any."""

    rows: list[Row]
    token: bytes | None = None


async def list_runs(
    client: Client,
    where: str | None,
    limit: int,
    token: bytes | None = None,
    *,
    texts: bool = False,
) -> Listed | None:
    """List runs for which a filter of Temporal's holds; None if the server can't read it.

    Those that go on come first, then those that ended last. A `token` goes on where an earlier
    list ended. With `texts`, encrypted texts are decrypted and shown.
    """
    types = ", ".join(f"'{name}'" for name in BY_WORKFLOW)
    parts = [f"WorkflowType IN ({types})", f"({where})" if where else HERE]
    children = where is not None and PARENT in where
    filters = [parts] if children else [[*parts, WAITING_CHILDREN], [*parts, f"{PARENT} IS NULL"]]
    # The search attributes may not be registered on this server.
    for known in filters:
        found = client.list_workflows(
            " AND ".join(known),
            limit=limit,
            page_size=limit,
            next_page_token=token,
            rpc_timeout=LIST,
        )
        try:
            listed = [run async for run in found]
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            continue
        made = (
            _row(client, run, newest=at < MOST_READ, texts=texts) for at, run in enumerate(listed)
        )
        return Listed(await asyncio.gather(*made), found.next_page_token or None)
    return None


async def batches_done(client: Client, rows: Sequence[Row]) -> dict[str, str]:
    """Query the progress of all open batches concurrently; return it by run id."""

    async def far(row: Row) -> tuple[str, str] | None:
        batch = Run[Any].of(client, BATCH, row["id"], run_id=row["run_id"])
        # A list needs no key.
        with suppress(UnreadableError):
            if seen := await batch.glance(timedelta(seconds=PATIENCE_SECONDS)):
                return row["run_id"], f"{seen.done:,}/{seen.total:,} done"
        return None

    batches = [row for row in rows if row["workflow"] == BATCH.workflow]
    running = [row for row in batches if row["status"] == "running"]
    return dict(found for found in await asyncio.gather(*map(far, running)) if found)


async def _row(client: Client, run: WorkflowExecution, *, newest: bool, texts: bool = False) -> Row:
    """Make a row; only for the `newest` runs the server is asked for more than the list has."""
    # The command's list needs no key, and shows no text that is encrypted.
    clear = texts or client.data_converter.payload_codec is None
    found = {pair.key.name: pair.value for pair in run.typed_search_attributes}
    loop = BY_WORKFLOW[run.workflow_type]
    asked = doubt = turns = probability = None
    # The SDK raises a KeyError for an unknown encoding, and a codec any error.
    with suppress(UnreadableError, MullError, RPCError, ValueError, KeyError, RuntimeError):
        if clear:
            asked = await run.memo_value(ASKED, None, type_hint=str)
            doubt = await run.memo_value("doubt", None, type_hint=str)
            probability = await run.memo_value("probability_right", None, type_hint=float)
        if newest and loop is SESSION:
            its = f"WorkflowType = '{TURN.workflow}' AND {PARENT} = {quoted(run.id)}"
            turns = [turn.id async for turn in client.list_workflows(its, limit=MOST_READ)]
        elif newest and clear and not asked and loop is not BATCH:
            # It was started by another client: its history has what it was asked.
            request = await Run[Any].of(client, loop, run.id, run_id=run.run_id).request()
            about = request and getattr(request, request.subject_field)
            asked = about and terminal_safe(about, SUBJECT_COLUMNS)
    return {
        "id": run.id,
        "run_id": run.run_id,
        "workflow": run.workflow_type,
        "status": status_words(run.status),
        "started": run.start_time.isoformat(timespec="seconds"),
        "asked": asked,
        "turns": turns,
        "doubt": doubt,
        "probability": probability,
        **{name: found.get(name) for name in SHOWN},
    }


def waits(row: Row) -> bool:
    """Tell whether a run waits for a person."""
    return bool(row["status"] == "running" and row["MullNeedsReview"])


def standing_words(row: Row) -> str | None:
    """Say how a run ended, or that it waits for a person or goes on."""
    if waits(row):
        return "needs review"
    found: str | None = row["MullStopReason"] if row["status"] == "completed" else row["status"]
    return found


def result_words(row: Row) -> str:
    """Return the measure that fits a run: probability, agreement, score, drafts or episodes."""
    if row.get("probability") is not None:
        return f"probability {row['probability']:.2f}"
    if row["MullConfidence"] is not None:
        return f"agreement {row['MullConfidence']:.2f}"
    if row["MullScore"] is not None:
        return f"score {row['MullScore']:.2f}"
    counted, count = COUNTED.get(row["workflow"]), row["MullRevisions"]
    return "-" if counted is None or count is None else tally_words(count, counted)
