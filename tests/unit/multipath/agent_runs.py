"""Whole runs of the agent for tests: the real state decides over what tests write."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mull.multipath.loop import Run
from mull.multipath.parts import Critique, Mode, Passage
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import Draft, MultiPathResult, Routing
from mull.multipath.suite import Case, Failure, Suite, TestOutcome, TestReport
from tests.unit.runs import START, spending

WRITER = "openai/gpt-test"
PROMPT = "Compare Kafka and Pulsar for an audit log."
TASK = "Write add(a, b), which adds two numbers."
UNSUPPORTED = Critique(
    aspect="citation",
    advice="The passage does not say so.",
    sentence="Kafka deletes records after a day [1].",
    cited=1,
)
UNCLEAR = Critique(aspect="clarity", advice="Say which release is meant.")
PASSAGES = (
    Passage(
        id="a1", source="kafka.md", first_line=3, last_line=9, score=4.25, text="Kafka is a log."
    ),
    Passage(
        id="b2", source="papers/pulsar.pdf", first_line=1, last_line=1, score=2.5,
        text="Pulsar has tiers.", page=4,
    ),
)  # fmt: skip
CASES = (
    Case(call="add(1, 2)", expected="3"),
    Case(call="add(0, 0)", expected="0"),
    Case(call="add(-1, 1)", expected="0"),
)
SUITE = Suite(origin="model", kind="cases", cases=CASES, entry="add")


class Clock:
    """One second later each time it is asked."""

    def __init__(self) -> None:
        self.seconds = 0

    def __call__(self) -> datetime:
        """Return the next moment."""
        self.seconds += 1
        return START + timedelta(seconds=self.seconds)


def routed(mode: Mode | None, passages: Sequence[Passage] = PASSAGES, **fields: Any) -> Run:
    """Retrieve passages, and choose a path by a model's word."""
    asked: dict[str, Any] = {"prompt": TASK if mode == "code" else PROMPT, "model": WRITER}
    run, clock = Run(MultiPathRequest(**asked | fields)), Clock()
    run.retrieved(passages, clock())
    reason = "it asks for a comparison" if mode == "research" else "it asks for a function"
    run.pay("evaluating", spending(50, 10), 1)
    run.routed(Routing(mode=mode, reason=reason, chosen_by="model"), clock())
    return run


def researched(
    found: Sequence[Sequence[Critique]], ideas: Sequence[str] = (), **fields: Any
) -> Run:
    """Write one report after the other until the run ends; K is given."""
    run = routed("research", **fields)
    for critiques in found:
        if run.stopped:
            break
        write(run, f"Kafka keeps a log [1]. Report {len(run.drafts) + 1}.")
        run.reflected(tuple(critiques), tuple(ideas), moment(run))
    return run


def coded(reports: Sequence[TestReport], suite: Suite = SUITE, **fields: Any) -> Run:
    """Write one draft of the code after the other until the run ends."""
    run = routed("code", (), **fields)
    run.suite = suite
    for report in reports:
        if run.stopped:
            break
        write(run, f"def add(a, b):\n    return a + b  # {len(run.drafts) + 1}\n")
        run.tested(report, moment(run))
    return run


def draft(index: int, mode: Mode, **known: Any) -> Draft:
    """Return a draft that is known by these fields alone."""
    least: dict[str, Any] = {"index": index, "mode": mode, "text": "x", "origin": "generated"}
    return Draft(**least | known)


def write(run: Run, text: str, **more: Any) -> None:
    """Add a draft of 100 tokens in and 200 out."""
    index = len(run.drafts)
    run.pay("revising" if index else "generating", spending(100, 200), 1)
    known: dict[str, Any] = {
        "index": index, "mode": run.mode, "text": text,
        "origin": "refined" if index else "generated", "model": WRITER, "attempts": 1,
        "spending": spending(100, 200), "timestamp": START + timedelta(seconds=10 * index),
    }  # fmt: skip
    run.generated(Draft(**known | more), moment(run))


def moment(run: Run) -> datetime:
    """Return when the next decision is made: three seconds after the last one."""
    return START + timedelta(seconds=3 * len(run.decisions))


def verdict(*passes: bool, message: str | None = None) -> TestReport:
    """Return what came of the three cases; one that fails gave 99."""
    outcomes = tuple(
        TestOutcome(test=case.call, passed=True, expected=case.expected)
        if passed
        else failing(case)
        for case, passed in zip(CASES, passes, strict=False)
    )
    failed = next((each for each in outcomes if not each.passed), None)
    error = None if failed is None else broken(failed, message)
    return TestReport(
        outcomes=outcomes, passed=sum(passes), total=len(passes), error=error, forgeable=False,
        status="ok", backend="bubblewrap", wall_seconds=0.25, cpu_seconds=0.125,
        peak_memory_bytes=20 * 2**20,
    )  # fmt: skip


def failing(case: Case) -> TestOutcome:
    """Return what came of a case that gave 99."""
    said = f"it returned 99, not {case.expected}"
    return TestOutcome(test=case.call, passed=False, expected=case.expected, got="99", message=said)


def broken(failed: TestOutcome, message: str | None = None) -> Failure:
    """Return E of a test that failed."""
    return Failure(
        message=message or failed.message or "the test fails", test=failed.test,
        expected=failed.expected, got=failed.got, traceback='  File "main.py", line 2, in add',
    )  # fmt: skip


def standing(run: Run, step: str = "generate_report", in_flight: int = 1) -> MultiPathResult:
    """Say where a run stands that goes on, or waits for a person."""
    waits = run.last is not None and run.last.waits_for_review
    at = "waiting_for_review" if waits else step
    found: MultiPathResult = run.record(step=at, in_flight=in_flight)
    return found
