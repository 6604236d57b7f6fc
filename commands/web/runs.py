"""The list of runs: filtered by what search attributes know, and paged by the server."""

import base64
import binascii
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from commands.run_list import HERE, batches_done, ended_words, list_runs, result_words, waits
from commands.web.rendering import page_of, render
from mull import RequestError

ROWS = 25


async def runs(request: Request) -> Response:
    """Show the list of runs."""
    client = page_of(request).client.temporal
    try:
        token = base64.urlsafe_b64decode(request.query_params.get("page", "").encode())
    except (binascii.Error, ValueError):
        raise RequestError("this address is not one of a page of the list") from None
    parts: Sequence[str] = [HERE]
    found = await list_runs(client, " AND ".join(parts), ROWS, token or None, texts=True)
    if found is None:
        raise RequestError("the server can't read this filter")
    done = await batches_done(client, found.rows)
    rows = [
        {
            **row,
            "ended": done.get(row["run_id"]) or ended_words(row) or "",
            "result": result_words(row),
            "waits": waits(row),
        }
        for row in found.rows
    ]
    further = base64.urlsafe_b64encode(found.token).decode() if found.token else ""
    return render(request, "runs.html.j2", rows=rows, further=further)


ROUTES = (Route("/", runs),)
