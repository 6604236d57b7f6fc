"""Notify a webhook that a run waits for a person, or that it failed."""

import hmac
import json
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal

from temporalio import activity
from temporalio.client import WorkflowExecutionStatus, WorkflowHistoryEventFilterType
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from mull.connection import TASK_QUEUE
from mull.request import Request


class Notice(Request):
    """The facts of a run for a webhook, without any of its text. `id` is the notice's own."""

    id: str
    event: Literal["waiting", "failed"]
    workflow_id: str
    run_id: str
    workflow_type: str
    time: datetime
    stop_reason: str | None = None
    error_type: str | None = None


STATUS = {"waiting": WorkflowExecutionStatus.RUNNING, "failed": WorkflowExecutionStatus.FAILED}
Post = Callable[[bytes, dict[str, str]], Awaitable[int]]
"""Posts a body with headers, and returns the status. Raises OSError, which says why it failed."""


def signature(secret: str, at: int, body: bytes) -> str:
    """Sign a body at a time in Unix seconds, by HMAC-SHA256, as the header `Mull-Signature`."""
    signed = hmac.digest(secret.encode(), b"%d.%b" % (at, body), "sha256")
    return f"t={at},v1={signed.hex()}"


class WebhookActivities:
    """Posts notices, signed; `page` gives a run's address in the Web UI, where that is known."""

    def __init__(self, post: Post, secret: str, page: Callable[[str, str], str | None]) -> None:
        self._post = post
        self._secret = secret
        self._page = page

    @activity.defn
    async def send_notice(self, notice: Notice) -> None:
        """Post a notice once. Raises ApplicationError unless the receiver accepts it."""
        if (known := await _verified(notice)) is None:
            return
        link = self._page(known.workflow_id, known.run_id)
        body = json.dumps(known.model_dump(mode="json") | {"link": link}).encode()
        signed = signature(self._secret, int(time.time()), body)
        headers = {"Content-Type": "application/json", "Mull-Signature": signed}
        try:
            status = await self._post(body, headers)
            why = "" if 200 <= status < 300 else f"the receiver answered with {status}"
        except OSError as error:
            why = str(error)
        if why:
            activity.logger.warning("the webhook was not notified: %s", why)
            # The SDK does not log this category: a traceback would add nothing to that line.
            benign = ApplicationErrorCategory.BENIGN
            raise ApplicationError(why, type="WebhookError", category=benign)


async def _verified(notice: Notice) -> Notice | None:
    """Return the notice with the server's facts of its run; None if the run is in another state.

    Raises ApplicationError unless a run that Mull's workers serve started this one as its child.
    """
    info, client = activity.info(), activity.client()
    run = client.get_workflow_handle(notice.workflow_id, run_id=notice.run_id)
    own = client.get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
    told, queues = await own.describe() if own.id else None, set[str]()
    if told is not None and (told.parent_id, told.parent_run_id) == (run.id, run.run_id):
        if notice.event == "failed":
            # It fails once this has started.
            closing = WorkflowHistoryEventFilterType.CLOSE_EVENT
            await anext(run.fetch_history_events(wait_new_event=True, event_filter_type=closing))
        found = await run.describe()
        queues = {told.task_queue, found.task_queue}
    if queues != {TASK_QUEUE}:
        said = "notices are only sent for a run of Mull's that started this one as its child"
        raise ApplicationError(said, type="Refused", non_retryable=True)
    known = {"workflow_id": found.id, "run_id": found.run_id, "workflow_type": found.workflow_type}
    return notice.model_copy(update=known) if found.status is STATUS[notice.event] else None
