"""The list of runs in a browser: it is found, filtered and paged with a keyboard alone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import mull
from commands.web.runs import ROWS
from tests.page.conftest import Site, faults
from tests.patience import patiently

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> '\"&\u202e"


def shown(page: Page) -> list[str]:
    return page.locator("tbody th a").all_inner_texts()


def test_a_run_is_listed_by_what_it_was_asked(site: Site, page: Page) -> None:
    """Newest first, with how it ended; what a question contains is text, and nothing of it runs."""
    site.cli("ask", HOSTILE, "--seed", "0", "--id", "hostile")
    for _ in patiently():
        page.goto("/")
        if "<script>alert(1)</script>" in "".join(shown(page)):
            break

    row = page.locator("tbody tr").filter(has_text="<script>")
    expect(row).to_contain_text("agreement 1.00")
    assert "\u202e" not in page.content()
    assert page.locator("main img, main script").count() == 0
    assert faults(page) == []


def test_the_list_is_filtered_by_keyboard(site: Site, page: Page) -> None:
    """A person who has no mouse chooses, filters, and clears what was chosen."""
    site.cli("reflect", "Compare two caches", "--min-complexity", "1", "--id", "drafted")
    page.goto("/")

    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("To the content")
    page.get_by_label("Command").focus()
    page.keyboard.type("reflect")
    page.keyboard.press("Enter")
    if "command=reflect" not in page.url:
        page.get_by_role("button", name="Filter").press("Enter")

    page.wait_for_url("**command=reflect**")
    assert shown(page) == ["Compare two caches"]
    page.get_by_role("link", name="Clear").press("Enter")
    page.wait_for_url(f"{site.origin}/")
    assert len(shown(page)) > 1


def test_runs_are_chosen_by_keyboard_and_stand_side_by_side(site: Site, page: Page) -> None:
    """With the answer of each, and a link to it; axe finds no fault."""
    questions = ("Beside this?", "Beside that?")
    for question in questions:
        site.cli("ask", question, "--seed", "0")
    for _ in patiently():
        page.goto("/")
        if {*questions} <= {*shown(page)}:
            break

    for question in questions:
        page.get_by_role("checkbox", name=f"Compare {question}").press("Space")
    page.get_by_role("button", name="Compare the chosen").press("Enter")
    page.wait_for_url("**/compare?**")

    assert sorted(page.locator("thead a").all_inner_texts()) == sorted(questions)
    expect(page.locator("tbody tr").filter(has_text="answer").first).to_be_visible()
    assert faults(page) == []


def test_a_batch_leads_to_the_table_of_its_lines(site: Site, page: Page, tmp_path: Path) -> None:
    """Each line with its run, on its own page; axe finds no fault."""
    file = tmp_path / "lines.jsonl"
    file.write_text('{"question": "First line?"}\n{"question": "Second line?"}\n')
    made = site.cli("batch", str(file), "--command", "ask", "--id", "tabled", "--", "--seed", "0")
    assert made.returncode == 0, made.stderr
    for _ in patiently():
        page.goto("/?command=batch")
        if shown(page):
            break

    page.locator("tbody th a").first.press("Enter")
    page.get_by_role("link", name="Its lines, each with its runs").press("Enter")
    page.wait_for_url("**/batch/*")

    assert page.locator("tbody th bdi").all_inner_texts() == ["First line?", "Second line?"]
    assert page.locator("tbody td a").count() == 2
    assert faults(page) == []


def test_a_wrong_filter_says_which(page: Page) -> None:
    """The refusal says what is expected, and does not repeat the value."""
    answer = page.request.get("/?model=x'%20OR%20'1'='1")

    assert answer.status == 400
    assert "expected the beginning of a model" in answer.text()
    assert "OR" not in answer.text()


def test_many_runs_are_paged(site: Site, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page has the next runs, none twice, and the first page is one key away."""
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"):
        monkeypatch.setenv(name, site.environment[name])
    known: Any = {"model": "openai/paged", "seed": 0, "max_responses": 1}
    with ThreadPoolExecutor(8) as people:
        asked = [f"Number {number}?" for number in range(ROWS + 5)]
        list(people.map(lambda question: mull.ask(question, **known), asked))
    for _ in patiently():
        page.goto("/?model=openai/paged&outcome=completed")
        if len(first := shown(page)) == ROWS and page.get_by_role("link", name="Further").count():
            break

    page.get_by_role("link", name="Further runs").press("Enter")
    page.wait_for_url("**page=**")
    second = shown(page)

    assert len({*first, *second}) == len(first) + len(second)
    page.get_by_role("link", name="The first ones").press("Enter")
    page.wait_for_url("**outcome=completed")
    assert len(shown(page)) == ROWS


def test_a_stolen_link_opens_nothing(browser: Browser, site: Site, state: object) -> None:
    """The link was used by the browser that came in first; another one is told so, readably."""
    del state
    with browser.new_context() as thief:
        page = thief.new_page()

        answer = page.goto(site.link)

        assert answer is not None
        assert answer.status == 403
        expect(page.locator("main")).to_contain_text("used before")
        assert thief.cookies() == []
        assert faults(page) == []
