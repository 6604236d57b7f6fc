"""What an MCP server answers over HTTP is bounded: its bytes, its time, and where it leads."""

import asyncio
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from activities.tools import servers
from activities.tools.servers import RECEIVED_BYTES
from commands.embedded import free_port
from tests.activities.tools.test_servers import SERVER, Worker, answered, serving
from tests.patience import PATIENCE

# One reply in pieces, whole, as text and as JSON, and what is around it.
MOST_MEMORY = 6 * RECEIVED_BYTES
LARGE = f"larger than {RECEIVED_BYTES:,} bytes"
AGAIN = "shop ended before it answered: it may have done what was asked"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a hostile server."""
    port = free_port()
    command = [sys.executable, str(SERVER), str(tmp_path / "calls"), "hostile", str(port)]
    with subprocess.Popen(command) as process:
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


@pytest.fixture
async def worker(address: str, tmp_path: Path) -> AsyncIterator[Worker]:
    """A worker whose server is hostile."""
    async with serving(tmp_path, {}, url=address) as made:
        await answered(made.listing)
        yield made


async def until(state: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not state():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("endless", LARGE),
        ("many_parts", "it has more than 100,000 objects"),
        ("endless_event", AGAIN),
        ("endless_notices", AGAIN),
        ("endless_error", "shop: Server returned an error response"),
        ("bomb", LARGE),
        ("bomb_of_events", AGAIN),
    ],
)
async def test_a_reply_without_an_end_is_left_where_it_is_too_large(
    worker: Worker, name: str, said: str
) -> None:
    """It takes a few times its bound of memory; what came of the call is not known."""
    tracemalloc.start()
    try:
        outcome = await worker.call(name)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert outcome.status == "timeout"
    assert said in outcome.content
    assert peak < MOST_MEMORY
    await until(lambda: "bomb" in name or f"{name}_ended" in worker.called())
    assert (await worker.listing()).tools


@pytest.mark.parametrize("name", ["drip", "drip_of_events"])
async def test_a_reply_that_drips_is_left_after_a_while(
    worker: Worker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing goes on reading it, and the connection stays: the server may only take long."""
    monkeypatch.setattr(servers, "REPLY_SECONDS", 2.0)
    outcome = await worker.call(name, seconds=1.0)

    assert (outcome.status, outcome.content) == ("timeout", "no answer within 1 s")
    await until(lambda: f"{name}_ended" in worker.called())
    assert not worker.connection.ended()


async def test_a_reply_that_is_to_be_asked_for_again_is_none(worker: Worker) -> None:
    """A server may answer with an event, and with nothing else as often as it is asked."""
    outcome = await worker.call("polls")

    assert (outcome.status, outcome.content) == ("timeout", AGAIN)
    assert worker.called() == ["polls"]


async def test_redirects_are_few_and_never_lead_away(worker: Worker) -> None:
    """A server may move a request within its own origin; a call is not made elsewhere."""
    loop, elsewhere = await worker.call("loop"), await worker.call("elsewhere")

    assert [loop.status, elsewhere.status] == ["error", "error"]
    assert set(worker.called()) == {"loop", "elsewhere"}
    assert "not followed" in loop.content
    assert "not followed" in elsewhere.content
