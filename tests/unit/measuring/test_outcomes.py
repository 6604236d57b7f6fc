"""What the answers of a comparison count for, and what is left of its budgets."""

import pytest

from commands.measuring.batches.reading import Read
from commands.measuring.methods.outcomes import answered, outcomes
from commands.measuring.methods.plan import Plan
from commands.measuring.methods.questions import Question
from commands.measuring.methods.scoring import remaining
from reflection.batch.result import BatchResult, Run, RunStatus

PLAN = Plan(
    questions=[Question("Why?", None)],
    methods=["single"],
    model=None,
    judges=["a/b"],
    answers="text",
    criteria="general",
    max_revisions=1,
    max_responses=None,
    score_threshold=None,
    guardrails=True,
    seed=0,
)


def run(status: RunStatus, tokens: int | None = None, cost_usd: float | None = None) -> Run:
    return Run(
        item=0,
        variant="single",
        repeat=0,
        workflow_id="w",
        status=status,
        tokens=tokens,
        cost_usd=cost_usd,
    )


def test_a_run_that_failed_is_worth_nothing() -> None:
    """Where answers are scored, a method that gives none has 0 and is not left out."""
    answers = answered(PLAN, [Read(run("failed"), None)])

    assert [each.score for each in outcomes(PLAN, answers, {})] == [0.0]


def test_a_result_that_is_not_kept_any_more_is_no_failure() -> None:
    """What the server has dropped counts neither for nor against a method."""
    assert answered(PLAN, [Read(run("completed"), None), Read(run("not_started"), None)]) == []


@pytest.mark.parametrize(
    ("runs", "tokens", "usd"),
    [
        ([run("completed", 100, 0.25), run("completed", 300, 0.5)], 600, 0.25),
        ([run("completed", 300, 0.25), run("failed")], 400, 0.5),
        ([run("completed", 300, 0.25), run("not_started")], 700, 0.75),
        ([run("failed")], 1_000, 1.0),
    ],
)
def test_what_is_left_of_a_budget(runs: list[Run], tokens: int, usd: float) -> None:
    """A run whose spending is unknown is taken to have spent as much as the largest."""
    spent = BatchResult(
        runs=tuple(runs),
        stop_reason="completed",
        stop_explanation="",
        total=len(runs),
        completed=0,
        failed=0,
        cancelled=0,
        not_started=0,
        tokens=None,
        cost_usd=None,
    )

    left = remaining({"budget_tokens": 1_000, "budget_usd": 1.0}, [spent])

    assert left == {"budget_tokens": tokens, "budget_usd": pytest.approx(usd)}
