"""What is said with a calibration's numbers, and the table that has them."""

from io import StringIO

import pytest
from rich.console import Console

from commands.measuring.judges.findings import Findings, find
from commands.measuring.judges.plan import Evaluated, Plan
from commands.measuring.judges.table import print_findings
from reflection.batch.result import BatchResult
from reflection.critique.calibration.records import Example, Scored

LONG = "openai/a-model-with-a-very-long-name-2026-11-20-preview"


def found(scores: list[float | None], judge: str = "a/b", writer: str | None = None) -> Findings:
    """One judge's scores of drafts that are labelled 1, 0, 1, 0 and so on."""
    examples = [
        Example(query="q", draft=f"d{place}", label=1 - place % 2, writer=writer)
        for place in range(len(scores))
    ]
    evaluations = [
        Evaluated(
            Scored(example=place, judge=judge, score=score, tokens=10, cost_usd=0.1),
            f"b/{place}-judge-1-0",
            score,
            (),
            None if score is not None else "no reply in time",
        )
        for place, score in enumerate(scores)
    ]
    batch = BatchResult(
        runs=(),
        stop_reason="completed",
        stop_explanation="all have ended",
        total=len(scores),
        completed=len(scores),
        failed=0,
        cancelled=0,
        not_started=0,
        tokens=10 * len(scores),
        cost_usd=0.1,
    )
    plan = Plan(examples, [judge], "general", 1, reversed=False, guardrails=True)
    return find("b", plan, 0.5, evaluations, batch)


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        (found([0.9, 0.1], "embedded/toy"), "embedded/toy is the embedded toy model: as a judge"),
        (found([0.9, 0.1]), "2 scored examples, of 2, are few"),
        (found([0.9]), "All labels are on one side of 0.5"),
        (found([0.9, 0.1]), 'No "writer" is given'),
        (found([0.9, 0.1], writer="c/d"), "No judge is the writer of some drafts alone"),
        (found([0.5, 0.5, 0.5]), "a/b gives every draft the same score, 0.50"),
        (found([0.9, None]), "1 evaluation by a/b failed: no reply in time"),
    ],
)
def test_what_is_said(findings: Findings, said: str) -> None:
    """Each thing that a reader of the numbers has to know is one line."""
    assert any(each.startswith(said) for each in findings.remarks())


def test_a_good_judge_on_many_drafts_needs_no_remark() -> None:
    """With writers on both sides and thirty drafts there is nothing to warn of."""
    scores = [0.9 - 0.8 * (place % 2) + place / 1_000 for place in range(30)]
    findings = found([*scores], "a/b", writer="a/b")

    assert findings.remarks() == [
        "No judge is the writer of some drafts alone, so there is no self-preference gap."
    ]


def test_the_same_evaluations_give_the_same_intervals() -> None:
    """Resampling is seeded, so that a result can be read again."""
    assert found([0.9, 0.2, 0.7, 0.4]).document() == found([0.9, 0.2, 0.7, 0.4]).document()


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_its_terminal(width: int) -> None:
    """No row is wider or wraps into another, whatever the judge's name is."""
    written = StringIO()
    console = Console(file=written, width=width)

    print_findings(console, found([0.9, 0.1, 0.8, 0.3], LONG))

    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.split() == ["AUC,", "pass", "against", "fail", "1", "1.00"] for line in lines)
