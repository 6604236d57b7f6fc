"""A reviewer in a browser: by keys alone, beside another one, and before a hostile call."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.model import CALCULATES, HIDES, STAYS_LOW
from tests.page.conftest import BROWSER_PATIENCE_MS, PHONE, Site, faults
from tests.patience import patiently

DRAFTED = ("reflect", "--complexity", "1", "--no-guardrails", "--seed", str(STAYS_LOW), "--detach")
BELOW = ("--review-below", "0.6")
# Keys that come sooner after a decision are taken for slips.
PAUSE = 600


def waits(site: Site, *command: str) -> str:
    """Start a run, and return its id once it is listed as one that waits."""
    begun = site.cli(*command)
    assert begun.returncode == 0, begun.stderr
    name = begun.stdout.strip()
    for _ in patiently():
        listed = json.loads(site.cli("list", "--json", "--limit", "200").stdout)["runs"]
        if any(row["id"] == name and row["MullNeedsReview"] for row in listed):
            return name
    pytest.fail(f"{name} does not wait")


def draft(site: Site, about: str) -> str:
    return waits(site, *DRAFTED, about, *BELOW)


def ended(site: Site, name: str) -> dict[str, object]:
    result: dict[str, object] = json.loads(site.cli("watch", name, "--json", "--accept-any").stdout)
    return result


def go_to(page: Page, about: str) -> None:
    """Move with j to the item about this, as somebody without a mouse does."""
    page.goto("/review")
    for _ in range(60):
        if about in page.evaluate("document.activeElement.innerText"):
            return
        page.keyboard.press("j")
    pytest.fail(f"there is no item about {about}")


@contextmanager
def another(browser: Browser, site: Site, state: Path) -> Iterator[Page]:
    """The browser of somebody else."""
    with browser.new_context(storage_state=state, base_url=site.origin) as context:
        context.set_default_timeout(BROWSER_PATIENCE_MS)
        yield context.new_page()


def test_a_morning_without_a_mouse(site: Site, page: Page) -> None:
    """Named once, a reviewer accepts, revises, replaces and scores, and goes on with the next."""
    about = ("First matter", "Second matter", "Third matter", "Fourth matter")
    names = [draft(site, one) for one in about]
    page.goto("/review")
    page.get_by_label("Your name").focus()
    page.keyboard.type("ann")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Change")).to_be_visible()

    keys = {
        "First matter": ["a"],
        "Second matter": ["r", "say why", "Control+Enter"],
        "Third matter": ["e", "Mine, and a j.", "Control+Enter"],
        "Fourth matter": ["s", "0.9", "Enter"],
    }
    for number, (one, (first, *typed)) in enumerate(keys.items(), 1):
        if number == 1:
            go_to(page, one)
        # The next one has the focus by itself.
        expect(page.locator("article:focus")).to_contain_text(one)
        page.keyboard.press(first)
        for words in typed:
            if "Enter" in words:
                page.keyboard.press(words)
            elif first == "e":
                page.keyboard.press("Control+A")
                page.keyboard.type(words)
            else:
                page.keyboard.type(words)
        expect(page.locator("article.decided")).to_have_count(number)
        page.wait_for_timeout(PAUSE)

    accepted, revised, replaced, scored = (names[at] for at in range(4))
    assert ended(site, accepted)["stop_reason"] == "accepted_by_person"
    third = ended(site, replaced)
    assert (third["stop_reason"], third["draft"]) == ("replaced_by_person", "Mine, and a j.")
    fourth = ended(site, scored)
    assert (fourth["stop_reason"], fourth["score"]) == ("scored_by_person", 0.9)
    seen = json.loads(site.cli("show", revised, "--json").stdout)
    assert [one["author"] for one in seen["decisions"] if one["author"]] == ["ann"]
    site.cli("finish", revised)


def test_a_key_looks_again_for_what_waits(site: Site, page: Page) -> None:
    """The queue says when it was looked for; what came since is there after a key."""
    page.goto("/review")
    expect(page.locator("main")).to_contain_text(re.compile(r"at \d{4}-\d\d-\d\d .* UTC"))
    name = draft(site, "It came later")
    expect(page.get_by_text("It came later")).to_have_count(0)
    page.keyboard.press("u")

    expect(page.get_by_role("link", name="It came later")).to_be_visible()
    assert site.cli("review", name, "--accept").returncode == 0


def test_a_key_that_is_pressed_twice_decides_once(site: Site, page: Page) -> None:
    """The next item is safe for a moment; while one types, and in the help, no key decides."""
    first, second = draft(site, "Press once"), draft(site, "Press never")
    go_to(page, "Press once")

    page.keyboard.press("a")
    expect(page.locator("article.decided")).to_have_count(1)
    page.keyboard.press("a")
    page.wait_for_timeout(PAUSE)
    page.keyboard.press("r")
    page.keyboard.type("a y n")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("a")
    page.keyboard.press("Escape")

    expect(page.locator("article.decided")).to_have_count(1)
    expect(page.locator("article:focus")).to_contain_text("Press never")
    assert ended(site, first)["stop_reason"] == "accepted_by_person"
    assert site.cli("review", second, "--accept").returncode == 0


@pytest.mark.parametrize(("key", "typed"), [("s", "2"), ("r", " ")])
def test_what_was_refused_stays_in_its_field(
    site: Site, browser: Browser, state: Path, key: str, typed: str
) -> None:
    """With the focus in it, so that what is typed to mend it decides nothing."""
    name = draft(site, f"Mend it with {key}")
    with another(browser, site, state) as page:
        go_to(page, f"Mend it with {key}")
        page.keyboard.press(key)
        page.keyboard.type(typed)
        page.keyboard.press("Control+Enter")

        expect(page.get_by_role("alert")).to_be_visible()
        field = page.locator("details[open] [name=words]:focus")
        expect(field).to_have_value(typed)
        page.wait_for_timeout(PAUSE)
        page.keyboard.type("a")
        expect(field).to_have_value(f"{typed}a")
        expect(page.locator("article.decided")).to_have_count(0)
    assert site.cli("finish", name).returncode == 0


def test_of_two_people_the_second_is_told(
    site: Site, page: Page, browser: Browser, state: Path
) -> None:
    """Who decided, and what; the decision is the first one's."""
    name = draft(site, "Both look at it")
    with another(browser, site, state) as other:
        go_to(other, "Both look at it")
        assert site.cli("review", name, "--score", "0.7", "--author", "ben").returncode == 0
        other.keyboard.press("a")

        told = other.get_by_role("alert")
        expect(told).to_contain_text("The run")
        expect(told).to_contain_text('"ben" (unverified)')
    result = ended(site, name)
    assert (result["stop_reason"], result["score"]) == ("scored_by_person", 0.7)
    page.goto("/review")
    expect(page.get_by_text("Both look at it")).to_have_count(0)


def test_a_draft_that_moved_on_is_refused_and_the_new_one_decided_on(
    site: Site, browser: Browser, state: Path
) -> None:
    name = draft(site, "It moves on")
    with another(browser, site, state) as page:
        go_to(page, "It moves on")
        assert site.cli("review", name, "--revise", "Say more").returncode == 0
        for _ in patiently():
            if "Draft 3" in site.cli("review", name).stdout:
                break
        page.keyboard.press("a")

        item = page.locator("article:focus")
        expect(item).to_contain_text("draft 3 is under review now")
        expect(item).to_contain_text("Draft 3, worth 0.5.")
        page.wait_for_timeout(PAUSE)
        page.keyboard.press("a")
        expect(page.locator("article.decided")).to_have_count(1)
    assert ended(site, name)["draft"] == "Draft 3, worth 0.5."


def test_a_call_hides_nothing_and_is_denied_by_a_key(
    site: Site, page: Page, tmp_path: Path
) -> None:
    """A letter that can't be seen is an escape, and an element in it is text."""
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps([{"tool": "calculate", "action": "ask"}]))
    asked = ("turn", "Look twice", "--seed", str(HIDES), "--approve", str(rules), "--detach")
    name = waits(site, *asked)
    go_to(page, "Look twice")

    item = page.locator("article:focus")
    expect(item.locator("dd")).to_contain_text(["1\\u2060 + 1</pre><script>alert(1)</script>"])
    expect(item).to_contain_text("characters that can't be seen, or look like others")
    assert "\u2060" not in page.content()
    assert faults(page) == []
    page.keyboard.press("n")
    page.keyboard.type("it looks odd")
    page.keyboard.press("Enter")

    expect(page.locator("article.decided")).to_contain_text("Call 1 is denied.")
    calls: Any = ended(site, name)["calls"]
    assert calls[0]["approval"]["why"].endswith("it looks odd")


def test_a_run_s_own_page_takes_the_decision_too(site: Site, page: Page) -> None:
    """It changes in place afterwards."""
    name = draft(site, "On its own page")
    page.goto("/review")
    page.get_by_role("link", name="On its own page").click()
    page.wait_for_url("**/runs/*")
    expect(page.get_by_role("button", name="Accept")).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("article.item:focus")).to_have_count(1)
    page.keyboard.press("a")

    expect(page.get_by_text("accepted_by_person", exact=True)).to_be_visible()
    assert ended(site, name)["stop_reason"] == "accepted_by_person"


def test_news_of_a_run_leaves_the_focus_with_who_types(
    site: Site, page: Page, tmp_path: Path
) -> None:
    """Else the next letters of a word would be keys, such as y, which allows a call."""
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps([{"tool": "calculate", "action": "ask"}]))
    asked = ("turn", "Type on", "--seed", str(CALCULATES), "--approve", str(rules), "--detach")
    name = waits(site, *asked)
    page.goto("/review")
    page.get_by_role("link", name="Type on").first.click()
    page.wait_for_url("**/runs/*")
    expect(page.locator("article.item")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("n")
    page.keyboard.type("really")
    assert site.cli("review", name, "--deny", "1", "no").returncode == 0
    expect(page.locator("article.item")).to_have_count(1)
    page.wait_for_timeout(PAUSE)
    page.keyboard.type(" nay")

    assert page.evaluate("document.activeElement.value") == "really nay"
    assert site.cli("review", name, "--deny", "2", "no").returncode == 0


def test_a_form_starts_a_run_and_says_what_is_wrong(
    site: Site, browser: Browser, state: Path
) -> None:
    """What was typed stays; what is wrong has the link to its field."""
    with another(browser, site, state) as page:
        page.goto("/start/ask")
        page.get_by_label("question").fill("Does <b>this</b> start?")
        page.get_by_label("max responses").fill("none")
        page.get_by_role("button", name="Start").press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("should be a whole number")
        assert page.get_by_label("question").input_value() == "Does <b>this</b> start?"
        assert faults(page) == []

        page.get_by_role("link", name="max responses").click()
        page.get_by_label("max responses").fill("3")
        page.get_by_role("button", name="Start").press("Enter")
        page.wait_for_url("**/runs/*")

        expect(page.locator("h1")).to_have_text("Does <b>this</b> start?")


def test_chosen_runs_are_compared(site: Site, page: Page) -> None:
    """Each has a column, in the order in which they stand in the list."""
    for seed in ("0", "1"):
        site.cli("ask", f"Compared, {seed}?", "--seed", seed, "--max-responses", "2")
    boxes = page.get_by_role("checkbox", name="Compare Compared, ")
    for _ in patiently():
        page.goto("/?command=ask&outcome=completed")
        if boxes.count() == 2:
            break
    for box in boxes.all():
        box.check()
    page.get_by_role("button", name="Compare the chosen").press("Enter")
    page.wait_for_url("**/compare?run=*")

    expect(page.locator("thead th")).to_contain_text(["Compared, 1?", "Compared, 0?"])
    assert faults(page) == []


@pytest.mark.parametrize("address", ["/review", "/start/agent", "/open", "/compare"])
def test_axe_finds_nothing(page: Page, address: str) -> None:
    page.goto(address)

    assert faults(page) == []


def test_a_queue_says_once_nothing_is_left(site: Site, page: Page) -> None:
    """And not before; what came of a decision stands beside it."""
    name = draft(site, "The last one")
    page.goto("/review")
    empty = page.get_by_text("Nothing waits for you.")
    expect(empty).to_be_hidden()
    page.evaluate("""for (const one of document.querySelectorAll("article.item"))
        if (!one.textContent.includes("The last one")) one.remove()""")
    page.get_by_role("button", name="Accept").click()

    expect(empty).to_be_visible()
    expect(page.locator("article.decided:focus")).to_contain_text("Accepted. The run: The last one")
    assert ended(site, name)["stop_reason"] == "accepted_by_person"


def test_paper_is_light_in_a_dark_scheme(page: Page) -> None:
    """What is marked as added or gone too."""
    page.goto("/review")
    page.evaluate("document.querySelector('main').append(document.createElement('del'))")
    found = []
    for scheme in ("dark", "light"):
        page.emulate_media(media="print", color_scheme=scheme)
        found.append(page.evaluate("getComputedStyle(document.querySelector('del')).background"))

    assert found[0] == found[1]


def test_on_a_phone_each_value_is_named_by_its_run(site: Site, page: Page) -> None:
    names = [site.cli("ask", about, "--seed", "0").returncode for about in ("This?", "That?")]
    assert names == [0, 0]
    page.goto("/")
    for about in ("This?", "That?"):
        page.get_by_label(f"Compare {about}").check()
    page.set_viewport_size(PHONE)
    page.get_by_role("button", name="Compare the chosen").click()

    expect(page.get_by_role("link", name="That?")).to_be_in_viewport()
    expect(page.locator("td[data-name$='This?']").first).to_be_visible()
    assert faults(page) == []
