"""A worker with a scripted model, the page, and Chromium to look at it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from commands.embedded import Place, free_port
from tests import forks
from tests.e2e.conftest import ROOT, Cli, served, serving
from tests.patience import PATIENCE, patiently

AXE = ROOT / "build" / "axe" / "package" / "axe.min.js"
CHROMIUM = "/usr/bin/chromium"
QUIET = (
    "--disable-background-networking", "--disable-component-update", "--disable-gpu",
    "--disable-quic", "--disable-sync", "--no-first-run",
)  # fmt: skip
# A browser shows within seconds what it shows at all: a fault is found soon.
BROWSER_PATIENCE_MS = 1_000 * PATIENCE / 8
expect.set_options(timeout=BROWSER_PATIENCE_MS)
WIDE, PHONE = ViewportSize(width=1280, height=900), ViewportSize(width=360, height=780)


class Site(NamedTuple):
    """A page that is served: its `origin`, the `link` that lets a browser in, a command line."""

    origin: str
    link: str
    cli: Cli
    environment: dict[str, str]
    process: "subprocess.Popen[bytes]"


@contextmanager
def paged(
    cli: Cli, known: dict[str, str], folder: Path, *options: str, port: int = 0
) -> Iterator[Site]:
    """Serve the page, with options, for these commands' namespace."""
    port, log = port or free_port(), folder / "page.log"
    command = [sys.executable, "starter.py", "page", "--port", str(port), *options]
    environment = {**known, "XDG_CONFIG_HOME": str(folder)}
    before = log.stat().st_size if log.exists() else 0
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=output)
    try:
        for _ in patiently():
            said = log.read_text("utf-8")[before:]
            assert process.poll() is None, said
            if found := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said):
                yield Site(f"http://127.0.0.1:{port}", found[0], cli, environment, process)
                break
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture(scope="session")
def beside(
    place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cli, dict[str, str]]]:
    """A worker of the namespace `page`, and the command line beside it."""
    with serving(place, "page", tmp_path_factory.mktemp("worker")) as (known, _):

        def run(
            *arguments: str, stdin: str = "", **more: str
        ) -> "subprocess.CompletedProcess[str]":
            return forks.run("starter.py", *arguments, environment={**known, **more}, stdin=stdin)

        yield served(run, "ask", "ready?", "--seed", "0", "--max-responses", "1"), known


@pytest.fixture(scope="session")
def site(
    beside: tuple[Cli, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The page for one's own browser."""
    with paged(*beside, tmp_path_factory.mktemp("page")) as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium. Its sandbox can't be used as root."""
    arguments = [*QUIET, *["--no-sandbox"] * (os.geteuid() == 0)]
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture(scope="session")
def state(browser: Browser, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a browser keeps that has come in by the link: the cookie."""
    kept = tmp_path_factory.mktemp("browser") / "state.json"
    with browser.new_context() as context:
        context.new_page().goto(site.link)
        context.storage_state(path=kept)
    return kept


@pytest.fixture
def context(browser: Browser, site: Site, state: Path) -> Iterator[BrowserContext]:
    """A browser that has come in."""
    with browser.new_context(storage_state=state, base_url=site.origin, viewport=WIDE) as found:
        found.set_default_timeout(BROWSER_PATIENCE_MS)
        yield found


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A tab of it, in which nothing breaks the policy or fails."""
    found, wrong = context.new_page(), list[str]()
    found.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    found.on("pageerror", lambda error: wrong.append(str(error)))
    found.on("dialog", lambda dialog: wrong.append(dialog.message))
    yield found
    assert wrong == []


def faults(page: Page) -> list[str]:
    """Return what axe finds, in light and dark, wide and on a phone, and what overflows."""
    source, found = AXE.read_text("utf-8"), list[str]()
    for scheme in ("light", "dark"):
        for size in (WIDE, PHONE):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            page.evaluate(source)
            checked = page.evaluate("axe.run({resultTypes: ['violations']})")
            where = f"{scheme}, {size['width']} px"
            found += [
                f"{where}: {fault['id']}: {one['html']}"
                for fault in checked["violations"]
                for one in fault["nodes"]
            ]
            wide = page.evaluate("document.documentElement.scrollWidth")
            found += [f"{where}: {wide} px wide"] * (wide > size["width"])
    page.set_viewport_size(WIDE)
    return found
