"""What an error of the page looks like, and what its log says of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from temporalio.service import RPCError, RPCStatusCode

from commands.web.live import View, Watcher
from mull import MullError, NoWorkerError, RequestError, RunFailedError
from tests.unit.web.doors import Links, entered, served


def failing(error: Exception) -> Callable[[Request], Awaitable[Response]]:
    async def fail(_: Request) -> Response:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (
            RequestError("no run has this id", "List them."),
            400,
            ["No run has this id.", "List them."],
        ),
        (NoWorkerError("no worker <b>"), 503, ["No worker &lt;b&gt;."]),
        (MullError("odd"), 500, ["Odd."]),
        (RPCError("gone", RPCStatusCode.UNAVAILABLE, b""), 503, ["connection", "Runs continue"]),
        (ValueError("what a run says"), 500, ["The page itself failed."]),
    ],
)
async def test_an_error_is_a_page_or_a_part_of_one(
    error: Exception, status: int, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It says what happened and what to do; the words of a fault are neither shown nor logged."""
    links = Links()
    app = served(links)
    app.add_route("/fails", failing(error))
    own = await entered(links, app)

    with caplog.at_level(logging.INFO):
        whole = await own.get("/fails")
        part = await own.get("/fails", headers={"HX-Request": "true"})

    assert [whole.status_code, part.status_code] == [status, status]
    assert all(words in whole.text and words in part.text for words in said)
    assert ("<html" in whole.text, "<html" in part.text) == (True, False)
    assert 'role="alert"' in part.text
    assert "what a run says" not in whole.text + part.text + caplog.text
    assert ("ValueError at" in caplog.text) == isinstance(error, ValueError)


async def test_what_can_t_be_drawn_is_tried_again_without_a_word_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those who look at the run are not left with what they have."""
    monkeypatch.setattr("commands.web.live.AGAIN_SECONDS", 0.0)
    fails = iter([True] * 4)

    def draw(_request: object, _view: View) -> str:
        if next(fails, False):
            raise ValueError("what a run says")
        return "drawn"

    async def request() -> None:
        raise RunFailedError("its-id", "Kind", "what a run says")

    run: Any = SimpleNamespace(request=request)
    watcher = Watcher(run, draw)
    async with asyncio.timeout(5):
        assert (await watcher.newest()).html == "drawn"

    assert "what a run says" not in caplog.text
