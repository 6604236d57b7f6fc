"""Telling a webhook that a run waits for a person, or that it failed."""

import hmac
import json
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from reflection.request import Record


class Notice(Record):
    """What a webhook is told of a run: no text of it. `id` is the notice's own."""

    id: str
    event: Literal["waiting", "failed"]
    workflow_id: str
    run_id: str
    workflow_type: str
    time: datetime
    stop_reason: str | None = None
    error_type: str | None = None


Post = Callable[[bytes, dict[str, str]], Awaitable[int]]
"""Posts a body with headers, and returns the status. Raises OSError, which says why it can't."""


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
        link = self._page(notice.workflow_id, notice.run_id)
        body = json.dumps(notice.model_dump(mode="json") | {"link": link}).encode()
        signed = signature(self._secret, int(time.time()), body)
        headers = {"Content-Type": "application/json", "Mull-Signature": signed}
        try:
            status = await self._post(body, headers)
            why = "" if 200 <= status < 300 else f"the receiver answered with {status}"
        except OSError as error:
            why = str(error)
        if why:
            activity.logger.warning("the webhook was not told: %s", why)
            # Of this category the SDK logs nothing: a traceback would add nothing to that line.
            benign = ApplicationErrorCategory.BENIGN
            raise ApplicationError(why, type="WebhookError", category=benign)
