"""How a run stands while it goes on: its record, and the answer that a turn writes."""

import base64
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeAlias

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError

from mull.batch.request import PAGE_ID
from mull.batch.result import BatchResult
from mull.connection import DATA_CONVERTER, STREAM_POLL
from mull.loops import BATCH, Loop
from mull.text import FITTED_DECISIONS
from mull.turn.conversation import StreamedText

Handle: TypeAlias = WorkflowHandle[Any, Any]

LOOK = timedelta(seconds=10)
# The counts of a batch to which its pages under way add theirs.
SUMMED = (
    "done", "running", "completed", "failed", "cancelled", "not_started",
    "tokens", "cost_usd", "known_tokens", "known_usd",
)  # fmt: skip
# A workflow task that failed more often than this needs a key, or other code.
FEW_TRIES = 2


async def look(handle: Handle, loop: Loop, patience: timedelta = LOOK) -> Any:
    """Query the record of a run, open or closed; None if no worker answers.

    If earlier decisions may have been left out, they are queried too: a live view shows them all.
    """
    try:
        seen = await handle.query("progress", result_type=loop.result, rpc_timeout=patience)
        if loop is BATCH:
            seen = await _with_pages(handle, seen, patience)
        elif len(seen.decisions) == FITTED_DECISIONS:
            kind: Any = loop.result.model_fields["decisions"].annotation
            every = await handle.query("decisions", result_type=kind, rpc_timeout=patience)
            seen = seen.model_copy(update={"decisions": every})
    except (RPCError, WorkflowQueryFailedError):
        return None
    return seen


class LiveAnswer:
    """The answer of a turn while it is written.

    It is read by queries, which history does not keep: each poll by an update would stay in it.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle, self._offset, self._written = handle, 0, StreamedText(step=0)

    async def read(self) -> str:
        """Return what is written so far of the newest attempt; as before if no worker answers."""
        try:
            known = {"from_offset": self._offset}
            found = await self._handle.query(STREAM_POLL, known, rpc_timeout=LOOK)
        except (RPCError, WorkflowQueryFailedError):
            return self._written.text
        for item in found["items"]:
            # Anything else was not published by Mull.
            with suppress(Exception):
                payload = Payload.FromString(base64.b64decode(item["data"]))
                piece = DATA_CONVERTER.payload_converter.from_payload(payload, StreamedText)
                self._written = self._written.then(piece)
        self._offset = found["next_offset"]
        return self._written.text


async def _with_pages(handle: Handle, whole: BatchResult, patience: timedelta) -> BatchResult:
    """Add the counts of the pages under way: a batch itself hears only of pages that have ended."""
    if not whole.under_way:
        return whole
    parts, sums = [whole.model_copy(update={"running": 0})], dict[str, Any]()
    for number in whole.under_way:
        # No public attribute of a handle leads to another workflow.
        page = handle._client.get_workflow_handle(handle.id + PAGE_ID.format(number))
        parts.append(await page.query("progress", result_type=BatchResult, rpc_timeout=patience))
    for name in SUMMED:
        counted = [getattr(part, name) for part in parts]
        sums[name] = None if None in counted else sum(counted)
    return whole.model_copy(update=sums)


def stuck_words(described: WorkflowExecutionDescription) -> str | None:
    """Say that a worker fails at a run again and again; None if that is not so."""
    tries = described.raw_description.pending_workflow_task.attempt
    said = f"the worker can't go on with this run (attempt {tries}): its log says why"
    return said if tries > FEW_TRIES else None
