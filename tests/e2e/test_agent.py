"""`agent` on both of its paths, and a turn that searches, as scripts and people use them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands.embedded import Place
from tests.e2e.conftest import Cli, listed, serving, until_waiting
from tests.e2e.model import BROKEN, FIXED, IDEA, KAFKA, REPORTS

ADD = "Write add(a, b), which adds two numbers."
COMPARE = "Compare Kafka with a queue."


@pytest.fixture(scope="module")
def environment(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("agent")
    (folder / "documents").mkdir()
    (folder / "documents" / "kafka.md").write_text(KAFKA)
    own = {"MULL_DOCUMENTS": str(folder / "documents"), "MULL_CACHE": str(folder)}
    with serving(place, "agent", folder, **own) as (known, _):
        yield {**known, **own}


@pytest.fixture
def docs(environment: dict[str, str]) -> tuple[str, str]:
    return ("--docs", environment["MULL_DOCUMENTS"])


def nodes(said: str) -> list[str]:
    return [line.split()[0] for line in said.splitlines() if " → " in line]


def test_the_report_alone_is_standard_output(cli: Cli, docs: tuple[str, str]) -> None:
    done = cli("agent", COMPARE, *docs)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(REPORTS[1])
    assert "## Further considerations" in done.stdout
    assert "- [1] `kafka.md`" in done.stdout
    rounds = ["generate_report", "reflect_on_report"] * 2
    assert nodes(done.stderr) == ["retrieve", "route", *rounds]
    assert "draft 1: 1 critique to fix → generate_report" in done.stderr
    assert "Say how long it keeps them, as source 1 does." in done.stderr
    assert "→ stop: consistent" in done.stderr
    assert "kafka.md:1" in done.stderr
    assert "/namespaces/agent/workflows/agent-compare-kafka-" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_json_is_one_document_and_nothing_else(cli: Cli, docs: tuple[str, str]) -> None:
    done = cli("agent", "-", *docs, "--json", "--id", "listed-agent", stdin=f"{COMPARE}\n")
    shown, row = cli("show", "listed-agent"), listed(cli, "listed-agent")

    result = json.loads(done.stdout)
    assert (result["mode"], result["open"]) == ("research", False)
    assert result["stop_reason"] == "consistent"
    assert [len(each["critiques"]) for each in result["drafts"]] == [1, 0]
    assert result["sources"][0]["passage"]["source"] == "kafka.md"
    assert (result["prompt"], result["suggestions"]) == (COMPARE, [IDEA])
    assert shown.stdout.startswith(REPORTS[1])
    assert "stop: consistent" in shown.stderr
    assert (row["workflow"], row["MullRevisions"]) == ("MultiPathWorkflow", 2)


def test_a_report_that_stays_open_says_so(cli: Cli, docs: tuple[str, str]) -> None:
    stubborn = ("agent", f"{COMPARE} Be stubborn.", *docs, "--max-revisions", "2")

    done, accepted = cli(*stubborn), cli(*stubborn, "--accept-any")
    required = cli(*stubborn, "--require-closed", "--accept-any")

    assert (done.returncode, accepted.returncode, required.returncode) == (4, 0, 4)
    assert done.stdout.startswith(REPORTS[0])
    assert "the result is open: 1 critique remains" in done.stderr
    assert "citation, [1], at" in done.stderr
    assert "the result is not closed (1 critique remains), which was required" in required.stderr


def test_a_report_that_was_cut_off_is_not_to_be_built_on(cli: Cli, docs: tuple[str, str]) -> None:
    done = cli("agent", f"{COMPARE} Be endless.", *docs)

    assert (done.returncode, done.stdout.startswith(REPORTS[1])) == (4, True), done.stderr
    assert "Not to be built on: the report was cut off." in done.stderr


def test_a_prompt_that_fits_neither_path_names_the_option(cli: Cli) -> None:
    done = cli("agent", "Paint a tree.")

    assert (done.returncode, done.stdout) == (4, "")
    assert "(unrouted)" in done.stderr
    assert "give --mode research or --mode code" in done.stderr


def test_a_line_of_a_batch_without_an_answer(cli: Cli) -> None:
    done = cli("batch", "-", "--command", "agent", "--yes", stdin='"Paint a tree."\n')

    row = json.loads(done.stdout)
    assert (done.returncode, row["stop_reason"]) == (4, "unrouted"), done.stderr
    assert (row["answer"], row["doubt"]) == (None, "there is no answer")


def test_a_folder_that_is_not_allowed_fails_the_run(cli: Cli) -> None:
    done = cli("agent", COMPARE, "--docs", "/etc")

    assert (done.returncode, done.stdout) == (1, "")
    assert "MULL_DOCUMENTS" in done.stderr
    assert '"/etc"' in done.stderr
    assert "`mull doctor` shows the folders that may be searched" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_person_reviews_what_is_open(cli: Cli, docs: tuple[str, str]) -> None:
    stubborn = ("agent", f"{COMPARE} Be stubborn.", *docs, "--max-revisions", "1", "--review-open")
    run = cli(*stubborn, "--detach").stdout.strip()
    shown = until_waiting(cli, run)
    document = json.loads(cli("review", run, "--json").stdout)

    scored = cli("review", run, "--score", "1")
    said = cli("review", run, "--accept", "--author", "ann")
    result = json.loads(cli("watch", run, "--json").stdout)

    assert REPORTS[0] in shown.stdout
    assert "--score" not in shown.stderr
    assert document["actions"] == ["accept", "revise", "replace"]
    assert scored.returncode == 2
    assert said.returncode == 0, said.stderr
    assert (result["stop_reason"], result["open"]) == ("accepted_by_person", True)


def test_the_code_alone_is_standard_output(cli: Cli) -> None:
    done = cli("agent", ADD)

    assert (done.returncode, done.stdout) == (0, FIXED), done.stderr
    assert nodes(done.stderr) == ["retrieve", "route", *["generate_code", "test_code"] * 2]
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
    stubborn = f"{ADD} Be stubborn.\n\n>>> add(1, 2)\n3\n"

    done = cli("agent", stubborn, "--max-revisions", "2", "--require-closed")

    assert done.returncode == 4
    assert done.stdout == BROKEN
    assert "the result is open: a test still fails: " in done.stderr
    assert "got -1" in done.stderr


def test_a_wrong_test_of_the_models_own_is_seen_wherever_the_result_is(
    cli: Cli, tmp_path: Path
) -> None:
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


def test_a_turn_searches_the_folder_that_it_is_given(cli: Cli, environment: dict[str, str]) -> None:
    folder = environment["MULL_DOCUMENTS"]

    found = cli("turn", "Search it.", "--docs", folder, "--tools", "documents", "--json")
    without = cli("turn", "Search it.", "--tools", "documents", "--json")
    elsewhere = cli("turn", "Search it.", "--docs", "/etc", "--max-steps", "1", "--json")

    result = json.loads(found.stdout)
    assert (found.returncode, result["tools"]) == (0, ["search_documents", "read_document"])
    assert result["calls"][0]["status"] == "ok"
    assert "Kafka keeps records in a log" in result["answer"]
    assert (without.returncode, "documents with docs" in without.stderr) == (2, True)
    said = json.loads(without.stdout)["error"]
    assert said.startswith(
        "the run failed. InvalidRequest: tools: the worker has no tool documents"
    )
    assert json.loads(elsewhere.stdout)["calls"][0]["status"] == "error"
    assert "MULL_DOCUMENTS" in json.loads(elsewhere.stdout)["calls"][0]["content"]
