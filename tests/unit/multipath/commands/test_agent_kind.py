"""What the command line knows of runs of the agent."""

from pathlib import Path

import pytest

from commands.kinds import MultiPath
from commands.runs.reviewing import note
from reflection.multipath.loop import Run, result
from reflection.multipath.request import MultiPathRequest
from tests.unit.multipath.commands.agent_runs import (
    UNCLEAR,
    coded,
    researched,
    routed,
    standing,
    verdict,
)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (researched([[]]), None),
        (
            researched([[UNCLEAR]], max_revisions=1),
            "the result is open (1 critique remains) and not closed",
        ),
        (
            coded([verdict(True, False)], max_revisions=1),
            "the result is open (a test still fails: it returned 99, not 0) and not closed",
        ),
    ],
    ids=["closed", "critiques", "error"],
)
def test_whatever_is_open_misses_the_bar(run: Run, said: str | None) -> None:
    """A result with critiques or an error is not the closed one that was asked for."""
    assert MultiPath().below(result(run), 1.0) == said


def test_only_an_output_is_conclusive() -> None:
    """A run without a path has nothing to give."""
    assert MultiPath().conclusive(result(researched([[UNCLEAR]] * 3)))
    assert not MultiPath().conclusive(result(routed(None)))


@pytest.mark.parametrize(
    ("mode", "needed", "perhaps"),
    [
        ("research", ("mull", "mull-llm"), ()),
        ("code", ("mull", "mull-llm", "mull-code"), ()),
        (None, ("mull", "mull-llm"), ("mull-code",)),
    ],
)
def test_code_has_a_queue_of_its_own(
    mode: str | None, needed: tuple[str, ...], perhaps: tuple[str, ...]
) -> None:
    """A run that may turn out to be code is not refused where nobody could test it."""
    request = MultiPathRequest.model_validate({"prompt": "p", "mode": mode})

    assert MultiPath().queues(request) == needed
    assert MultiPath().perhaps(request) == perhaps


def test_the_output_alone_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Code in a pipe is to the letter what the result holds; all else is on standard error."""
    MultiPath().print_result(result(coded([verdict(True, True, True)])))

    said = capsys.readouterr()
    assert said.out == "def add(a, b):\n    return a + b  # 1\n"
    assert "every test passes (passed)" in said.err


def test_a_file_takes_the_place_of_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The code is in the file, whole, and the command says where."""
    kind, ended = MultiPath(tmp_path / "add.py"), result(coded([verdict(True, True, True)]))

    kind.keep(ended)
    kind.print_result(ended)

    said = capsys.readouterr()
    assert said.out == ""
    assert (tmp_path / "add.py").read_text() == "def add(a, b):\n    return a + b  # 1\n"
    assert f"wrote the code to {tmp_path / 'add.py'}\n" in said.err


def test_a_text_ends_with_one_line_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report without one gets it, in a pipe and in a file alike."""
    ended = result(researched([[]])).model_copy(update={"output": "# Report\n\nIt is so.\n\n"})
    short = ended.model_copy(update={"output": "It is so."})

    MultiPath().print_result(short)
    MultiPath(tmp_path / "report.md").keep(ended)

    assert capsys.readouterr().out == "It is so.\n"
    assert (tmp_path / "report.md").read_text() == "# Report\n\nIt is so.\n"


def test_who_replaces_a_result_is_told_that_nobody_checks_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is closed by that, and no other review has a note."""
    note(MultiPath(), "accept")
    note(MultiPath(), "replace")

    said = "Note: nobody tests or reflects on what a person wrote.\n"
    assert capsys.readouterr().err == said


def test_a_file_that_is_not_written_comes_with_its_command() -> None:
    """Who detaches from a run learns how to get what --out would have."""
    said = MultiPath(Path("my report.md")).unwritten("agent-kafka")

    assert said == (
        "my report.md is not written; once the run has ended:"
        " starter.py show agent-kafka > 'my report.md'"
    )
    assert MultiPath().unwritten("agent-kafka") is None


def test_a_run_without_a_result_is_told_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its prompt, decisions, sources and spending stand there, and no call in flight."""
    run = researched([[UNCLEAR]])

    MultiPath().print_standing(standing(run), run.decisions, ended=True)

    said = capsys.readouterr()
    assert said.out == ""
    assert "in flight" not in said.err
    for part in ("Compare Kafka and Pulsar", "kafka.md:3-9", "reflect_on_report", "in all"):
        assert part in said.err


def test_without_an_output_no_file_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stood in the file before stays there."""
    (tmp_path / "report.md").write_text("before")

    MultiPath(tmp_path / "report.md").keep(result(routed(None)))

    assert (tmp_path / "report.md").read_text() == "before"
    assert "is not written: there is no output" in capsys.readouterr().err


def test_a_person_reviews_the_draft_that_would_be_kept() -> None:
    """The best code so far, with its tests and its error, is what a machine is shown."""
    reports = [verdict(True, True, False), verdict(False, False, True)]
    run = coded(reports, max_revisions=2, review_open=True)

    document = MultiPath().review_document(standing(run))

    assert isinstance(document["draft"], dict)
    assert (document["mode"], document["draft"]["index"]) == ("code", 0)
    assert document["draft"]["error"]["test"] == "add(-1, 1)"
    assert MultiPath().waiting(standing(run), run.decisions) == (None,)


def test_a_run_that_ends_badly_gives_its_best_draft() -> None:
    """What a cancelled run had is not lost."""
    run = researched([[UNCLEAR]])

    assert MultiPath().so_far(standing(run)) == "Kafka keeps a log [1]. Report 1."
    assert MultiPath().so_far(standing(routed("code"))) is None
    assert MultiPath().waiting(standing(run), run.decisions) is None
