"""Take the pictures of docs/page.md: `.venv/bin/python -m pytest tests/page/screenshots.py`."""

import json
from pathlib import Path

from playwright.sync_api import Page, ViewportSize

from tests.e2e.conftest import ROOT, Cli
from tests.e2e.model import NO_KEY, SPLIT, STAYS_LOW
from tests.page.conftest import Site
from tests.patience import patiently

PLACE = ROOT / "docs" / "screens"
SIZE, PHONE = ViewportSize(width=1000, height=640), ViewportSize(width=360, height=640)
QUESTIONS = ("What is 127 + 2?", "How many primes are below 730?", "Is 129 a semiprime?")


def run_id(cli: Cli, name: str) -> str:
    """Return the run id of a run, once it is listed."""
    for _ in patiently():
        for row in json.loads(cli("list", "--json", "--limit", "200").stdout)["runs"]:
            if row["id"] == name:
                return str(row["run_id"])
    raise AssertionError(name)


def test_pictures_are_taken(site: Site, page: Page, tmp_path: Path) -> None:
    """Eight pages as a person sees them, and one of them on a phone."""
    cli, seen = site.cli, list[str]()
    for number, question in enumerate(QUESTIONS):
        cli("ask", question, "--id", f"asked-{number}", "--answers", "number")
    cli("ask", "Which of five?", "--id", "split", "--seed", str(SPLIT), "--max-responses", "8")
    cli("ask", "Who is let in?", "--id", "failed", "--seed", str(NO_KEY))
    drafted = ("reflect", "--complexity", "1", "--no-guardrails", "--seed", str(STAYS_LOW))
    cli(*drafted, "Describe the release in a sentence", "--id", "drafted")
    for about in ("Say what the cache keeps", "Explain the retry to a customer"):
        cli(*drafted, about, "--id", about.split()[-1], "--review-below", "0.6", "--detach")
    lines = tmp_path / "questions.jsonl"
    given = [{"id": f"q{at}", "question": one, "gold": "129"} for at, one in enumerate(QUESTIONS)]
    lines.write_text("\n".join(map(json.dumps, given)))
    ask = ("--command", "ask", "--yes", "--id", "nightly")
    cli("batch", str(lines), *ask, "--", "--max-responses", "3")
    first, second, split, failed, draft, batch = (
        run_id(cli, name)
        for name in ("asked-0", "asked-1", "split", "failed", "drafted", "nightly")
    )

    def taken(name: str, address: str, size: ViewportSize = SIZE, scheme: str = "light") -> None:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.goto(address)
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(500)
        page.screenshot(path=PLACE / f"{name}.png")
        seen.append(name)

    taken("runs", "/")
    taken("answer", f"/runs/{split}")
    taken("drafts", f"/runs/{draft}", scheme="dark")
    taken("failed", f"/runs/{failed}")
    taken("review", "/review")
    taken("start", "/start/ask")
    taken("compare", f"/compare?run={first}&run={second}")
    taken("batch", f"/batch/{batch}")
    taken("phone", f"/runs/{split}", PHONE)
    # They are in the repository.
    assert sum((PLACE / f"{name}.png").stat().st_size for name in seen) < 700_000
