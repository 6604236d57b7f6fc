"""A server of OpenAI's interface in this process, and what its clients need."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from openai import AsyncOpenAI
from starlette.applications import Starlette
from temporalio.client import Client

import mull
from commands.http.application import Connection, application
from commands.http.bearers import Bearer, digest
from tests.conftest import until
from tests.patience import PATIENCE

KEYS = {"ann": "ann-secret-0123456789", "bob": "bob-secret-0123456789"}
HELLO = [{"role": "user", "content": "How much?"}]


def bearers(**limits: Any) -> dict[str, Bearer]:
    """Make the keys of Ann and Bob, with the same limits."""
    return {name: Bearer(sha256=digest(key), **limits) for name, key in KEYS.items()}


@asynccontextmanager
async def listening(
    client: Client, known: Mapping[str, Bearer] | None = None
) -> AsyncIterator[str]:
    """Serve with these keys; yield the base address."""
    async with answering(application(mull.Client(client), known or {})) as address:
        yield f"{address}/v1"


@asynccontextmanager
async def answering(served: Starlette) -> AsyncIterator[str]:
    """Answer what comes to an address of this machine, and yield it."""
    place = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        served,
        http=Connection,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([place]))
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


async def stalled(address: str) -> bytes:
    """Send a part of a body and wait, then a part and go; return the first line of the answer."""
    found = httpx.URL(address)
    head = f"POST {found.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    head += "Content-Type: application/json\r\nAccept: application/json\r\n\r\n{"
    reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
    writer.write(head.encode())
    async with asyncio.timeout(PATIENCE):
        answered = await reader.readline()
    writer.close()
    _, gone = await asyncio.open_connection("127.0.0.1", found.port)
    gone.write(head.encode())
    await gone.drain()
    gone.close()
    await asyncio.sleep(0.3)
    return answered


@asynccontextmanager
async def browsing(address: str, key: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Make a plain client, with this bearer key."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=PATIENCE) as plain:
        yield plain


@asynccontextmanager
async def openai(address: str, key: str = "none", retries: int = 0) -> AsyncIterator[AsyncOpenAI]:
    """Make the official client, unchanged but for its address."""
    async with AsyncOpenAI(base_url=address, api_key=key, max_retries=retries) as official:
        yield official


def chat(model: str = "mull/ask", /, **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": HELLO, **fields}
