"""What the longest run allowed takes: its result and its progress fit a payload."""

import pytest

from mull.multipath import loop
from mull.multipath.loop import Run
from mull.multipath.parts import Critique, Mode, Passage
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import Routing
from mull.multipath.suite import Failure, Suite, TestFile, TestOutcome, TestReport
from mull.multipath.verdict import bounded, brief
from mull.text import CUT_NOTE, cut_encoded, fitted
from tests.unit.multipath.agent_runs import draft
from tests.unit.runs import START

MOST_BYTES = 1_900_000


def longest(mode: Mode, character: str) -> Run:
    """A run in which every text is as long as may be, and every draft there may be is made."""
    worst = character * 60_001
    run = Run(
        MultiPathRequest(
            prompt=cut_encoded(character * 100_000, 100_000),
            mode=mode,
            max_revisions=10,
            passages=20,
            tests=TestFile(name="test_it.py", text=cut_encoded(character * 200_000, 200_000)),
            review_open=True,
        )
    )
    name = cut_encoded(worst, 1_000)
    passage = Passage(id="1", source=name, first_line=1, last_line=9, score=1.0, text=worst)
    run.retrieved([passage] * 20, START)
    run.routed(Routing(mode=mode, reason=cut_encoded(worst, 600), chosen_by="model"), START)
    for _ in range(100):
        run.warn(worst + str(len(run.warnings)))
    text, advice = cut_encoded(worst, 60_000), cut_encoded(worst, 600)
    critique = Critique(aspect="citation", advice=advice, sentence=advice, cited=1)
    report = _report(worst[:9_999])
    for index in range(15):
        if index >= 10:
            loop.grant(run, character * 4_000, character * 200, START)
        run.generated(draft(index, mode, text=text, origin="refined", timestamp=START), START)
        if mode == "research":
            run.reflected((critique,) * 20, (advice,) * 8, START)
        else:
            run.suite = Suite(origin="user", kind="pytest", file=run.request.tests)
            run.tested(report.model_copy(update={"passed": 3 if index else 4}), START)
    run.replace(cut_encoded(worst, 60_000), character * 200, START)
    run.settle("replaced_by_person", worst, START)
    return run


def _report(worst: str) -> TestReport:
    said = dict.fromkeys(("test", "expected", "got", "message", "traceback"), worst)
    failed, failure = TestOutcome(passed=False, **said), Failure(status=worst, **said)
    return TestReport(
        outcomes=brief([failed] * 100), passed=3, total=100, error=bounded(failure),
        forgeable=True, status="ok", backend="bubblewrap", output=cut_encoded(worst, 2_000),
    )  # fmt: skip


@pytest.mark.parametrize("character", ["a", "数", "\x01"])
@pytest.mark.parametrize("mode", ["research", "code"])
def test_the_longest_run_fits_a_payload(mode: Mode, character: str) -> None:
    """Fifteen drafts and a person's own, all texts as long as may be: each is cut to an event."""
    run = longest(mode, character)

    whole, standing = run.result(), fitted(run.record(step="generate_code"))

    assert len(whole.drafts) == 16
    assert len(whole.model_dump_json().encode()) < 512 * 1024
    assert whole.output == run.record().output
    assert whole.drafts[0].text.endswith(CUT_NOTE)
    assert "were cut" in whole.warnings[-1]
    assert len(standing.model_dump_json().encode()) < 512 * 1024
    assert sum(len(made.model_dump_json().encode()) for made in run.decisions) < MOST_BYTES
