"""`agent` on the code path: tests of the model's, of the prompt's, and of the user's own."""

import json
from pathlib import Path

from tests.e2e.agent.model import BROKEN, FIXED
from tests.e2e.conftest import Cli

ADD = "Write add(a, b), which adds two numbers."


def test_the_code_alone_is_standard_output(cli: Cli) -> None:
    """To the letter, so that it can be written to a file; the tests are on standard error."""
    done = cli("agent", ADD)

    assert (done.returncode, done.stdout) == (0, FIXED), done.stderr
    assert [line.split()[0] for line in done.stderr.splitlines() if " → " in line] == [
        "retrieve",
        "route",
        "generate_code",
        "test_code",
        "generate_code",
        "test_code",
    ]
    assert "draft 1: 1 of 3 tests pass; " in done.stderr
    assert "→ stop: passed" in done.stderr
    assert "3 tests, the model's own" in done.stderr
    assert "add(1, 2)" in done.stderr


def test_a_users_own_pytest_file_is_run(cli: Cli, tmp_path: Path) -> None:
    """Its name says that pytest runs it, beside the code, which is said to be forgeable."""
    tests, out = tmp_path / "test_add.py", tmp_path / "add.py"
    tests.write_text("from solution import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n")

    done = cli("agent", ADD, "--tests", str(tests), "--out", str(out))

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert out.read_text() == FIXED
    assert "code: as the request says" in done.stderr
    assert "test_add.py, the user's own, run beside the code" in done.stderr
    assert "the tests ran beside the code, which could have forged" in done.stderr


def test_code_that_stays_wrong_says_so(cli: Cli) -> None:
    """The draft is printed all the same, with what still fails; required, it is exit code 4."""
    stubborn = f"{ADD} Be stubborn.\n\n>>> add(1, 2)\n3\n"

    done = cli("agent", stubborn, "--max-revisions", "2", "--require-closed")

    assert done.returncode == 4
    assert done.stdout == BROKEN
    assert "the result is open: a test still fails: " in done.stderr
    assert "got -1" in done.stderr


def test_a_wrong_test_of_the_models_own_is_seen_wherever_the_result_is(
    cli: Cli, tmp_path: Path
) -> None:
    """The run is open because of it, as the terminal, the document and the page all say."""
    told, page = "1 test written by the model, passed by no draft", tmp_path / "page.html"
    disputed = "the result is open: a test is disputed: add(2, 2), expected 5: draft 1 gave"

    done = cli("agent", f"{ADD} Be quirky.", "--id", "quirky")
    shown, document = cli("show", "quirky"), cli("show", "quirky", "--json")
    cli("report", "quirky", "--html", str(page))

    assert (done.returncode, done.stdout) == (4, FIXED), done.stderr
    assert "→ stop: max_revisions" in done.stderr
    assert told in done.stderr
    assert disputed in " ".join(done.stderr.split())
    assert told in shown.stderr
    assert [each["test"] for each in json.loads(document.stdout)["quarantined"]] == ["add(2, 2)"]
    assert "quarantined" in page.read_text()
