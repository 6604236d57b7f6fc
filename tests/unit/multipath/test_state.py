"""S and its transitions: the first state, and every edge of the source's section 2.3."""

from collections.abc import Callable

import pytest

from mull.multipath.loop import Run
from mull.multipath.parts import Critique, Mode, Passage
from mull.multipath.request import MultiPathRequest
from mull.multipath.result import Decision, Routing
from mull.multipath.suite import Suite
from tests.unit.multipath.agent_runs import CASES, draft, verdict
from tests.unit.runs import START

Left = Callable[[Run], Decision]

ISSUE = Critique(aspect="clarity", advice="say which year")
OTHER = Critique(aspect="citation", advice="source 1 says 1931", sentence="In 1932.", cited=1)
PASSAGE = Passage(id="a", source="a.md", first_line=1, last_line=2, score=1.0, text="In 1931.")


def retrieve(*passages: Passage) -> Left:
    return lambda run: run.retrieved(passages, START)


def route(mode: Mode | None) -> Left:
    routing = Routing(mode=mode, reason="a reason", chosen_by="model")
    return lambda run: run.routed(routing, START)


def generate(run: Run) -> Decision:
    assert run.mode is not None
    return run.generated(draft(len(run.drafts), run.mode), START)


def reflect(*critiques: Critique, ideas: tuple[str, ...] = ()) -> Left:
    return lambda run: run.reflected(critiques, ideas, START)


def pass_tests(*passes: bool) -> Left:
    return lambda run: run.tested(verdict(*passes, message="f(2) is 3, not 4"), START)


FAIL, PASS = pass_tests(True, False, True), pass_tests(True, True, True)


def test_the_first_state() -> None:
    """S begins as in section 2.1: D and K are empty, M is undefined, T_m is "", E none, R_n 0."""
    run = Run(MultiPathRequest(prompt="p"))

    assert (run.subject, run.sources, run.mode, run.output) == ("p", (), None, "")
    assert (run.critiques, run.suggestions, run.error, run.revisions) == ((), (), None, 0)


@pytest.mark.parametrize(
    ("after", "mode", "drafts", "left", "leads_to", "reason"),
    [
        ("retrieve", None, 0, retrieve(), "route", "no documents were given, or none matched"),
        ("retrieve", None, 0, retrieve(PASSAGE), "route", "1 passage retrieved"),
        ("route", None, 0, route("research"), "generate_report", "the path is research"),
        ("route", None, 0, route("code"), "generate_code", "the path is code"),
        ("route", None, 0, route(None), "unrouted", "could not choose"),
        ("generate_report", "research", 0, generate, "reflect_on_report", "draft 1 is written"),
        ("generate_report", "research", 2, generate, "reflect_on_report", "draft 3 is written"),
        ("reflect_on_report", "research", 1, reflect(), "consistent", "nothing to fix"),
        ("reflect_on_report", "research", 3, reflect(), "consistent", "nothing to fix"),
        ("reflect_on_report", "research", 1, reflect(ideas=("idea",)),
         "consistent", "nothing to fix"),
        ("reflect_on_report", "research", 2, reflect(ISSUE, OTHER),
         "generate_report", "2 critiques to fix"),
        ("reflect_on_report", "research", 3, reflect(ISSUE),
         "max_revisions", "1 critique left after 3 drafts"),
        ("reflect_on_report", "research", 4, reflect(ISSUE),
         "max_revisions", "1 critique left after 4 drafts"),
        ("generate_code", "code", 0, generate, "test_code", "draft 1 is written"),
        ("generate_code", "code", 2, generate, "test_code", "draft 3 is written"),
        ("test_code", "code", 1, PASS, "passed", "every test passes"),
        ("test_code", "code", 3, PASS, "passed", "every test passes"),
        ("test_code", "code", 2, FAIL, "generate_code", "f(2) is 3, not 4"),
        ("test_code", "code", 3, FAIL, "max_revisions", "after 3 drafts"),
        ("test_code", "code", 4, FAIL, "max_revisions", "after 4 drafts"),
    ],
)  # fmt: skip
def test_the_edges(
    after: str, mode: Mode | None, drafts: int, left: Left, leads_to: str, reason: str
) -> None:
    """With R_max = 3 each node leads where section 2.3 says, and a reason counts what there is."""
    run = Run(MultiPathRequest(prompt="p", max_revisions=3))
    run.suite = Suite(origin="user", kind="cases", cases=CASES)
    if mode is not None:
        route(mode)(run)
    for _ in range(drafts):
        generate(run)

    decision = left(run)

    assert decision.after == after
    assert (decision.next or decision.stop_reason) == leads_to
    assert run.goes_on is (decision.next is not None)
    assert reason in decision.reason
