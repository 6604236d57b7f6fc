"""The list of runs: filtered by what search attributes know, and paged by the server."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from temporalio.client import Client, WorkflowExecutionStatus

from commands.found import status_words
from commands.run_list import (
    HERE,
    WAITING,
    Listed,
    batches_done,
    list_runs,
    result_words,
    standing_words,
    waits,
)
from commands.web.rendering import page_of, render
from mull import RequestError
from mull.loops import BY_WORKFLOW, LOOPS
from mull.sheet import FAILED, GOOD, UNDONE, Tone

ROWS = 25
SINCE = {
    "hour": ("the last hour", timedelta(hours=1)),
    "day": ("the last 24 hours", timedelta(days=1)),
    "week": ("the last 7 days", timedelta(days=7)),
    "month": ("the last 30 days", timedelta(days=30)),
}
# A run that continued as new is listed once, by its newest history.
STATUSES = {
    str(status_words(one)): one.name.title().replace("_", "")
    for one in WorkflowExecutionStatus
    if one is not WorkflowExecutionStatus.CONTINUED_AS_NEW
}
MODEL = re.compile(r"[\w.:/@+-]{1,160}")


def _stop_reasons() -> Iterator[str]:
    """Yield the reasons for which any run stops."""
    for loop in LOOPS:
        for kind in get_args(loop.result.model_fields["stop_reason"].annotation):
            yield from (one for one in get_args(kind) if isinstance(one, str))


CHOICES: Mapping[str, Mapping[str, str]] = {
    "command": {loop.command: f"WorkflowType = '{loop.workflow}'" for loop in LOOPS},
    "outcome": {
        **{one: f"MullStopReason = '{one}'" for one in sorted(set(_stop_reasons()))},
        # The status `completed` replaces the stop reason of that name, which batches have.
        **{name: f"ExecutionStatus = '{known}'" for name, known in STATUSES.items()},
    },
    "uncertainty": {one: f"MullUncertainty = '{one}'" for one in ("low", "medium", "high")},
    "waiting": {"1": WAITING},
}


def filter_of(chosen: Mapping[str, str], now: datetime) -> str:
    """Build Temporal's list filter from what was chosen. Raises RequestError without the value."""
    parts = [HERE]
    for name, known in CHOICES.items():
        if value := chosen.get(name):
            if value not in known:
                raise RequestError(f"{name}: this is not one of its choices", field=name)
            parts.append(known[value])
    if model := chosen.get("model", "").strip():
        if not MODEL.fullmatch(model):
            said = "expected the beginning of a model's name, such as openai/"
            raise RequestError(f"model: {said}", field="model")
        parts.append(f"MullModel STARTS_WITH '{model}'")
    if since := chosen.get("since"):
        if since not in SINCE:
            raise RequestError("since: this is not one of its choices", field="since")
        parts.append(f"StartTime > '{(now - SINCE[since][1]).isoformat()}'")
    return " AND ".join(parts)


async def listed(
    client: Client, where: str, limit: int, token: bytes = b"", *, texts: bool = False
) -> Listed:
    """List runs for which a filter of Temporal's holds. Raises RequestError."""
    found = await list_runs(client, where, limit, token or None, texts=texts)
    if found is None:
        said = "the server can't read this filter: it lacks Mull's search attributes"
        raise RequestError(said, "Register them with `mull register`.")
    return found


async def runs(request: Request) -> Response:
    """Show the list of runs."""
    client, chosen = page_of(request).client.temporal, dict(request.query_params)
    try:
        token = base64.urlsafe_b64decode(chosen.pop("page", "").encode())
    except (binascii.Error, ValueError):
        raise RequestError("this address is not that of a list", "Go to the runs.") from None
    where = filter_of(chosen, datetime.now(UTC))
    found = await listed(client, where, ROWS, token, texts=True)
    done = await batches_done(client, found.rows)
    chosen = {name: value for name, value in chosen.items() if value}
    further = {**chosen, "page": base64.urlsafe_b64encode(found.token or b"").decode()}
    return render(
        request,
        "runs.html.j2",
        rows=[_shown(row, done.get) for row in found.rows],
        further=f"?{urlencode(further)}" if found.token else "",
        first=not token,
        chosen=chosen,
        choices=CHOICES,
        statuses=STATUSES,
        since=SINCE,
    )


def tone_of(row: Mapping[str, Any]) -> Tone:
    """Return the tone in which a run's own page says how it stands."""
    reason = row["MullStopReason"]
    if row["status"] == "running":
        return "running"
    if row["status"] != "completed" or reason in FAILED:
        return "bad"
    if not row["doubt"] and reason in {*UNDONE, "idle"}:
        return "plain"
    return "good" if not row["doubt"] and reason in {*GOOD, "completed"} else "warning"


def _shown(row: Mapping[str, Any], done: Callable[[str], str | None]) -> dict[str, Any]:
    """Say of a row how the run stands, and how good that is."""
    return {
        **row,
        "command": BY_WORKFLOW[row["workflow"]].command,
        "tone": tone_of(row),
        "ended": done(row["run_id"]) or standing_words(row) or "",
        "result": result_words(row),
        "waits": waits(row),
        "at": datetime.fromisoformat(row["started"]),
    }


ROUTES = (Route("/", runs),)
