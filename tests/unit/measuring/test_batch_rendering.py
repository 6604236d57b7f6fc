"""What people see of a batch: where it stands, and how it ended."""

import pytest

from commands.kinds.batch import Batch as BatchKind
from commands.rendering.batch import BatchLive, print_progress, print_result
from reflection.batch.request import BatchRequest
from reflection.batch.result import BatchProgress
from reflection.batch.state import Batch
from reflection.run import Usage
from tests.unit.critique.shown import console, written

SPENT = Usage(calls=1, input_tokens=900, output_tokens=100, cost_usd=0.02)


def begun(items: int) -> Batch:
    variant = {"name": "a", "workflow": "ReflectOnResultWorkflow", "takes": {"query": "query"}}
    request = {"items": [{"query": "q"}] * items, "variants": [variant], "max_concurrency": 32}
    return Batch(BatchRequest.model_validate(request), "calibrate-x")


def ended(batch: Batch, *errors: str | None) -> Batch:
    """End a run each: with a result, or with this error."""
    for error in errors:
        planned = batch.next()
        assert planned
        if error is None:
            batch.ended(planned, "completed", SPENT)
        else:
            batch.ended(planned, "failed", error=error)
    return batch


def shown(batch: Batch) -> list[str]:
    on = console()
    print_progress(on, batch.progress())
    return written(on).splitlines()


def outcome(batch: Batch) -> list[str]:
    on = console()
    print_result(on, batch.result())
    return written(on).splitlines()


def test_a_batch_that_goes_on() -> None:
    """How many runs have ended, run and wait stands there, and what the ended ones cost."""
    batch = ended(begun(5), None, None)
    batch.next()

    assert shown(batch) == [
        "batch  2 of 5 runs ended",
        "runs   1 running, 0 failed, 0 cancelled, 2 not started",
        "spent  2,000 tokens, cost $0.040",
    ]


def test_a_batch_that_is_about_to_end() -> None:
    """While its last runs are cancelled, why is said already, and each warning."""
    batch = ended(begun(2), None)
    batch.next()
    batch.warnings.append("no such search attribute")
    batch.stop("finished_by_person", "finished by ann")

    assert shown(batch) == [
        "batch    1 of 2 runs ended",
        "runs     1 running, 0 failed, 0 cancelled, 0 not started",
        "ending   finished_by_person",
        "spent    1,000 tokens, cost $0.020",
        "warning  no such search attribute",
    ]


def test_a_batch_that_has_ended() -> None:
    """Why it ended stands with what became of its runs; a failed one's cost is not known."""
    batch = ended(begun(6), None, "RateLimitError: \x1b[1mno", "Timeout: slow", "Timeout: slow")
    batch.stop("budget", "the next run does not fit")

    assert outcome(batch) == [
        "batch     4 of 6 runs",
        "ended by  budget: the next run does not fit",
        "runs      1 completed, 3 failed, 0 cancelled, 2 not started",
        "failures  2  Timeout: slow",
        "          1  RateLimitError: ␛[1mno",
        "spent     tokens unknown, cost unknown",
    ]


def test_only_the_commonest_failures_are_shown() -> None:
    """Of four reasons the three stand there that most runs failed for, or the first runs."""
    lines = outcome(ended(begun(5), "a", "b", "c", "d", "d"))

    assert lines[3:-1] == ["failures  2  d", "          1  a", "          1  b"]


@pytest.mark.parametrize("terminal", [True, False])
def test_followed_it_is_said_at_each_tenth(
    terminal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of twenty runs every other one is a line, and why it ended; in a terminal none is."""
    live, batch = BatchLive(console(terminal=terminal)), begun(20)
    for _ in range(20):
        live.show(ended(batch, None).progress())
    live.end(batch.result())

    lines = capsys.readouterr().err.splitlines()

    assert len(lines) == (0 if terminal else 12)
    assert not lines or lines[-1] == "all 20 runs have ended"


def test_what_is_under_way_is_one_line() -> None:
    """Failed runs are named only where there are any."""
    seen = BatchProgress(
        total=2_000, done=1_234, running=4, failed=3, cancelled=0, tokens=None, cost_usd=0.5
    )

    assert BatchLive(console()).busy(seen) == (
        "1,234 of 2,000 runs, 3 failed, 4 running, tokens unknown, cost $0.50"
    )


def test_where_the_findings_are_is_said() -> None:
    """A batch knows its runs alone; what they show together the command that began it tells."""
    said = BatchKind().further("calibrate-x")

    assert said == (
        "For the findings, run the same calibrate or compare command again with --id calibrate-x."
    )
