"""Measure how soon the list of runs is painted, and what its last page costs beside its first.

    .venv/bin/python -m bench.page [--runs 10000] [--times 20]

The runs are started, and no worker takes them. Each first paint is that of a browser without a
cache, beside a bare page of Starlette in the same browser; the pages of the list are then fetched
one after the other. Needs Debian's Chromium. Prints medians in milliseconds.
"""

import argparse
import asyncio
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import httpx
from playwright.async_api import Browser, async_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

import mull
from commands.embedded import free_port
from commands.http.application import answer_at
from mull import telemetry
from tests.chaos.stage import Stage

CHROMIUM = "/usr/bin/chromium"
PAINTED = """() => new Promise(done => new PerformanceObserver(list => {
    const found = list.getEntriesByName("first-contentful-paint")[0];
    if (found) done(found.startTime);
}).observe({type: "paint", buffered: true}))"""
AT_ONCE = 50


async def bare(_: Request) -> HTMLResponse:
    """Answer what a page costs that shows nothing."""
    return HTMLResponse("<!doctype html><title>bare</title><h1>Runs</h1>")


@asynccontextmanager
async def paged(folder: Path) -> AsyncIterator[str]:
    """Serve the page; yield the link that lets a browser in."""
    command = (sys.executable, "starter.py", "page", "--port", str(free_port()))
    own = {**os.environ, "XDG_CONFIG_HOME": str(folder), "MULL_SETTINGS": os.devnull}
    page = await asyncio.create_subprocess_exec(*command, env=own, stderr=asyncio.subprocess.PIPE)
    assert page.stderr is not None
    try:
        said = (await page.stderr.readline()).decode()
        [link] = re.findall(r"http://\S+token=\S+", said)
        yield link
    finally:
        page.terminate()
        await page.communicate()


async def painted(browser: Browser, address: str, state: object, times: int) -> float:
    """Return the median first paint, in milliseconds after the navigation began."""
    found = []
    for _ in range(times):
        context = await browser.new_context(storage_state=state)  # type: ignore[arg-type]
        page = await context.new_page()
        await page.goto(address)
        found.append(float(await page.evaluate(PAINTED)))
        await context.close()
    return median(found)


async def fetched(origin: str, cookie: dict[str, str]) -> list[float]:
    """Fetch every page of the list; return the milliseconds that each took."""
    took, address = list[float](), "/"
    async with httpx.AsyncClient(base_url=origin, cookies=cookie, timeout=60) as client:
        while address:
            began = time.perf_counter()
            text = (await client.get(address)).raise_for_status().text
            took.append((time.perf_counter() - began) * 1_000)
            further = re.findall(r'href="(/\?[^"]*)" rel="next"', text)
            address = further[0].replace("&amp;", "&") if further else ""
    return took


async def measure(runs: int, times: int, folder: Path) -> None:
    """Start the runs, look at them, and print what it took."""
    telemetry.set_up(None)
    async with Stage(folder) as stage, paged(folder) as link, async_playwright() as playwright:
        client, places = mull.Client(stage.client), asyncio.Semaphore(AT_ONCE)

        async def start(number: int) -> None:
            async with places:
                await client.start("ask", question=f"What is {number} + 3?")

        await asyncio.gather(*map(start, range(runs)))
        place = socket.create_server(("127.0.0.1", 0))
        serving = asyncio.create_task(answer_at(place, Starlette(routes=[Route("/", bare)])))
        root = ["--no-sandbox"] * (os.geteuid() == 0)
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=root)
        context = await browser.new_context()
        await (await context.new_page()).goto(link)
        state, origin = await context.storage_state(), link.partition("/?")[0]
        here = f"http://127.0.0.1:{place.getsockname()[1]}/"
        for name, address in (("bare page", here), ("list", origin)):
            print(f"{name:10} first paint {await painted(browser, address, state, times):6.0f} ms")
        cookie = {one["name"]: one["value"] for one in state["cookies"]}
        took = await fetched(origin, cookie)
        first, last = median(took[: len(took) // 4]), median(took[-len(took) // 4 :])
        print(f"{len(took)} pages of {runs:,} runs: {first:.0f} ms in the first quarter,", end=" ")
        print(f"{last:.0f} ms in the last")
        await browser.close()
        # SIGTERM ends the server in order.
        signal.raise_signal(signal.SIGTERM)
        await serving


def main() -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(given.runs, given.times, Path(folder)))


if __name__ == "__main__":
    main()
