"""Runs of the agent, folded as the workflow folds them, for tests."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from reflection.multipath.loop import Run
from reflection.multipath.request import MultiPathRequest
from reflection.multipath.result import Draft, Routing
from reflection.multipath.state import Critique, Mode, Passage
from reflection.multipath.suite import Case, Failure, Suite, TestOutcome, TestReport
from reflection.run import Part, Spending

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
PASSAGE = Passage(
    id="a1", source="tides/fundy.md", first_line=3, last_line=7, score=2.5, text="It is high."
)
CALLS = ("double(1)", "double(2)", "double(0)")
SUITE = Suite(
    origin="model",
    kind="cases",
    cases=tuple(Case(call=each, expected="2") for each in CALLS),
    entry="double",
)


def begun(mode: Mode | None, reason: str = "it asks for it", **fields: Any) -> Run:
    """A run that has retrieved one passage and chosen its path."""
    run = Run(MultiPathRequest(**{"prompt": "How high is the tide?", **fields}))
    run.retrieved([PASSAGE])
    run.after = "retrieve"
    run.move(START)
    run.ledger.pay("evaluating", spending(40, 10), 1)
    run.routed(Routing(mode=mode, reason=reason, chosen_by="model"))
    run.after = "route"
    run.move(START)
    return run


def researched(*found: Sequence[str], **fields: Any) -> Run:
    """Write a report after the other; of each this advice is what its reflection found."""
    run = begun("research", **fields)
    for index, advice in enumerate(found):
        write(run, "research", f"Report {index} [1].")
        critiques = [Critique(aspect="clarity", advice=each, sentence="It.") for each in advice]
        run.reflected(tuple(critiques), ("an idea",))
        run.after = "reflect_on_report"
        run.move(START)
    return run


def coded(*passed: Sequence[bool], suite: Suite = SUITE, **fields: Any) -> Run:
    """Write code after code; of each these are the tests that pass."""
    run = begun("code", **fields)
    run.suite = suite
    for index, each in enumerate(passed):
        write(run, "code", f"n = {index}\n")
        run.tested(report(each))
        run.after = "test_code"
        run.move(START)
    return run


def report(passed: Sequence[bool]) -> TestReport:
    outcomes = tuple(
        TestOutcome(test=call, passed=held, expected="2", got="3")
        for call, held in zip(CALLS, passed, strict=True)
    )
    failed = next((each for each in outcomes if not each.passed), None)
    error = failed and Failure(
        message="it returned another value", test=failed.test, expected="2", got="3"
    )
    return TestReport(
        outcomes=outcomes,
        passed=sum(passed),
        total=3,
        error=error,
        forgeable=False,
        status="ok",
        backend="bubblewrap",
    )


def write(run: Run, mode: Mode, text: str, **more: Any) -> None:
    """Add a draft of 100 tokens in and 200 out, and go on from it."""
    index = len(run.drafts)
    part: Part = "revising" if index else "generating"
    run.ledger.pay(part, spending(100, 200), 1)
    known: dict[str, Any] = {
        "index": index,
        "mode": mode,
        "text": text,
        "origin": "refined" if index else "generated",
        "model": "openai/gpt-test",
        "timestamp": START + timedelta(seconds=10 * index),
    }
    run.generated(Draft(**known | more))
    run.after = "generate_report" if mode == "research" else "generate_code"
    run.move(START)


def spending(sent: int, received: int) -> Spending:
    return Spending(
        calls=1, input_tokens=sent, output_tokens=received, cached_tokens=0, cost_usd=0.001
    )
