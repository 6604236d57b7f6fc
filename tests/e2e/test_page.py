"""`mull page` as users run it: the examples of its chapter, and what it refuses."""

import re
import shlex
import subprocess
from pathlib import Path

import httpx
import pytest

from commands.embedded import free_port
from tests.e2e.conftest import ROOT, Cli, started
from tests.patience import PATIENCE, patiently

CHAPTER = (ROOT / "docs" / "page.md").read_text("utf-8")
COMMANDS = re.findall(r"^    mull (page.*?)(?:  .*)?$", CHAPTER, re.MULTILINE)
BEHIND = ("--proxy", "127.0.0.1", "--author-header", "X-User")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_example_serves_the_page(
    command: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """It says where it is, lets in whom it says, and ends in order."""
    port, said = free_port(), tmp_path / "said"
    own = {**environment, "XDG_CONFIG_HOME": str(tmp_path)}
    with said.open("wb") as output:
        words = [*shlex.split(command), "--port", str(port)]
        served = started("starter.py", *words, environment=own, stderr=output)
    try:
        headers = {"Host": "mull.example.org", "X-Forwarded-User": "Ann"}
        asked = httpx.Request("GET", f"http://127.0.0.1:{port}/", headers=headers)
        for _ in patiently():
            if link := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said.read_text()):
                asked = httpx.Request("GET", link[0])
            if link or "https://mull.example.org" in said.read_text():
                break
        with httpx.Client(follow_redirects=True) as browser:
            answer = browser.send(asked)
    finally:
        served.terminate()
        code = served.wait(PATIENCE)

    assert (answer.status_code, "<h1>Runs</h1>" in answer.text) == (200, True)
    assert ("Read-only" in answer.text) == ("--read-only" in command)
    assert code == 0
    key = tmp_path / "mull" / "page.key"
    assert f"{key.stat().st_mode:o}".endswith("600")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "0.0.0.0"), "without --proxy it listens at 127.0.0.1 alone"),  # noqa: S104
        (BEHIND, "give all three"),
        ((*BEHIND, "--url", "mull.example.org"), "expected an address such as https://"),
        ((*BEHIND, "--url", "https://mull.example.org/mull"), "expected an address such as"),
    ],
)
def test_a_page_for_nobody_in_particular_is_refused(
    cli: Cli, options: tuple[str, ...], said: str
) -> None:
    """Without a proxy that says who asks it is for this machine alone."""
    done: subprocess.CompletedProcess[str] = cli("page", *options)

    assert (done.returncode, said in done.stderr) == (2, True)
