"""`agent` on the research path, as scripts and people use it."""

import json

import pytest

from tests.e2e.agent.model import IDEA, REPORTS
from tests.e2e.conftest import Cli, listed, until_waiting

COMPARE = "Compare Kafka with a queue."


@pytest.fixture
def docs(environment: dict[str, str]) -> tuple[str, str]:
    return ("--docs", environment["MULL_DOCUMENTS"])


def nodes(said: str) -> list[str]:
    return [line.split()[0] for line in said.splitlines() if " → " in line]


def test_the_report_alone_is_standard_output(cli: Cli, docs: tuple[str, str]) -> None:
    """Findings, further considerations and sources; each node is a line on standard error."""
    done = cli("agent", COMPARE, *docs)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(REPORTS[1])
    assert "## Further considerations" in done.stdout
    assert "- [1] `kafka.md`" in done.stdout
    assert nodes(done.stderr) == [
        "retrieve",
        "route",
        "generate_report",
        "reflect_on_report",
        "generate_report",
        "reflect_on_report",
    ]
    assert "draft 1: 1 critique to fix → generate_report" in done.stderr
    assert "Say how long it keeps them, as source 1 does." in done.stderr
    assert "→ stop: consistent" in done.stderr
    assert "kafka.md:1" in done.stderr
    assert "/namespaces/agent/workflows/agent-compare-kafka-" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_json_is_one_document_and_nothing_else(cli: Cli, docs: tuple[str, str]) -> None:
    """A machine reads standard output whole: K of each draft, the sources, what is open."""
    done = cli("agent", "-", *docs, "--json", "--id", "listed-agent", stdin=f"{COMPARE}\n")
    shown, row = cli("show", "listed-agent"), listed(cli, "listed-agent")

    result = json.loads(done.stdout)
    assert (result["mode"], result["stop_reason"], result["open"]) == (
        "research", "consistent", False,
    )  # fmt: skip
    assert [len(each["critiques"]) for each in result["drafts"]] == [1, 0]
    assert result["sources"][0]["passage"]["source"] == "kafka.md"
    assert (result["prompt"], result["suggestions"]) == (COMPARE, [IDEA])
    assert shown.stdout.startswith(REPORTS[1])
    assert "stop: consistent" in shown.stderr
    assert (row["workflow"], row["MullRevisions"]) == ("MultiPathWorkflow", 2)


def test_a_report_that_stays_open_says_so(cli: Cli, docs: tuple[str, str]) -> None:
    """It is printed all the same, with exit code 4, or 0 where any result is accepted."""
    stubborn = ("agent", f"{COMPARE} Be stubborn.", *docs, "--max-revisions", "2")

    done, accepted = cli(*stubborn), cli(*stubborn, "--accept-any")
    required = cli(*stubborn, "--require-closed", "--accept-any")

    assert (done.returncode, accepted.returncode, required.returncode) == (4, 0, 4)
    assert done.stdout.startswith(REPORTS[0])
    assert "the result is open: 1 critique remains" in done.stderr
    assert "citation, [1], at" in done.stderr
    assert "the result is not closed (1 critique remains), which was required" in (required.stderr)


def test_a_report_that_was_cut_off_is_not_to_be_built_on(cli: Cli, docs: tuple[str, str]) -> None:
    """Whatever nobody found wrong with the part that came."""
    done = cli("agent", f"{COMPARE} Be endless.", *docs)

    assert (done.returncode, done.stdout.startswith(REPORTS[1])) == (4, True), done.stderr
    assert "Not to be built on: the report was cut off." in done.stderr


def test_a_prompt_that_fits_neither_path_names_the_option(cli: Cli) -> None:
    """There is no result, which is exit code 4, and --mode decides it."""
    done = cli("agent", "Paint a tree.")

    assert (done.returncode, done.stdout) == (4, "")
    assert "(unrouted)" in done.stderr
    assert "give --mode research or --mode code" in done.stderr


def test_a_line_of_a_batch_without_an_answer(cli: Cli) -> None:
    """It is not to be built on, and its batch ends with 4."""
    done = cli("batch", "-", "--command", "agent", "--yes", stdin='"Paint a tree."\n')

    row = json.loads(done.stdout)
    assert (done.returncode, row["stop_reason"]) == (4, "unrouted"), done.stderr
    assert (row["answer"], row["doubt"]) == (None, "there is no answer")


def test_a_folder_that_is_not_allowed_fails_the_run(cli: Cli) -> None:
    """The error names the folder and what the worker's operator can do, and nothing else."""
    done = cli("agent", COMPARE, "--docs", "/etc")

    assert (done.returncode, done.stdout) == (1, "")
    assert "MULL_DOCUMENTS" in done.stderr
    assert '"/etc"' in done.stderr
    assert "`mull doctor` shows the folders that may be searched" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_person_reviews_what_is_open(cli: Cli, docs: tuple[str, str]) -> None:
    """An open result waits, is shown with what is wrong with it, and can be accepted."""
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
