"""The service of docs/python.md, whose worker is killed outright while it answers."""

import asyncio
import re
import uuid
from collections import Counter
from functools import partial
from operator import le
from pathlib import Path
from typing import Any

import httpx
import pytest

import mull
from tests.chaos.stage import Stage
from tests.conftest import until
from tests.patience import PATIENCE
from tests.scripted_endpoint import Body, Scripted

ORDERS = 20
SERVICE = re.compile(r"## In a service.*?```python\n(.*?)```", re.DOTALL)


def answer(request: Body) -> Scripted:
    """Say the number that the question names, after a second."""
    named = re.search(r"What is order (\d+) worth", str(request["messages"]))
    assert named
    return Scripted(f"Final Answer: {named[1]}", delay=1)


async def test_orders_are_each_answered_once_though_the_worker_is_killed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    """Each order is sent by two callers at once, who get the same answer of one run."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "")
    [service] = SERVICE.findall((root / "docs" / "python.md").read_text(encoding="utf-8"))
    assert len([line for line in service.splitlines() if line and "import" not in line]) <= 15
    known: dict[str, Any] = {}
    exec(service, known)  # noqa: S102 - it is our own
    own = uuid.uuid4().hex[:8]
    async with Stage(tmp_path) as stage:
        stage.reply = answer
        await stage.serve()
        transport = httpx.ASGITransport(known["app"])
        async with (
            known["lifespan"](known["app"]),
            httpx.AsyncClient(
                transport=transport, base_url="http://mull", timeout=PATIENCE
            ) as http,
        ):
            await until(lambda: workers(known["app"].state.mull))
            orders = [
                {"id": f"{own}-{number}", "question": f"What is order {number} worth?"}
                for number in range(ORDERS)
            ]
            sent = [
                asyncio.create_task(http.post("/verdict", json=order))
                for order in orders
                for _ in "ab"
            ]
            for calls in (25, 50):
                await until(lambda: len(stage.endpoint.requests), partial(le, calls))
                stage.kill_workers()
                await stage.serve()
            replies = [reply.json() for reply in await asyncio.gather(*sent)]
            runs = [await known["app"].state.mull.get(f"order-{order['id']}") for order in orders]
            results = [await run.result() for run in runs]

    assert [one["answer"] for one in replies] == [str(n) for n in range(ORDERS) for _ in "ab"]
    assert Counter(len(result.responses) for result in results) == {5: ORDERS}
    assert all(result.doubt == "" for result in results)


async def workers(m: mull.Client) -> bool:
    try:
        await m.need_workers(["mull", "mull-llm"])
    except mull.NoWorkerError:
        return False
    return True
