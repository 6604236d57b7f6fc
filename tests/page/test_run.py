"""The page of a run in a browser: it changes in place, and survives what it depends on."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from commands.embedded import Place, free_port, server_command
from tests import forks
from tests.e2e.conftest import Cli, commands_beside, until_waiting
from tests.page.conftest import BROWSER_PATIENCE_MS, Site, paged
from tests.patience import PATIENCE, patiently
from tests.scripted_endpoint import Scripted, ScriptedEndpoint

HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""
REVIEWED = ("reflect", "Describe a release worth 0.30", "--min-complexity", "0", "--detach")
ANSWER = json.dumps({"reasoning": "counted", "answer": "7"})


def begun(cli: Cli, *command: str) -> tuple[str, str]:
    """Start a run, and return its id and the address of its page."""
    done = cli(*command)
    assert done.returncode == 0, done.stderr
    name = done.stdout.strip()
    for _ in patiently():
        for row in json.loads(cli("list", "--json").stdout)["runs"]:
            if row["id"] == name:
                return name, f"/runs/{row['run_id']}"
    pytest.fail(f"{name} is not listed")


def waiting(site: Site, page: Page) -> str:
    """Look at a run that waits for a person; return its id."""
    name, place = begun(site.cli, *REVIEWED, "--review-below", "0.9", "--max-revisions", "0")
    page.goto(place)
    expect(page.locator(".verdict.running")).to_have_text("Waiting for a person's review")
    return name


def test_a_page_changes_in_place(site: Site, page: Page) -> None:
    """What is unfolded stays so, and what has the focus keeps it."""
    name = waiting(site, page)
    folded = page.locator("summary", has_text="Settings as they are by default")
    folded.click()
    folded.focus()

    asked = site.cli("review", name, "--revise", "Describe it, worth 0.40", "--author", "ann")
    assert asked.returncode == 0, asked.stderr
    expect(page.locator("#change-2")).to_be_visible()
    until_waiting(site.cli, name)
    expect(page.locator("article.item")).to_be_visible()

    assert page.evaluate("document.activeElement.textContent") == folded.text_content()
    assert folded.locator("..").get_attribute("open") is not None

    assert site.cli("review", name, "--accept").returncode == 0
    expect(page.locator(".verdict", has_text="accepted_by_person")).to_be_visible()
    expect(page.get_by_role("button", name="Finish with what it has")).to_have_count(0)


def test_a_page_is_live_however_late_its_scripts_come(site: Site, page: Page) -> None:
    """Nothing depends on which of them is there first."""

    def late(route: Route) -> None:
        time.sleep(0.5)
        route.continue_()

    page.route("**/hx-sse.min.js", late)
    with page.expect_request("**/events?known=*"):
        waiting(site, page)


def test_a_hidden_tab_has_no_stream(site: Site, page: Page) -> None:
    """It asks for one again once it is seen, and shows what happened meanwhile."""
    name = waiting(site, page)
    asked, over = list[str](), list[str]()
    page.on("request", lambda one: asked.append(one.url) if "/events" in one.url else None)
    for event in ("requestfailed", "requestfinished"):
        page.on(event, lambda one: over.append(one.url) if "/events" in one.url else None)

    page.evaluate(HIDE, True)
    for _ in patiently():
        if over:
            break
        page.wait_for_timeout(50)
    assert site.cli("review", name, "--accept").returncode == 0
    page.wait_for_timeout(1_000)
    assert (len(asked), len(over)) == (0, 1)
    expect(page.locator(".verdict", has_text="accepted_by_person")).to_have_count(0)

    page.evaluate(HIDE, False)
    expect(page.locator(".verdict", has_text="accepted_by_person")).to_be_visible()
    assert len(asked) == 1


def test_a_person_finishes_a_run(site: Site, page: Page) -> None:
    """By a button, which a keyboard reaches."""
    waiting(site, page)
    button = page.get_by_role("button", name="Finish with what it has")
    button.focus()
    page.keyboard.press("Enter")

    expect(page.locator(".verdict", has_text="finished_by_person")).to_be_visible()


class Stand:
    """A server of Temporal, a worker and a page that are killed and started again."""

    def __init__(self, folder: Path, model: Callable[[object], Scripted]) -> None:
        self.folder, self.stack = folder, ExitStack()
        self.place = Place(free_port(), free_port(), folder / "temporal.db")
        self.port = free_port()
        self.endpoint = self.stack.enter_context(ScriptedEndpoint(model))
        self.known = commands_beside(self.place, "default")

    def start_server(self) -> None:
        with (self.folder / "server").open("ab") as log:
            command = server_command(self.place)
            self.server = subprocess.Popen(command, stdout=log, stderr=log)
        self.stack.callback(self.kill_server)
        for _ in patiently():
            if self.cli("list").returncode == 0:
                break

    def kill_server(self) -> None:
        self.server.kill()
        self.server.wait(PATIENCE)

    def start_worker(self) -> None:
        own = {"MULL_MODEL": "openai/scripted", "OPENAI_API_BASE": self.endpoint.url}
        own |= {"OPENAI_API_KEY": "sk-secret", "MULL_HEARTBEAT_SECONDS": "2"}
        log = self.folder / "worker"
        self.worker = forks.start(["worker.py"], {**self.known, **own}, log, log)
        self.stack.callback(self.kill_worker)

    def kill_worker(self) -> None:
        self.worker.kill()
        self.worker.join(PATIENCE)

    def cli(self, *arguments: str, **_: str) -> "subprocess.CompletedProcess[str]":
        return forks.run("starter.py", *arguments, environment=self.known)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """All three, whose model waits until the file `go` is there."""
    made = Stand(tmp_path, lambda _: Scripted(ANSWER, until=(tmp_path / "go").exists))
    with made.stack:
        made.start_server()
        made.start_worker()
        yield made


def test_a_watched_run_survives_whatever_is_killed(stand: Stand, browser: Browser) -> None:
    """The worker, the page and the server: each absence is told of, and none needs a reload."""
    assert stand.cli("ask", "How much?", "--detach").returncode == 0
    with ExitStack() as pages, browser.new_context() as context:
        context.set_default_timeout(BROWSER_PATIENCE_MS)
        site = pages.enter_context(paged(stand.cli, stand.known, stand.folder, port=stand.port))
        page = context.new_page()
        page.goto(site.link)
        page.get_by_role("link", name="How much?").click()
        expect(page.locator(".verdict.running")).to_contain_text("in flight")
        page.evaluate("window.same = true")

        stand.kill_worker()
        expect(page.get_by_text("no worker answers")).to_be_visible(timeout=40_000)

        pages.close()
        assert "Traceback" not in (stand.folder / "page.log").read_text()
        expect(page.get_by_text("The page's server does not answer")).to_be_visible()
        pages.enter_context(paged(stand.cli, stand.known, stand.folder, port=stand.port))
        expect(page.get_by_text("The page's server does not answer")).to_have_count(
            0, timeout=20_000
        )

        stand.kill_server()
        expect(page.get_by_text("connection to the Temporal server was lost")).to_be_visible()
        stand.start_server()
        stand.start_worker()
        (stand.folder / "go").touch()
        expect(page.locator(".answer bdi")).to_have_text("7", timeout=40_000)
        assert page.evaluate("window.same")
